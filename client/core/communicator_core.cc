// SPDX-License-Identifier: Apache-2.0
#include "client/core/communicator_core.h"

#include "transport/base/check.h"
#include "transport/base/mutant.h"

namespace redsum::client {

CommunicatorCore::CommunicatorCore(CommunicatorId id, Rank rank, std::uint32_t members, Epoch epoch,
                                   const wire::JobSettings& settings, std::span<const std::uint16_t> schedule,
                                   std::size_t shards)
    : id_(id), rank_(rank), members_(members), epoch_(epoch), settings_(settings), map_(schedule, shards) {
  bulk_.numbers = &calls_.bulk();
  small_.numbers = &calls_.small();
  bulk_.window = settings.window;
  small_.window = settings.small_window;
  small_.first_place = settings.window;
  for (Numbering* numbering : {&bulk_, &small_}) {
    numbering->shards.resize(shards);
    // Rank r starts its rounds at r x L / n, so that not all ranks burst into the same shard at once.
    numbering->turn = map_.shard_of(rank.value * map_.round() / members);
  }
}

const ChunkLayout& CommunicatorCore::submit(Sequence sequence, const wire::CallDescription& description) {
  return calls_
      .submit(sequence, description, ChunkLayout(description, members_, settings_.chunk_bytes), settings_.small_bytes)
      .layout;
}

void CommunicatorCore::fill(const PendingCall& call, std::uint64_t number, std::uint16_t shard, std::uint16_t place,
                            ChunkSend& send) const {
  const wire::CallDescription& description = call.description;
  const auto chunk = static_cast<std::uint32_t>(number - call.first_number);
  send.sequence = call.sequence;
  send.shard = shard;
  const ChunkPiece piece = call.layout.at(chunk);
  const bool receives = receives_data(description, piece, rank_);
  send.elements = piece.elements;
  send.result_elements = receives ? piece.elements : 0;
  wire::Header& header = send.header;
  header = wire::Header{};
  header.type = wire::FrameType::contribution;
  header.dtype = description.wire_dtype;
  header.op = description.op;
  header.rank = rank_.value;
  header.epoch = epoch_.value;
  header.place = place;
  header.communicator = id_.value;
  header.chunk = chunk;
  header.sequence = call.sequence;
  header.element_offset = piece.offset;
  header.signature = call.signature;
  header.contributors = 1;
  if (call.small) header.flags |= wire::kFlagSmall;
  if (description.prescale != 1.0 || description.postscale != 1.0) header.flags |= wire::kFlagScaled;
  header.set_kind(description.kind);
  if (!receives) header.flags |= wire::kFlagNoResult;
  const bool has_data = send.elements != 0 && sends_data(description, piece, rank_);
  if (!has_data) {
    header.flags |= wire::kFlagHeaderOnly;
    send.elements = 0;
  } else {
    header.payload_bytes = static_cast<std::uint32_t>(send.elements * dtype_bytes(header.dtype) +
                                                      (header.has(wire::kFlagScaled) ? wire::kScalePrefixBytes : 0));
  }
}

bool CommunicatorCore::next_of(Numbering& numbering, ChunkSend& send) {
  const std::size_t shards = numbering.shards.size();
  for (std::size_t tried = 0; tried < shards; ++tried) {
    const std::size_t shard = numbering.turn;
    numbering.turn = numbering.turn + 1 == shards ? 0 : numbering.turn + 1;
    Progress& progress = numbering.shards[shard];
    const unsigned window = numbering.window + (mutant("window_too_large") ? 1u : 0u);
    if (progress.sent >= progress.held + window) continue;
    const std::uint64_t number = map_.global(shard, progress.sent);
    if (number >= numbering.numbers->submitted()) continue;
    const PendingCall* call = calls_.at(*numbering.numbers, number);
    REDSUM_CHECK(call != nullptr);
    if (!calls_.may_begin(*call)) continue;
    const auto place = static_cast<std::uint16_t>(numbering.first_place + progress.sent % numbering.window);
    fill(*call, number, static_cast<std::uint16_t>(shard), place, send);
    ++progress.sent;
    return true;
  }
  return false;
}

bool CommunicatorCore::next_send(ChunkSend& send) {
  return next_of(small_, send) || next_of(bulk_, send);
}

Result<ChunkResult> CommunicatorCore::on_result(std::uint16_t shard, const wire::Header& header) {
  const bool is_small = header.has(wire::kFlagSmall);
  Numbering& numbering = is_small ? small_ : bulk_;
  REDSUM_CHECK(shard < numbering.shards.size());
  Progress& progress = numbering.shards[shard];
  const auto refuse = [&](const std::string& what, std::uint64_t got, std::uint64_t wanted) {
    return failure(Code::protocol_error, "shard " + std::to_string(shard) + " sent a result on communicator " +
                                             std::to_string(id_.value) + " whose " + what + " is " +
                                             std::to_string(got) + ", expected " + std::to_string(wanted));
  };
  if (header.type != wire::FrameType::result) return refuse("frame type", static_cast<unsigned>(header.type), 2);
  if (header.rank != rank_.value) return refuse("rank", header.rank, rank_.value);
  if (header.epoch != epoch_.value) return refuse("epoch", header.epoch, epoch_.value);
  if (progress.held == progress.sent) return refuse("number", progress.held, progress.sent);
  const std::uint64_t place = numbering.first_place + progress.held % numbering.window;
  if (header.place != place) return refuse("place", header.place, place);
  const std::uint64_t number = map_.global(shard, progress.held);
  PendingCall* call = calls_.at(*numbering.numbers, number);
  REDSUM_CHECK(call != nullptr);
  const auto chunk = static_cast<std::uint32_t>(number - call->first_number);
  if (header.sequence != call->sequence) return refuse("sequence", header.sequence, call->sequence);
  if (header.chunk != chunk) return refuse("chunk", header.chunk, chunk);
  if (header.signature != call->signature) return refuse("signature", header.signature, call->signature);
  if (header.contributors != members_) return refuse("contributors", header.contributors, members_);
  const ChunkPiece piece = call->layout.at(chunk);
  const std::uint64_t bytes =
      receives_data(call->description, piece, rank_) ? piece.elements * dtype_bytes(call->description.wire_dtype) : 0;
  if (header.payload_bytes != bytes) return refuse("payload", header.payload_bytes, bytes);

  ++progress.held;
  const ChunkResult result{call->sequence,      chunk,
                           piece.offset,        bytes == 0 ? 0 : piece.elements,
                           header.contributors, ++call->held == call->chunks};
  if (result.call_complete) calls_.forget(*call);
  return result;
}

}  // namespace redsum::client
