// SPDX-License-Identifier: Apache-2.0
// A bounded queue, many producers, one consumer, no lock (D. Vyukov's scheme): how another thread speaks to an agent.
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

namespace redsum {

template <typename T>
class Ring {
 public:
  // Holds at least `capacity` items (rounded up to a power of two).
  explicit Ring(std::size_t capacity) : mask_(std::bit_ceil(capacity < 2 ? 2 : capacity) - 1), cells_(new Cell[mask_ + 1]) {
    for (std::size_t i = 0; i <= mask_; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
  }

  // Any thread. False = full, now; `item` is untouched then.
  bool push(T&& item) {
    std::size_t at = tail_.load(std::memory_order_relaxed);
    for (;;) {
      Cell& cell = cells_[at & mask_];
      const std::size_t turn = cell.turn.load(std::memory_order_acquire);
      if (turn == at) {
        if (!tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
        cell.item = std::move(item);
        cell.turn.store(at + 1, std::memory_order_release);
        return true;
      }
      if (turn < at) return false;
      at = tail_.load(std::memory_order_relaxed);
    }
  }

  // The consumer's thread. False = empty, now.
  bool pop(T& item) {
    Cell& cell = cells_[head_ & mask_];
    if (cell.turn.load(std::memory_order_acquire) != head_ + 1) return false;
    item = std::move(cell.item);
    cell.item = T{};
    cell.turn.store(head_ + mask_ + 1, std::memory_order_release);
    ++head_;
    return true;
  }

 private:
  struct Cell {
    std::atomic<std::size_t> turn{0};
    T item{};
  };
  const std::size_t mask_;
  std::unique_ptr<Cell[]> cells_;
  alignas(64) std::atomic<std::size_t> tail_{0};
  alignas(64) std::size_t head_ = 0;
};

}  // namespace redsum
