// SPDX-License-Identifier: Apache-2.0
// How a collective is cut into chunks. Every rank cuts alike: the layout follows from the call's description, the
// number of members and the job's chunk size.
#pragma once
#include <cstdint>
#include <vector>

#include "transport/wire/call.h"

namespace redsum::client {

struct ChunkPiece {
  std::uint64_t offset = 0;  // first element in the call
  std::uint64_t elements = 0;
  std::uint32_t owner = 0;  // reduce_scatter, all_gather: the rank whose part it is; otherwise 0
};

class ChunkLayout {
 public:
  ChunkLayout() = default;
  // An empty call is one empty chunk. The parts of reduce_scatter and all_gather are cut apart, so that every chunk has
  // one owner; an empty part has no chunk.
  ChunkLayout(const wire::CallDescription& call, std::uint32_t members, std::uint32_t chunk_bytes)
      : ChunkLayout(chunk_bytes / dtype_bytes(call.wire_dtype), call, members) {}
  static ChunkLayout of_elements(const wire::CallDescription& call, std::uint32_t members,
                                 std::uint64_t chunk_elements) {
    return {chunk_elements, call, members};
  }

  std::uint32_t chunks() const { return chunks_; }
  std::uint64_t most_elements() const { return chunk_elements_; }  // of one chunk
  ChunkPiece at(std::uint32_t chunk) const;

 private:
  ChunkLayout(std::uint64_t chunk_elements, const wire::CallDescription& call, std::uint32_t members);
  struct Part {
    std::uint32_t first_chunk = 0;
    std::uint64_t first = 0;  // element
  };
  std::uint64_t count_ = 0, chunk_elements_ = 1;
  std::uint32_t chunks_ = 1;
  std::vector<Part> parts_;  // by rank; empty: the call is one part
};

}  // namespace redsum::client
