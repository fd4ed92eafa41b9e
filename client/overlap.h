// SPDX-License-Identifier: Apache-2.0
// Whether the pieces of one call may be read and written in any order. Pure, any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace redsum::client {

// The memory of one piece, as the call uses it: [begin, begin + bytes).
struct Extent {
  std::uintptr_t begin = 0;
  std::uint64_t bytes = 0;
  bool written = false;
  std::size_t piece = 0;
};

struct Overlap {
  std::size_t piece, other;
};

// Two extents that share memory of which one at least is written. Sorts `extents`; n log n.
std::optional<Overlap> find_overlap(std::span<Extent> extents);

}  // namespace redsum::client
