// SPDX-License-Identifier: Apache-2.0
#include "client/core/ring_route.h"

namespace redsum::client {
namespace {

using wire::Kind;
using wire::RingOrder;

constexpr std::uint64_t kGrain = 64;                        // elements: pieces begin on whole cache lines
constexpr std::uint64_t kLeastChainChunkBytes = 16u << 10;  // smaller ones cost more than a short pipeline saves
constexpr std::uint64_t kChainDepth = 8;                    // chunks of a chain for each of its hops

constexpr std::uint64_t divided(std::uint64_t value, std::uint64_t by) {
  return (value + by - 1) / by;
}

}  // namespace

RingRoute::RingRoute(const wire::CallDescription& call, std::uint32_t chunk, const ChunkPiece& piece,
                     std::uint32_t members, RingOrder order)
    : members_(members), has_data_(piece.elements != 0) {
  const std::uint32_t one = call.kind == Kind::broadcast || call.kind == Kind::reduce ? call.root : piece.owner;
  if (wire::has_one_source(call.kind)) {
    start_ = one;
    return;
  }
  const bool for_one = call.kind == Kind::reduce || call.kind == Kind::reduce_scatter;
  if (order == RingOrder::ring) start_ = ((for_one ? one : chunk % members) + 1) % members;
  if (call.kind == Kind::barrier) return;
  const std::uint32_t wanting = for_one ? position(Rank(one)) : members - 2;
  if (members > 1 && wanting != last()) last_wanting_ = wanting;
}

ChunkLayout ring_layout(const wire::CallDescription& call, std::uint32_t members, const wire::JobSettings& settings,
                        std::size_t partial_element_bytes) {
  const std::size_t element = dtype_bytes(call.wire_dtype);
  const std::uint64_t most = settings.chunk_bytes / std::max(element, partial_element_bytes);
  std::uint64_t elements = most;
  const bool small = call.count * element <= settings.small_bytes;
  if (!small && members > 1 && !wire::has_parts(call.kind)) {
    if (call.kind == Kind::allreduce && settings.ring_order == RingOrder::ring) {
      const std::uint64_t rounds = divided(call.count, most * members);
      elements = divided(call.count, members * rounds);
    } else {
      elements = std::max(kLeastChainChunkBytes / element, call.count / (kChainDepth * members));
    }
    elements = std::min(most, divided(elements, kGrain) * kGrain);
  }
  return ChunkLayout::of_elements(call, members, elements);
}

}  // namespace redsum::client
