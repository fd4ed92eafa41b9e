// SPDX-License-Identifier: Apache-2.0
#include "transport/fault/fault_transport.h"

#include <algorithm>
#include <utility>

namespace redsum::fault {

using transport::LaneId;

std::unique_ptr<FaultTransport> FaultTransport::make(transport::LaneSink& sink, const Plan& plan,
                                                     const MakeInner& make_inner) {
  std::unique_ptr<FaultTransport> made(new FaultTransport(sink, plan));
  made->inner_ = make_inner(*made);
  return made->inner_ ? std::move(made) : nullptr;
}

FaultTransport::Lane* FaultTransport::find(LaneId lane) {
  const auto found = lanes_.find(lane.value);
  return found == lanes_.end() ? nullptr : &found->second;
}

LaneId FaultTransport::adopt(std::unique_ptr<transport::Link> link) {
  const LaneId id = inner_->adopt(std::move(link));
  Lane& lane = lanes_[id.value];
  lane.breaks = random_.chance(plan_.broken_lane_percent);
  lane.frames_left = draw(plan_.broken_after_frames);
  lane.bytes_left = draw(plan_.broken_after_bytes);
  return id;
}

void FaultTransport::expose(LaneId lane, CommunicatorId communicator, const transport::PlaceTable& places) {
  inner_->expose(lane, communicator, places);
}

void FaultTransport::hide(LaneId lane, CommunicatorId communicator) {
  const auto matches = [&](const auto& held) {
    return held.lane == lane && !held.forgotten && held.header.communicator == communicator.value;
  };
  for (Arrival& arrival : arrivals_)
    if (arrival.why.ok() && matches(arrival)) arrival.forgotten = true, ++dropped_;
  for (Deposit& deposit : deposits_)
    if (matches(deposit)) deposit.forgotten = true, ++dropped_;
  inner_->hide(lane, communicator);
}

bool FaultTransport::strikes(Lane& lane, std::size_t payload_bytes) {
  if (!lane.breaks) return false;
  const std::uint64_t bytes = payload_bytes + wire::kHeaderBytes;
  if (lane.frames_left == 0 && lane.bytes_left == 0) return true;
  lane.frames_left -= std::min<std::uint64_t>(lane.frames_left, 1);
  lane.bytes_left -= std::min(lane.bytes_left, bytes);
  return false;
}

bool FaultTransport::deposit(LaneId id, const wire::Header& header, ConstBytes payload) {
  Lane* lane = find(id);
  if (!lane) return false;
  if (!lane->broken && strikes(*lane, payload.size())) break_now(id, *lane);
  if (lane->broken) return !lane->refuses;
  if (random_.chance(plan_.late_deposit_percent)) {
    lane->deposit_poll = std::max(lane->deposit_poll, poll_ + draw(plan_.late_deposit_polls));
    ++injected_.late_deposits;
  }
  const Deposit deposit{id, lane->deposit_poll, header, payload, lane->deposits, false};
  if (lane->deposit_poll > poll_) {
    deposits_.push_back(deposit);
  } else if (!pass_on(deposit, *lane)) {
    return false;
  }
  ++lane->deposits;
  return true;
}

bool FaultTransport::pass_on(const Deposit& deposit, Lane& lane) {
  if (!inner_->deposit(deposit.lane, deposit.header, deposit.payload)) return false;
  const std::uint64_t skipped = deposit.number - lane.passed;
  if (skipped != (lane.skips.empty() ? 0 : lane.skips.back().frames)) lane.skips.push_back({lane.passed, skipped});
  ++lane.passed;
  return true;
}

std::uint64_t FaultTransport::Lane::number_of(std::uint64_t inner) const {
  std::uint64_t skipped = 0;
  for (const Skip& skip : skips)
    if (skip.from <= inner) skipped = skip.frames;
  return inner + skipped;
}

// The number of the first deposit that is not done: one that the inner transport has, or else one that is held back.
std::uint64_t FaultTransport::sent(LaneId id) const {
  const auto found = lanes_.find(id.value);
  if (found == lanes_.end() || found->second.broken) return kAllSent;
  const Lane& lane = found->second;
  if (const std::uint64_t inner = inner_->sent(id); inner < lane.passed) return lane.number_of(inner);
  for (const Deposit& deposit : deposits_)
    if (deposit.lane == id && !deposit.forgotten) return deposit.number;
  return lane.deposits;
}

bool FaultTransport::drained(LaneId id) const {
  const auto found = lanes_.find(id.value);
  return found == lanes_.end() || sent(id) >= found->second.deposits;
}

bool FaultTransport::landing(LaneId lane) const {
  for (const Arrival& arrival : arrivals_)
    if (arrival.lane == lane && !arrival.forgotten) return true;
  return inner_->landing(lane);
}

void FaultTransport::forget_deposits(LaneId lane) {
  for (Deposit& deposit : deposits_)
    if (deposit.lane == lane) deposit.forgotten = true;
}

void FaultTransport::close(LaneId lane) {
  if (lanes_.erase(lane.value) == 0) return;
  forget_deposits(lane);
  for (Arrival& arrival : arrivals_)
    if (arrival.lane == lane) arrival.forgotten = true;
  inner_->close(lane);
}

void FaultTransport::break_lane(LaneId id) {
  if (Lane* lane = find(id); lane && !lane->broken) break_now(id, *lane);
}

void FaultTransport::break_now(LaneId id, Lane& lane) {
  ++injected_.broken_lanes;
  const Status why(Code::peer_lost, "lane to " + inner_->peer_address(id) + ": broken by the fault plan");
  lane.broken = true;
  lane.refuses = random_.chance(50);  // real transports differ in this too
  forget_deposits(id);
  inner_->close(id);
  arrivals_.push_back({id, std::max(lane.arrival_poll, poll_ + 1), {}, {}, why, false});
}

void FaultTransport::on_arrival(LaneId id, const wire::Header& header, Bytes payload) {
  Lane* lane = find(id);
  if (!lane || lane->broken) return;
  if (strikes(*lane, payload.size())) return break_now(id, *lane);
  if (random_.chance(plan_.late_arrival_percent)) {
    lane->arrival_poll = std::max(lane->arrival_poll, poll_ + draw(plan_.late_arrival_polls));
    ++injected_.late_arrivals;
  }
  if (lane->arrival_poll <= poll_) return sink_.on_arrival(id, header, payload);
  arrivals_.push_back({id, lane->arrival_poll, header, payload, {}, false});
}

void FaultTransport::on_lane_lost(LaneId id, const Status& why) {
  Lane* lane = find(id);
  if (!lane || lane->broken) return;
  if (lane->arrival_poll <= poll_) {
    forget_deposits(id);
    lanes_.erase(id.value);
    return sink_.on_lane_lost(id, why);
  }
  lane->broken = lane->refuses = true;
  forget_deposits(id);
  arrivals_.push_back({id, lane->arrival_poll, {}, {}, why, false});
}

void FaultTransport::release_deposits() {
  for (std::size_t i = 0; i < deposits_.size(); ++i) {
    Deposit& deposit = deposits_[i];
    if (deposit.forgotten || deposit.poll > poll_) continue;
    deposit.forgotten = true;
    if (Lane* const lane = find(deposit.lane)) pass_on(deposit, *lane);  // false: its loss comes by itself
  }
  std::erase_if(deposits_, [](const Deposit& deposit) { return deposit.forgotten; });
}

// The sink may close, hide and deposit meanwhile, and a deposit may break a lane.
std::size_t FaultTransport::release_arrivals() {
  std::size_t told = 0;
  for (std::size_t i = 0; i < arrivals_.size(); ++i) {
    if (arrivals_[i].forgotten || arrivals_[i].poll > poll_) continue;
    const Arrival arrival = std::move(arrivals_[i]);
    arrivals_[i].forgotten = true;
    ++told;
    if (arrival.why.ok()) {
      sink_.on_arrival(arrival.lane, arrival.header, arrival.payload);
    } else {
      lanes_.erase(arrival.lane.value);
      sink_.on_lane_lost(arrival.lane, arrival.why);
    }
  }
  std::erase_if(arrivals_, [](const Arrival& arrival) { return arrival.forgotten; });
  return told;
}

// What was held back goes first, so that nothing that the inner transport brings now overtakes it.
std::size_t FaultTransport::poll() {
  ++poll_;
  release_deposits();
  const std::size_t told = release_arrivals();
  return told + inner_->poll();
}

bool FaultTransport::arm() {
  if (!arrivals_.empty() || !deposits_.empty()) return false;
  return inner_->arm();
}

transport::Transport::Counters FaultTransport::counters() const {
  Counters counters = inner_->counters();
  counters.frames_dropped += dropped_;
  return counters;
}

}  // namespace redsum::fault
