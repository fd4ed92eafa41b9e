// SPDX-License-Identifier: Apache-2.0
// Blocks of memory by power-of-two size, kept for reuse and bounded: an idle pool gives everything back. One thread.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include "transport/base/region.h"
#include "transport/base/status.h"

namespace redsum::client {

class BlockPool {
 public:
  // `bytes` at most 4 MiB; nullptr: no memory. Blocks are 64-byte aligned.
  std::byte* take(std::size_t bytes);
  void give(std::byte* block, std::size_t bytes);  // the size it was taken with
  std::size_t blocks_out() const { return out_; }
  void trim();  // frees all memory when no block is out

 private:
  static constexpr std::size_t kSmallestShift = 12, kClasses = 11;  // 4 KiB .. 4 MiB
  static std::size_t class_of(std::size_t bytes);
  std::array<std::vector<std::byte*>, kClasses> free_;
  std::vector<Region> slabs_;
  std::size_t out_ = 0;
};

}  // namespace redsum::client
