// SPDX-License-Identifier: Apache-2.0
#include "client/block_pool.h"

#include <algorithm>
#include <bit>

#include "transport/base/check.h"

namespace redsum::client {
namespace {
constexpr std::size_t kSlabBytes = 4u << 20;
}

std::size_t BlockPool::class_of(std::size_t bytes) {
  const std::size_t shift = static_cast<std::size_t>(std::bit_width(std::max<std::size_t>(bytes, 1) - 1));
  return shift <= kSmallestShift ? 0 : shift - kSmallestShift;
}

std::byte* BlockPool::take(std::size_t bytes) {
  const std::size_t size_class = class_of(bytes);
  REDSUM_CHECK(size_class < kClasses);
  auto& free = free_[size_class];
  if (free.empty()) {
    auto slab = Region::reserve(kSlabBytes);
    if (!slab) return nullptr;
    const std::size_t block = std::size_t{1} << (size_class + kSmallestShift);
    for (std::size_t at = kSlabBytes; at >= block; at -= block) free.push_back(slab->data() + at - block);
    slabs_.push_back(std::move(*slab));
  }
  std::byte* block = free.back();
  free.pop_back();
  ++out_;
  return block;
}

void BlockPool::give(std::byte* block, std::size_t bytes) {
  free_[class_of(bytes)].push_back(block);
  --out_;
}

void BlockPool::trim() {
  if (out_ != 0) return;
  for (auto& free : free_) free.clear();
  slabs_.clear();
}

}  // namespace redsum::client
