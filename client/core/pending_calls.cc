// SPDX-License-Identifier: Apache-2.0
#include "client/core/pending_calls.h"

#include <algorithm>

#include "transport/base/check.h"

namespace redsum::client {

using wire::Kind;

const PendingCall& PendingCalls::submit(Sequence sequence, const wire::CallDescription& description,
                                        const ChunkLayout& layout, std::uint32_t small_bytes) {
  REDSUM_CHECK(calls_.empty() || calls_.back().sequence < sequence);
  PendingCall call;
  call.sequence = sequence;
  call.description = description;
  call.signature = description.signature();
  call.layout = layout;
  call.chunks = call.layout.chunks();
  call.small = description.count <= small_bytes / dtype_bytes(description.wire_dtype) && call.chunks == 1;
  Numbering& numbering = call.small ? small_ : bulk_;
  call.first_number = numbering.submitted_;
  numbering.submitted_ += call.chunks;
  numbering.calls_.push_back(sequence);
  calls_.push_back(std::move(call));
  return calls_.back();
}

PendingCall* PendingCalls::find(Sequence sequence) {
  const auto at = std::lower_bound(calls_.begin(), calls_.end(), sequence,
                                   [](const PendingCall& call, Sequence wanted) { return call.sequence < wanted; });
  return at != calls_.end() && at->sequence == sequence ? &*at : nullptr;
}

PendingCall* PendingCalls::at(const Numbering& numbering, std::uint64_t number) {
  const auto after = std::partition_point(numbering.calls_.begin(), numbering.calls_.end(),
                                          [&](Sequence sequence) { return find(sequence)->first_number <= number; });
  if (after == numbering.calls_.begin()) return nullptr;
  PendingCall* call = find(*std::prev(after));
  return number < call->first_number + call->chunks ? call : nullptr;
}

// Calls complete nearly in order: the one that leaves is near the front.
void PendingCalls::forget(PendingCall& call) {
  Numbering& numbering = call.small ? small_ : bulk_;
  numbering.calls_.erase(std::find(numbering.calls_.begin(), numbering.calls_.end(), call.sequence));
  calls_.erase(std::find_if(calls_.begin(), calls_.end(), [&](const PendingCall& other) { return &other == &call; }));
}

std::optional<Sequence> PendingCalls::oldest() const {
  const auto found = std::find_if(calls_.begin(), calls_.end(), [](const PendingCall& call) { return !call.complete; });
  return found == calls_.end() ? std::nullopt : std::optional(found->sequence);
}

bool PendingCalls::may_begin(const PendingCall& call) const {
  if (call.description.kind != wire::Kind::barrier || call.complete) return true;
  return oldest() == call.sequence && std::all_of(others_.begin(), others_.end(), [&](const auto* other) {
           const auto oldest = other->oldest();
           return !oldest || *oldest > call.sequence;
         });
}

bool sends_data(const wire::CallDescription& call, const ChunkPiece& piece, Rank rank) {
  if (call.kind == Kind::broadcast) return call.root == rank.value;
  return call.kind != Kind::all_gather || piece.owner == rank.value;
}

bool receives_data(const wire::CallDescription& call, const ChunkPiece& piece, Rank rank) {
  switch (call.kind) {
    case Kind::broadcast:
      return call.root != rank.value;
    case Kind::all_gather:
      return piece.owner != rank.value;
    case Kind::reduce:
      return call.root == rank.value;
    case Kind::reduce_scatter:
      return piece.owner == rank.value;
    default:
      return true;
  }
}

}  // namespace redsum::client
