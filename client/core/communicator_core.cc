// SPDX-License-Identifier: Apache-2.0
#include "client/core/communicator_core.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/base/mutant.h"

namespace redsum::client {

CommunicatorCore::CommunicatorCore(CommunicatorId id, Rank rank, std::uint32_t members, Epoch epoch,
                                   const wire::JobSettings& settings, std::span<const std::uint16_t> schedule,
                                   std::size_t shards, bool keeps)
    : id_(id),
      rank_(rank),
      members_(members),
      epoch_(epoch),
      settings_(settings),
      map_(schedule, shards),
      keeps_(keeps) {
  bulk_.numbers = &calls_.bulk();
  small_.numbers = &calls_.small();
  bulk_.window = settings.window;
  small_.window = settings.small_window;
  small_.first_place = settings.window;
  for (Numbering* numbering : {&bulk_, &small_}) begin_rounds(*numbering, shards);
}

void CommunicatorCore::begin_rounds(Numbering& numbering, std::size_t shards) {
  numbering.shards.assign(shards, {});
  // Rank r starts its rounds at r x L / n, so that not all ranks burst into the same shard at once.
  numbering.turn = map_.shard_of(rank_.value * map_.round() / members_);
}

const ChunkLayout& CommunicatorCore::submit(Sequence sequence, const wire::CallDescription& description) {
  return calls_
      .submit(sequence, description, ChunkLayout(description, members_, settings_.chunk_bytes), settings_.small_bytes)
      .layout;
}

CommunicatorCore::Placed CommunicatorCore::at(const Numbering& numbering, std::uint64_t number) {
  Placed placed;
  if (number < numbering.again.size()) {
    const Again& again = numbering.again[number];
    placed = {calls_.find(again.sequence), again.chunk, again.have};
  } else {
    const std::uint64_t given = numbering.base + number - numbering.again.size();
    placed.call = calls_.at(*numbering.numbers, given);
    if (placed.call) placed.chunk = static_cast<std::uint32_t>(given - placed.call->first_number);
  }
  return placed;
}

void CommunicatorCore::fill(const Placed& placed, std::uint16_t shard, std::uint16_t place, ChunkSend& send) const {
  const PendingCall& call = *placed.call;
  const wire::CallDescription& description = call.description;
  const std::uint32_t chunk = placed.chunk;
  send.again = call.complete;
  send.have = placed.have;
  send.sequence = call.sequence;
  send.shard = shard;
  const ChunkPiece piece = call.layout.at(chunk);
  const bool receives = !placed.have && receives_data(description, piece, rank_);
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
    if (number >= numbering.submitted()) continue;
    const Placed placed = at(numbering, number);
    REDSUM_CHECK(placed.call);  // it stays at least until the result of this chunk is held
    if (!calls_.may_begin(*placed.call)) continue;
    const auto place = static_cast<std::uint16_t>(numbering.first_place + progress.sent % numbering.window);
    fill(placed, static_cast<std::uint16_t>(shard), place, send);
    send.stays = keeps_ && placed.chunk + numbering.window * shards >= placed.call->chunks;
    ++progress.sent;
    return true;
  }
  return false;
}

bool CommunicatorCore::next_send(ChunkSend& send) {
  return !stopped_ && (next_of(small_, send) || next_of(bulk_, send));
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
  const Placed placed = at(numbering, map_.global(shard, progress.held));
  PendingCall* const call = placed.call;
  const std::uint32_t chunk = placed.chunk;
  REDSUM_CHECK(call);
  if (header.sequence != call->sequence) return refuse("sequence", header.sequence, call->sequence);
  if (header.chunk != chunk) return refuse("chunk", header.chunk, chunk);
  if (header.signature != call->signature) return refuse("signature", header.signature, call->signature);
  if (header.contributors != members_) return refuse("contributors", header.contributors, members_);
  const ChunkPiece piece = call->layout.at(chunk);
  const bool receives = !placed.have && receives_data(call->description, piece, rank_);
  const std::uint64_t bytes = receives ? piece.elements * dtype_bytes(call->description.wire_dtype) : 0;
  if (header.payload_bytes != bytes) return refuse("payload", header.payload_bytes, bytes);

  ++progress.held;
  ChunkResult result{call->sequence,      chunk, piece.offset, bytes == 0 ? 0 : piece.elements,
                     header.contributors, false, std::nullopt};
  if (!placed.have) result.call_complete = ++call->held == call->chunks;
  if (result.call_complete && !keeps_)
    calls_.forget(*call);
  else if (result.call_complete)
    call->complete = true;
  if (keeps_) result.known = learn(numbering, shard);
  return result;
}

