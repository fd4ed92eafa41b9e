// SPDX-License-Identifier: Apache-2.0
#include "client/core/chunk_layout.h"

#include <algorithm>

namespace redsum::client {

ChunkLayout::ChunkLayout(std::uint64_t chunk_elements, const wire::CallDescription& call, std::uint32_t members)
    : count_(call.count), chunk_elements_(chunk_elements) {
  const auto chunks_of = [this](std::uint64_t elements) {
    return static_cast<std::uint32_t>((elements + chunk_elements_ - 1) / chunk_elements_);
  };
  if (wire::has_parts(call.kind)) {
    chunks_ = 0;
    std::uint64_t first = 0;
    parts_.reserve(members);
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      parts_.push_back({chunks_, first});
      const std::uint64_t part = call.part(rank, members);
      chunks_ += chunks_of(part);
      first += part;
    }
  } else {
    chunks_ = chunks_of(count_);
  }
  chunks_ = std::max(chunks_, 1u);
}

ChunkPiece ChunkLayout::at(std::uint32_t chunk) const {
  std::uint64_t first = 0, end = count_;
  std::uint32_t first_chunk = 0, owner = 0;
  if (!parts_.empty()) {
    // The last part that begins at or before the chunk: empty parts before it begin there too.
    const auto after = std::upper_bound(parts_.begin(), parts_.end(), chunk,
                                        [](std::uint32_t c, const Part& part) { return c < part.first_chunk; });
    const auto part = std::prev(after);
    first = part->first;
    first_chunk = part->first_chunk;
    owner = static_cast<std::uint32_t>(part - parts_.begin());
    if (after != parts_.end()) end = after->first;
  }
  const std::uint64_t offset = first + (chunk - first_chunk) * chunk_elements_;
  return {offset, std::min(chunk_elements_, end - offset), owner};
}

}  // namespace redsum::client
