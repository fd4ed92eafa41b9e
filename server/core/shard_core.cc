// SPDX-License-Identifier: Apache-2.0
#include "server/core/shard_core.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/mutant.h"

namespace redsum::server {
namespace {

// The first field in which a contribution differs from what the slot's other ranks sent; nullptr: they agree. Where
// only one rank has payload, sizes are not compared.
const char* disagreement(const wire::Header& first, const wire::Header& other) {
  if (first.sequence != other.sequence) return "sequence";
  if (first.chunk != other.chunk) return "chunk";
  if (first.signature != other.signature) return "signature";
  if (first.kind() != other.kind()) return "kind";
  if (first.dtype != other.dtype) return "wire dtype";
  if (first.op != other.op) return "op";
  if (first.element_offset != other.element_offset) return "element offset";
  if (first.has(wire::kFlagScaled) != other.has(wire::kFlagScaled)) return "scales";
  if (!wire::has_one_source(first.kind()) && first.payload_bytes != other.payload_bytes) return "payload bytes";
  return nullptr;
}

}  // namespace

BoardIndex ShardCore::open(std::uint32_t members, const wire::JobSettings& settings, Epoch epoch) {
  REDSUM_CHECK(members > 0 && settings.window > 0 && settings.small_window > 0);
  std::uint32_t index;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(boards_.size());
    boards_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Board& board = boards_[index];
  board = Board{};
  board.open = true;
  board.members = members;
  board.settings = settings;
  board.epoch = epoch;
  board.lateness.resize(members);
  begin(board);
  return BoardIndex(index);
}

void ShardCore::begin(Board& board) {
  const std::size_t window = board.settings.window;
  board.slots.assign(window + board.settings.small_window, {});
  for (std::size_t place = 0; place < board.slots.size(); ++place)
    board.slots[place].number = place < window ? place : place - window;
  for (auto& senders : board.senders) senders.assign(board.members, {});
  board.no_result.assign(board.slots.size() * board.members, 0);
  for (std::uint64_t& stopped_at : board.stopped_at) stopped_at = ~std::uint64_t{0};
}

void ShardCore::enter(BoardIndex index, Epoch epoch) {
  Board& board = boards_[index.value];
  board.epoch = epoch;
  if (!mutant("keep_old_epoch")) begin(board);
}

void ShardCore::close(BoardIndex index) {
  REDSUM_CHECK(index.value < boards_.size() && boards_[index.value].open);
  boards_[index.value] = Board{};
  free_.push_back(index.value);
}

Status ShardCore::check_numbering(const Board& board, Rank rank, const wire::Header& header, const Slot& slot) const {
  const bool small = header.has(wire::kFlagSmall);
  const std::uint16_t window = small ? board.settings.small_window : board.settings.window;
  const Sender& sender = board.senders[small][rank.value];
  const std::uint64_t number = sender.arrived;
  const std::uint64_t place = number % window + (small ? board.settings.window : 0);
  const std::string who = "rank " + std::to_string(rank.value);
  if (number != 0 && std::pair(header.sequence, header.chunk) <= std::pair(sender.sequence, sender.chunk))
    return {Code::protocol_error, who + " sent chunk " + std::to_string(header.chunk) + " of call " +
                                      std::to_string(header.sequence) + " after chunk " + std::to_string(sender.chunk) +
                                      " of call " + std::to_string(sender.sequence)};
  if (header.place != place)
    return {Code::protocol_error, who + " sent number " + std::to_string(number) + " to place " +
                                      std::to_string(header.place) + ", it belongs to place " + std::to_string(place)};
  if (slot.number != number || slot.folding)
    return {Code::protocol_error, who + " sent number " + std::to_string(number) + " before it held the result of " +
                                      std::to_string(number - window) + " (window " + std::to_string(window) + ")"};
  const std::uint32_t limit = (small ? board.settings.small_bytes : board.settings.chunk_bytes) +
                              (header.has(wire::kFlagScaled) ? static_cast<std::uint32_t>(wire::kScalePrefixBytes) : 0);
  if (header.payload_bytes > limit)
    return {Code::protocol_error,
            who + " sent " + std::to_string(header.payload_bytes) + " bytes to a place of " + std::to_string(limit)};
  return {};
}

void ShardCore::note_arrival(Board& board, Slot& slot, Rank rank, TimeNs now) {
  if (slot.arrived == 1)
    slot.first_arrival = slot.previous_arrival = now;
  else
    slot.previous_arrival = slot.last_arrival;
  slot.last_arrival = now;
  if (slot.arrived != board.members) return;
  last_skew_ns_ = now - slot.first_arrival;
  Lateness& late = board.lateness[rank.value];
  ++late.last_arrivals;
  late.lag_ns += now - slot.previous_arrival;
}

Status ShardCore::on_arrival(BoardIndex index, Rank rank, const wire::Header& header, TimeNs now,
                             ShardEffects& effects) {
  Board& board = boards_[index.value];
  if (header.epoch < board.epoch.value) return {};
  const std::string where = "on communicator " + std::to_string(header.communicator);
  if (header.epoch > board.epoch.value)
    return {Code::protocol_error, "rank " + std::to_string(rank.value) + " is in epoch " +
                                      std::to_string(header.epoch) + ", this shard in " +
                                      std::to_string(board.epoch.value) + " " + where};
  if (header.type != wire::FrameType::contribution || header.rank != rank.value || header.place >= board.slots.size())
    return {Code::protocol_error, "a frame of type " + std::to_string(static_cast<int>(header.type)) + " for rank " +
                                      std::to_string(header.rank) + ", place " + std::to_string(header.place) +
                                      " came on the lane of rank " + std::to_string(rank.value) + " " + where};
  Slot& slot = board.slots[header.place];
  if (!mutant("duplicate_counted")) REDSUM_RETURN_IF_ERROR(check_numbering(board, rank, header, slot));

  Sender& sender = board.senders[header.has(wire::kFlagSmall)][rank.value];
  ++sender.arrived;
  sender.sequence = header.sequence;
  sender.chunk = header.chunk;
  ++slot.arrived;
  std::uint64_t& stopped_at = board.stopped_at[header.has(wire::kFlagSmall)];
  if (slot.arrived == 1) {
    slot.first = header;
    slot.only.reset();
  } else if (const char* field = disagreement(slot.first, header);
             field && slot.number < stopped_at && !mutant("no_agreement")) {
    stopped_at = slot.number;
    effects.disagreements.push_back(
        {index, std::min(slot.first.sequence, header.sequence), field, Rank(slot.first.rank), rank});
  }
  board.no_result[std::size_t{header.place} * board.members + rank.value] = header.has(wire::kFlagNoResult);
  const bool has_payload = !header.has(wire::kFlagHeaderOnly);
  if (wire::has_one_source(header.kind()) && has_payload) {
    slot.only = rank;
    slot.first.payload_bytes = header.payload_bytes;
    slot.first.flags &= static_cast<std::uint16_t>(~wire::kFlagHeaderOnly);
  }
  note_arrival(board, slot, rank, now);
  const std::uint32_t needed = mutant("fold_without_last") && board.members > 1 ? board.members - 1 : board.members;
  if (slot.arrived == needed && slot.number < stopped_at) {
    slot.folding = true;
    effects.folds.push_back({index, PlaceIndex(header.place), slot.buffer, slot.first, slot.only, board.members});
  }
  return {};
}

void ShardCore::on_folded(const Fold& fold, ShardEffects& effects) {
  Board& board = boards_[fold.board.value];
  Slot& slot = board.slots[fold.place.value];
  REDSUM_CHECK(slot.folding);
  const std::uint32_t prefix = fold.like.has(wire::kFlagScaled) ? wire::kScalePrefixBytes : 0;
  wire::Header header = fold.like;
  header.type = wire::FrameType::result;
  header.flags &= static_cast<std::uint16_t>(
      ~(wire::kFlagScaled | wire::kFlagHeaderOnly | wire::kFlagPayloadCrc | wire::kFlagNoResult));
  if (fold.nonfinite) header.flags |= wire::kFlagNonFinite;
  header.contributors = fold.contributors;
  const std::uint32_t payload_bytes = fold.like.payload_bytes >= prefix ? fold.like.payload_bytes - prefix : 0;
  // Every shard starts with another rank, so that the results of a round do not all queue for the same worker first.
  const std::uint32_t start = static_cast<std::uint32_t>(slot.number % board.members);
  for (std::uint32_t i = 0; i < board.members; ++i) {
    const Rank to((start + i) % board.members);
    header.rank = to.value;
    const bool wants_payload = payload_bytes != 0 && !(fold.only && *fold.only == to) &&
                               !board.no_result[std::size_t{fold.place.value} * board.members + to.value];
    header.payload_bytes = wants_payload ? payload_bytes : 0;
    wire::Header own = header;
    if (!wants_payload) own.flags |= wire::kFlagHeaderOnly;
    effects.sends.push_back({fold.board, to, fold.place, fold.buffer, own});
  }
  const bool small = fold.like.has(wire::kFlagSmall);
  slot.number += small ? board.settings.small_window : board.settings.window;
  slot.arrived = 0;
  slot.folding = false;
  if (!mutant("one_result_buffer")) slot.buffer ^= 1;
}

std::uint64_t ShardCore::slots_in_use(BoardIndex index) const {
  std::uint64_t in_use = 0;
  for (const Slot& slot : boards_[index.value].slots) in_use += slot.arrived != 0;
  return in_use;
}

const std::vector<Lateness>& ShardCore::lateness(BoardIndex index) const {
  return boards_[index.value].lateness;
}

}  // namespace redsum::server