// The result that has just come says that all ranks hold the one of a window before. Of that call nothing may be left
// to do.
std::optional<ChunkResult::Known> CommunicatorCore::learn(Numbering& numbering, std::size_t shard) {
  const std::uint64_t held = numbering.shards[shard].held;
  if (held <= numbering.window) return std::nullopt;
  const Placed placed = at(numbering, map_.global(shard, held - 1 - numbering.window));
  REDSUM_CHECK(placed.call);  // this number of it was not known until now
  const ChunkResult::Known known{placed.call->sequence, placed.chunk};
  if (++placed.call->known == placed.call->chunks && placed.call->complete) calls_.forget(*placed.call);
  return known;
}

ShardProgress CommunicatorCore::progress() const {
  ShardProgress progress;
  for (const Progress& shard : bulk_.shards) progress.bulk.push_back(shard.held);
  for (const Progress& shard : small_.shards) progress.small.push_back(shard.held);
  return progress;
}

Status CommunicatorCore::rebase(Epoch epoch, const ShardProgress& below, std::span<const std::uint16_t> schedule,
                                std::size_t shards) {
  REDSUM_CHECK(keeps_);
  for (PendingCall& call : calls_.all()) call.known = call.chunks;
  REDSUM_RETURN_IF_ERROR(rebase(bulk_, below.bulk));
  REDSUM_RETURN_IF_ERROR(rebase(small_, below.small));
  std::vector<Sequence> finished;
  for (const PendingCall& call : calls_.all())
    if (call.complete && call.known == call.chunks) finished.push_back(call.sequence);
  for (const Sequence sequence : finished) calls_.forget(*calls_.find(sequence));
  epoch_ = epoch;
  map_ = ShardMap(schedule, shards);
  for (Numbering* numbering : {&bulk_, &small_}) begin_rounds(*numbering, shards);
  stopped_ = false;
  return {};
}

// The unfinished numbers of the epoch that ends, in their order.
Status CommunicatorCore::rebase(Numbering& numbering, const std::vector<std::uint64_t>& below) {
  struct Unfinished {
    std::uint64_t number = 0;
    bool held = false;
  };
  std::vector<Unfinished> unfinished;
  for (std::size_t shard = 0; shard < numbering.shards.size(); ++shard) {
    const std::uint64_t held = numbering.shards[shard].held;
    const std::uint64_t first = shard < below.size() ? below[shard] : 0;
    if (first > held)
      return {Code::protocol_error, "a new epoch counts " + std::to_string(first) + " results of shard " +
                                        std::to_string(shard) + " as held by all, this rank holds " +
                                        std::to_string(held)};
    for (std::uint64_t local = first; map_.global(shard, local) < numbering.submitted(); ++local)
      unfinished.push_back({map_.global(shard, local), local < held});
  }
  std::sort(unfinished.begin(), unfinished.end(), [](const auto& l, const auto& r) { return l.number < r.number; });
  std::vector<Again> again;
  for (const Unfinished& one : unfinished) {
    const Placed placed = at(numbering, one.number);
    if (!placed.call)
      return {Code::protocol_error,
              "a new epoch does number " + std::to_string(one.number) +
                  " again, whose result all ranks hold as results said; a shard folded too early"};
    --placed.call->known;
    again.push_back({placed.call->sequence, placed.chunk, placed.have || one.held});
  }
  numbering.again = std::move(again);
  numbering.base = numbering.numbers->submitted();
  return {};
}

std::vector<std::uint32_t> CommunicatorCore::unknown_chunks(Sequence sequence) {
  std::vector<std::uint32_t> chunks;
  const PendingCall* call = calls_.find(sequence);
  if (!call) return chunks;
  Numbering& numbering = call->small ? small_ : bulk_;
  for (std::size_t shard = 0; shard < numbering.shards.size(); ++shard) {
    const Progress& progress = numbering.shards[shard];
    std::uint64_t local = progress.held > numbering.window ? progress.held - numbering.window : 0;
    // What is done again may still be to be sent; everything else of a complete call was.
    for (;; ++local) {
      const std::uint64_t number = map_.global(shard, local);
      if (local >= progress.sent && number >= numbering.again.size()) break;
      const Placed placed = at(numbering, number);
      if (placed.call == call) chunks.push_back(placed.chunk);
    }
  }
  return chunks;
}

wire::Header CommunicatorCore::contribution_of(Sequence sequence, std::uint32_t chunk) {
  ChunkSend send;
  fill({calls_.find(sequence), chunk, false}, 0, 0, send);
  return send.header;
}

std::set<std::pair<Sequence, std::uint32_t>> CommunicatorCore::again() const {
  std::set<std::pair<Sequence, std::uint32_t>> chunks;
  for (const Numbering* numbering : {&bulk_, &small_})
    for (const Again& again : numbering->again) chunks.emplace(again.sequence, again.chunk);
  return chunks;
}

}  // namespace redsum::client
