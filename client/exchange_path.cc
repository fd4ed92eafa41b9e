// SPDX-License-Identifier: Apache-2.0
#include "client/exchange_path.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/mutant.h"

namespace redsum::client {
// To one rank. What it says about frames taken has no payload: its place is a header alone.
struct ExchangePath::Out {
  explicit Out(const ExchangeRoute& route) : peer(route.to), box(route) {}
  struct Unsent {
    Sequence sequence = 0;
    std::uint64_t deposits = 0;
  };
  const Rank peer;
  Outbox box;
  transport::LaneId lane;
  bool open = false, asked = false;
  Status lost;
  std::uint64_t deposits = 0;
  std::deque<Unsent> unsent;  // messages that are on their way but for frames that are still to be read from memory
  alignas(64) std::array<std::byte, wire::kHeaderBytes> landing{};
};

// From one rank.
struct ExchangePath::In {
  explicit In(const ExchangeRoute& route)
      : peer(route.from), box(route), redirects(route.window), landed(route.window) {}
  std::byte* place(std::size_t index) const { return memory.data() + index * stride + wire::kHeaderBytes; }
  const Rank peer;
  Inbox box;
  transport::LaneId lane;
  bool open = false;
  Status lost;
  Region memory;
  std::size_t stride = 0;
  std::vector<Bytes> redirects;          // by place: the user's memory that awaits its next frame
  std::vector<const std::byte*> landed;  // by place: where its last frame lies
};

ExchangeRoute ExchangePath::route(Rank from, Rank to) const {
  return {id_, from, to, record_.epoch, record_.settings.chunk_bytes, record_.settings.window};
}

ExchangePath::ExchangePath(CommunicatorId id, Rank rank, std::uint32_t members, const wire::EpochRecord& record,
                           transport::Transport& transport)
    : id_(id), rank_(rank), members_(members), record_(record), transport_(transport) {}

ExchangePath::~ExchangePath() = default;

ExchangePath::Out& ExchangePath::out(Rank to) {
  auto& lane = out_[to];
  if (!lane) lane = std::make_unique<Out>(route(rank_, to));
  return *lane;
}

ExchangePath::In& ExchangePath::in(Rank from) {
  auto& lane = in_[from];
  if (!lane) lane = std::make_unique<In>(route(from, rank_));
  return *lane;
}

void ExchangePath::adopt_out(Rank to, std::unique_ptr<transport::Link> link) {
  Out& lane = out(to);
  lane.lane = transport_.adopt(std::move(link));
  lane.open = true;
  lanes_[lane.lane] = {to, true};
  transport_.expose(lane.lane, id_, {lane.landing.data() + wire::kHeaderBytes, wire::kHeaderBytes, 0, 1, nullptr});
}

Status ExchangePath::adopt_in(Rank from, std::unique_ptr<transport::Link> link) {
  In& lane = in(from);
  const std::size_t chunk_bytes = record_.settings.chunk_bytes;
  lane.stride = transport::place_stride(chunk_bytes);
  auto memory = Region::reserve(lane.redirects.size() * lane.stride);
  if (!memory) return memory.error();
  lane.memory = std::move(*memory);
  lane.lane = transport_.adopt(std::move(link));
  lane.open = true;
  lanes_[lane.lane] = {from, false};
  transport_.expose(lane.lane, id_,
                    {lane.place(0), lane.stride, chunk_bytes, static_cast<std::uint16_t>(lane.redirects.size()),
                     lane.redirects.data()});
  return {};
}

bool ExchangePath::has_in(Rank from) const {
  const auto found = in_.find(from);
  return found != in_.end() && (found->second->open || !found->second->lost.ok());
}

Rank ExchangePath::lose(transport::LaneId id, const Status& why) {
  const auto found = lanes_.find(id);
  const LaneRef ref = found->second;
  lanes_.erase(found);
  const auto mark = [&](auto& lane) {
    lane.open = false;
    lane.lost = why;
  };
  if (ref.out)
    mark(out(ref.peer));
  else
    mark(in(ref.peer));
  return ref.peer;
}

void ExchangePath::close() {
  pending_.clear();
  sending_ = 0;
  for (const auto& [id, ref] : lanes_) {
    transport_.hide(id, id_);
    transport_.close(id);
  }
  lanes_.clear();
  out_.clear();
  in_.clear();
}

Status ExchangePath::submit(Call& call, Owner& owner) {
  std::size_t& parts = pending_[call.sequence];
  parts = 1;  // the submission itself: until its end the call is pending
  const std::uint64_t signature = call.description.signature();
  const std::size_t element = dtype_bytes(call.description.dtype);
  const std::byte* own = nullptr;
  const auto message = [&](std::size_t part, std::uint64_t elements) {
    ++parts;
    return Message{call.sequence, part, elements, &call.description, signature};
  };
  // Each rank begins with another one, so that not all send to the same.
  const auto behind = [&](std::uint32_t rank) { return (rank + members_ - rank_.value) % members_; };
  std::sort(call.outgoing.begin(), call.outgoing.end(),
            [&](const auto& l, const auto& r) { return behind(l.rank) < behind(r.rank); });
  for (std::size_t i = 0; i < call.outgoing.size(); ++i) {
    const OutgoingPart& part = call.outgoing[i];
    if (part.rank == rank_.value)
      own = part.from;
    else
      out(Rank(part.rank)).box.push(message(i, part.elements));
  }
  for (std::size_t i = 0; i < call.incoming.size(); ++i) {
    const IncomingPart& part = call.incoming[i];
    if (part.rank != rank_.value)
      in(Rank(part.rank)).box.push(message(i, part.elements));
    else if (part.elements != 0 && own != part.to)
      std::memcpy(part.to, own, part.elements * element);
  }
  for (const IncomingPart& part : call.incoming)
    if (part.rank != rank_.value) REDSUM_RETURN_IF_ERROR(take(in(Rank(part.rank)), owner));
  for (const OutgoingPart& part : call.outgoing)
    if (part.rank != rank_.value) send(out(Rank(part.rank)), owner);
  part_done(call.sequence, owner);
  return {};
}

void ExchangePath::part_done(Sequence sequence, Owner& owner) {
  const auto found = pending_.find(sequence);
  REDSUM_CHECK(found != pending_.end());
  if (--found->second != 0) return;
  pending_.erase(found);
  owner.finish(sequence);
}

void ExchangePath::send(Out& lane, Owner& owner) {
  if (!lane.asked && !lane.box.empty()) {
    lane.asked = true;
    owner.wants_lane(lane.peer);
  }
  MessagePiece piece;
  wire::Header header;
  while (lane.open && lane.box.next(piece, header)) {
    const Call& call = owner.call_of(piece.sequence);
    const std::byte* data = call.outgoing[piece.part].from + piece.offset * dtype_bytes(call.description.dtype);
    if (transport_.deposit(lane.lane, header, {data, header.payload_bytes})) ++lane.deposits;
    if (!piece.last) continue;
    lane.unsent.push_back({piece.sequence, lane.deposits});
    ++sending_;
  }
}

Status ExchangePath::take(In& lane, Owner& owner) {
  MessagePiece piece;
  for (;;) {
    const auto more = lane.box.next(piece);
    if (!more) return more.error();
    if (!*more) break;
    const Call& call = owner.call_of(piece.sequence);
    const std::size_t element = dtype_bytes(call.description.dtype);
    std::byte* to = call.incoming[piece.part].to + piece.offset * element;
    if (piece.elements != 0 && lane.landed[piece.place] != to)
      std::memcpy(to, lane.landed[piece.place], piece.elements * element);
    if (piece.last) part_done(piece.sequence, owner);
  }
  if (!lane.open) return {};
  if (const auto held = lane.box.due_held()) transport_.deposit(lane.lane, *held, {});
  await(lane, owner);
  return {};
}

void ExchangePath::await(In& lane, Owner& owner) {
  MessagePiece piece;
  while (lane.box.next_awaited(piece)) {
    if (piece.elements == 0) continue;
    const Call& call = owner.call_of(piece.sequence);
    const std::size_t element = dtype_bytes(call.description.dtype);
    lane.redirects[piece.place] = {call.incoming[piece.part].to + piece.offset * element, piece.elements * element};
  }
}

Status ExchangePath::on_arrival(transport::LaneId id, const wire::Header& header, Bytes payload, Owner& owner) {
  const LaneRef ref = lanes_.at(id);
  if (ref.out) {
    Out& lane = out(ref.peer);
    REDSUM_RETURN_IF_ERROR(lane.box.on_held(header));
    send(lane, owner);
    return {};
  }
  In& lane = in(ref.peer);
  REDSUM_RETURN_IF_ERROR(lane.box.on_message(header));
  lane.landed[header.place] = payload.data();
  lane.redirects[header.place] = {};
  return take(lane, owner);
}

Status ExchangePath::pump(Owner& owner) {
  for (auto& [rank, lane] : in_) REDSUM_RETURN_IF_ERROR(take(*lane, owner));
  for (auto& [rank, lane] : out_) send(*lane, owner);
  return {};
}

void ExchangePath::settle(Owner& owner) {
  if (sending_ == 0) return;
  for (auto& [rank, lane] : out_) {
    if (lane->unsent.empty()) continue;
    // Of a lane that is gone nothing is read any more. A receiver that has left had all it wanted; one that is cut off
    // misses it, and ends the communicator.
    const bool all = !lane->open || mutant("exchange_ends_unsent");
    const std::uint64_t sent = all ? lane->deposits : transport_.sent(lane->lane);
    while (!lane->unsent.empty() && lane->unsent.front().deposits <= sent) {
      const Sequence sequence = lane->unsent.front().sequence;
      lane->unsent.pop_front();
      --sending_;
      part_done(sequence, owner);
    }
  }
}

std::optional<Sequence> ExchangePath::oldest() const {
  return pending_.empty() ? std::nullopt : std::optional(pending_.begin()->first);
}

Status ExchangePath::blocked() const {
  const auto lost = [](Rank peer, const Status& why) {
    return Status(Code::peer_lost, "the lane between this rank and rank " + std::to_string(peer.value) +
                                       " is lost: " + why.text() + "; check that it runs and is reachable");
  };
  for (const auto& [rank, lane] : out_)
    if (!lane->lost.ok() && !lane->box.empty()) return lost(rank, lane->lost);
  for (const auto& [rank, lane] : in_)
    if (!lane->lost.ok() && !lane->box.empty()) return lost(rank, lane->lost);
  return {};
}

std::vector<std::uint32_t> ExchangePath::awaited(Sequence sequence) const {
  std::vector<std::uint32_t> ranks;
  for (const auto& [rank, lane] : in_)
    if (lane->box.expects(sequence)) ranks.push_back(rank.value);
  return ranks;
}

std::string ExchangePath::waits_for(Sequence sequence) const {
  const std::vector<std::uint32_t> senders = awaited(sequence);
  std::vector<std::uint32_t> receivers;
  for (const auto& [rank, lane] : out_)
    if (lane->box.holds(sequence)) receivers.push_back(rank.value);
  std::string text;
  if (!senders.empty()) text += "; nothing more has come from ranks:" + ranks_text(senders, senders.size());
  if (!receivers.empty()) text += "; these ranks take nothing more:" + ranks_text(receivers, receivers.size());
  return text;
}

}  // namespace redsum::client
