// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/endpoint.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"

namespace redsum::sim {

using transport::LaneId;

namespace {
std::uint32_t lane_of(LaneId id) {
  return static_cast<std::uint32_t>((id.value - 1) >> 1);
}
unsigned side_of(LaneId id) {
  return static_cast<unsigned>((id.value - 1) & 1);
}
std::string name_of_peer(const Fabric& fabric, std::uint32_t lane, unsigned side) {
  return fabric.lanes[lane]->ends[1 - side].name + ":" + std::to_string(lane);
}
}  // namespace

SimLink::~SimLink() {
  if (!taken_) fabric_->close(lane_, side_, 0);
}

std::string SimLink::peer_address() const {
  return name_of_peer(*fabric_, lane_, side_);
}

Endpoint::Endpoint(Fabric& fabric, transport::LaneSink& sink, std::string name, std::uint32_t index)
    : fabric_(fabric), sink_(sink), name_(std::move(name)), index_(index) {}

Endpoint::~Endpoint() {
  for (const auto& [lane, side] : lanes_)
    if (fabric_.lanes[lane]->ends[side].endpoint == this) fabric_.close(lane, side, 0);
  fabric_.endpoints[index_] = nullptr;
}

LaneId Endpoint::adopt(std::unique_ptr<transport::Link> link) {
  auto* ours = dynamic_cast<SimLink*>(link.get());
  REDSUM_CHECK(ours != nullptr);
  ours->release();
  lanes_.emplace_back(ours->lane(), ours->side());
  if (crashed) {
    fabric_.close(ours->lane(), ours->side(), 0);
  } else {
    fabric_.adopt(ours->lane(), ours->side(), this);
  }
  return lane_id(ours->lane(), ours->side());
}

End* Endpoint::end_of(LaneId id) const {
  if (id.value == 0 || lane_of(id) >= fabric_.lanes.size()) return nullptr;
  End& end = fabric_.lanes[lane_of(id)]->ends[side_of(id)];
  return end.endpoint == this && !end.gone ? &end : nullptr;
}

void Endpoint::expose(LaneId lane, CommunicatorId communicator, const transport::PlaceTable& places) {
  REDSUM_CHECK(places.stride >= places.place_bytes + wire::kHeaderBytes);
  if (end_of(lane)) fabric_.expose(lane_of(lane), side_of(lane), communicator, places);
}

void Endpoint::hide(LaneId lane, CommunicatorId communicator) {
  if (end_of(lane)) counted.frames_dropped += fabric_.hide(lane_of(lane), side_of(lane), communicator);
}

bool Endpoint::deposit(LaneId lane, const wire::Header& header, ConstBytes payload) {
  REDSUM_CHECK(header.payload_bytes == payload.size());
  End* end = end_of(lane);
  if (!end) return false;
  const Exposed* exposed = end->find(CommunicatorId(header.communicator));
  if (exposed && exposed->hidden) {
    ++fabric_.lanes[lane_of(lane)]->ways[side_of(lane)].deposits;
    ++counted.frames_dropped;
    return true;
  }
  return fabric_.deposit(lane_of(lane), side_of(lane), header, payload);
}

std::uint64_t Endpoint::sent(LaneId lane) const {
  if (!end_of(lane)) return kAllSent;
  Direction& way = fabric_.lanes[lane_of(lane)]->ways[side_of(lane)];
  const std::uint64_t count = Fabric::sent(way);
  way.awaited = count < way.deposits ? count : kAllSent;
  return count;
}

bool Endpoint::drained(LaneId lane) const {
  if (!end_of(lane)) return true;
  Direction& way = fabric_.lanes[lane_of(lane)]->ways[side_of(lane)];
  return Fabric::sent(way) == way.deposits;
}

bool Endpoint::landing(LaneId lane) const {
  if (!end_of(lane)) return false;
  for (std::size_t i = read_; i < inbox_.size(); ++i)
    if (inbox_[i].lane == lane_of(lane) && inbox_[i].side == side_of(lane)) return true;
  return fabric_.under_way(lane_of(lane), 1 - side_of(lane));
}

void Endpoint::close(LaneId lane) {
  if (end_of(lane)) fabric_.close(lane_of(lane), side_of(lane), 0);
}

std::string Endpoint::peer_address(LaneId lane) const {
  return end_of(lane) ? name_of_peer(fabric_, lane_of(lane), side_of(lane)) : std::string();
}

void Endpoint::receive(Letter&& letter) {
  inbox_.push_back(std::move(letter));
  if (armed_) schedule_wake();
}

void Endpoint::schedule_wake() {
  if (wake_scheduled_) return;
  wake_scheduled_ = true;
  const auto late = static_cast<DurationNs>(
      fabric_.random.between(static_cast<std::uint64_t>(least_wake_ns), static_cast<std::uint64_t>(most_wake_ns)));
  fabric_.schedule(std::max(fabric_.now, stalled_until_) + late, EventKind::wake, index_);
}

void Endpoint::wake() {
  wake_scheduled_ = false;
  if (crashed || !armed_) return;
  if (fabric_.now < stalled_until_) return schedule_wake();
  armed_ = false;
  if (wake_) wake_();
}

void Endpoint::stall(TimeNs until) {
  stalled_until_ = std::max(stalled_until_, until);
}

bool Endpoint::arm() {
  if (crashed) return true;
  const bool stalled = fabric_.now < stalled_until_;
  if (read_ < inbox_.size() && !stalled) return false;
  armed_ = true;
  if (read_ < inbox_.size()) schedule_wake();
  return true;
}

bool Endpoint::hand_over(Letter& letter) {
  End& end = fabric_.lanes[letter.lane]->ends[letter.side];
  if (end.endpoint != this || end.gone) return false;
  if (letter.why) {
    end.gone = true;
    end.endpoint = nullptr;
    end.exposed.clear();
    sink_.on_lane_lost(lane_id(letter.lane, letter.side), *letter.why);
    return true;
  }
  const Exposed* exposed = end.find(CommunicatorId(letter.header.communicator));
  if (!exposed || exposed->generation != letter.generation) {
    ++counted.frames_dropped;
    return false;
  }
  sink_.on_arrival(lane_id(letter.lane, letter.side), letter.header,
                   Bytes(letter.payload, letter.header.payload_bytes));
  return true;
}

std::size_t Endpoint::poll() {
  std::size_t moved = 0;
  while (read_ < inbox_.size() && !crashed && fabric_.now >= stalled_until_) {
    Letter letter = std::move(inbox_[read_++]);
    moved += hand_over(letter);
  }
  if (read_ == inbox_.size()) {
    inbox_.clear();
    read_ = 0;
  }
  return moved;
}

void Endpoint::crash(DurationNs notice_ns) {
  if (crashed) return;
  crashed = true;
  for (const auto& [lane, side] : lanes_)
    if (fabric_.lanes[lane]->ends[side].endpoint == this) fabric_.close(lane, side, notice_ns);
}

}  // namespace redsum::sim
