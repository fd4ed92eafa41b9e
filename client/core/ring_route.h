// SPDX-License-Identifier: Apache-2.0
// The way of a chunk round a ring of workers. It goes round twice. First its partial result: from `start` to `end`, the
// rank before it, each rank adding its contribution (of a chunk with one source: taking its data). Then, from `end`,
// the result, to all others: with payload as far as somebody wants it, beyond that as the acknowledgement that it is
// held.
//
// Order `ring` begins chunk k of an all-reduce behind rank k mod n, so that every link carries 2(n-1)/n S. A result for
// one rank ends there. Order `rank` begins every fold at rank 0: the left fold in rank order, hence the bits of the
// other modes.
#pragma once
#include <algorithm>
#include <cstdint>

#include "client/core/chunk_layout.h"
#include "transport/base/types.h"
#include "transport/wire/call.h"
#include "transport/wire/control.h"

namespace redsum::client {

class RingRoute {
 public:
  RingRoute() = default;
  RingRoute(const wire::CallDescription& call, std::uint32_t chunk, const ChunkPiece& piece, std::uint32_t members,
            wire::RingOrder order);

  // How many ranks come before `rank` in the fold.
  std::uint32_t position(Rank rank) const { return (rank.value + members_ - start_) % members_; }
  std::uint32_t last() const { return members_ - 1; }  // the position of the end
  // Whether a partial result has payload: always, but for a barrier or an empty chunk.
  bool partial_has_data() const { return has_data_; }
  // Whether the result has payload on its way to the rank at `position` (which is not the end).
  bool result_has_data(std::uint32_t position) const {
    return has_data_ && static_cast<std::int64_t>(position) <= last_wanting_;
  }

 private:
  std::uint32_t start_ = 0, members_ = 1;
  std::int64_t last_wanting_ = -1;  // position of the last rank that wants the result's payload from another one
  bool has_data_ = false;
};

// How a call is cut for the ring: so that a partial result fits a place, and every rank ends as many chunks as another.
ChunkLayout ring_layout(const wire::CallDescription& call, std::uint32_t members, const wire::JobSettings& settings,
                        std::size_t partial_element_bytes);

// Chunks under way in the bulk numbering, of all ranks together: enough to keep every link of both rounds busy. Place
// numbers bound it (two places for each, below 256).
inline std::uint16_t ring_window(std::uint32_t members, const wire::JobSettings& settings) {
  return static_cast<std::uint16_t>(
      std::clamp<std::uint32_t>(members * settings.window, 2, 127u - settings.small_window));
}

}  // namespace redsum::client
