// SPDX-License-Identifier: Apache-2.0
// The rings of a worker's communicators: opened at their first use, and what a lost neighbour means.
#include <algorithm>
#include <utility>

#include "client/progress_agent.h"
#include "transport/base/log.h"

namespace redsum::client {

// What a RingPath needs of the agent, for one turn of one communicator.
class ProgressAgent::RingOwner final : public RingPath::Owner {
 public:
  RingOwner(ProgressAgent& agent, Communicator& communicator) : agent_(agent), communicator_(communicator) {}
  Call& call_of(Sequence sequence) override { return *communicator_.calls.find(sequence)->second; }
  bool protect(Call& call, std::uint32_t chunk, std::uint64_t offset, std::uint64_t elements) override {
    if (agent_.keep_backup(call, chunk, {offset, elements})) return true;
    agent_.end(communicator_, no_backup(call.sequence), Origin::here);
    return false;
  }
  void finish(Sequence sequence) override {
    agent_.finish(communicator_, sequence);
    finished_ = true;
  }
  void disagreed(Sequence sequence) override { agent_.reports_.on_disagreement(communicator_.id, sequence); }
  void found_nonfinite(std::uint64_t elements) override { agent_.nonfinite_results_ += elements; }
  bool finished() const { return finished_; }

 private:
  ProgressAgent& agent_;
  Communicator& communicator_;
  bool finished_ = false;
};

Status ProgressAgent::open_ring(Communicator& communicator) {
  if (communicator.ring) return {};
  auto ring = std::make_unique<RingPath>(communicator.id, communicator.rank,
                                         static_cast<std::uint32_t>(communicator.members.size()), record_, *transport_);
  REDSUM_RETURN_IF_ERROR(ring->reserve());
  communicator.ring = std::move(ring);
  rings_ = true;
  if (communicator.exchange.path) communicator.ring->core().barriers_after(*communicator.exchange.path);
  if (communicator.core) {
    communicator.ring->core().barriers_after(communicator.core->calls());
    communicator.core->barriers_after(communicator.ring->calls());
  }
  if (communicator.ring->wants_next()) {
    communicator.ring->asked_for_next();
    const std::size_t next = (communicator.rank.value + 1) % communicator.members.size();
    reports_.on_peer_wanted(communicator.id, communicator.members[next], wire::Purpose::ring_lane);
  }
  return {};
}

void ProgressAgent::adopt_peer(CommunicatorId id, std::uint32_t rank, std::unique_ptr<transport::Link> link) {
  Communicator* communicator = find(id);
  if (!communicator || !communicator->closed.ok()) return;
  if (link->hello().purpose != wire::Purpose::ring_lane)
    return adopt_exchange(*communicator, communicator->rank_of(rank).value(), true, std::move(link));
  communicator->ring->adopt_next(std::move(link));
  pump_ring(*communicator);
}

void ProgressAgent::adopt_accepted(std::unique_ptr<transport::Link> link) {
  const wire::Hello& hello = link->hello();
  if (record_.epoch != Epoch() && hello.epoch != record_.epoch.value) return;  // of a membership that has ended
  Communicator* communicator = find(CommunicatorId(hello.shard));
  if (!communicator) {
    early_.push_back(std::move(link));
    return;
  }
  const std::optional<Rank> peer = communicator->rank_of(hello.rank);
  if (!communicator->closed.ok() || !peer || *peer == communicator->rank) return;
  if (hello.purpose != wire::Purpose::ring_lane) return adopt_exchange(*communicator, *peer, false, std::move(link));
  const std::size_t n = communicator->members.size();
  if (peer->value != (communicator->rank.value + n - 1) % n) return;
  if (const Status status = open_ring(*communicator); !status) return end(*communicator, status, Origin::here);
  if (!communicator->ring->has_before()) communicator->ring->adopt_before(std::move(link));  // there is one, ever
}

void ProgressAgent::submit_to_ring(Communicator& communicator, Call& call) {
  if (const Status status = open_ring(communicator); !status) return end(communicator, status, Origin::here);
  RingOwner owner(*this, communicator);
  after_ring(communicator, communicator.ring->submit(call, owner), owner);
}

void ProgressAgent::pump_ring(Communicator& communicator) {
  if (!communicator.closed.ok()) return;
  RingOwner owner(*this, communicator);
  after_ring(communicator, communicator.ring->pump(owner), owner);
}

bool ProgressAgent::ring_arrival(Communicator& communicator, transport::LaneId lane, const wire::Header& header,
                                 Bytes payload) {
  if (!communicator.ring || !communicator.ring->is_before(lane)) return false;
  communicator.last_progress = clock_();
  RingOwner owner(*this, communicator);
  after_ring(communicator, communicator.ring->on_arrival(header, payload, owner), owner);
  return true;
}

// An error: the rank before broke the protocol. A call that has ended may be what a barrier in the other mode waits
// for.
void ProgressAgent::after_ring(Communicator& communicator, const Status& status, const RingOwner& owner) {
  if (!communicator.closed.ok()) return;
  if (status) {
    if (owner.finished() && communicator.core) pump(communicator);
    return;
  }
  const auto n = communicator.members.size();
  end(communicator,
      {Code::protocol_error, "rank " + std::to_string((communicator.rank.value + n - 1) % n) + ": " + status.text()},
      Origin::here);
}

void ProgressAgent::settle_rings() {
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    Communicator& communicator = *communicators_[i];
    if (!communicator.ring || !communicator.ring->sending()) continue;
    RingOwner owner(*this, communicator);
    communicator.ring->settle(owner);
    if (owner.finished()) after_ring(communicator, communicator.ring->pump(owner), owner);
  }
}

// A neighbour that has left or died; calls that need it wait for the coordinator's verdict, then end by themselves.
bool ProgressAgent::ring_lane_lost(transport::LaneId lane, const Status& why) {
  for (auto& communicator : communicators_) {
    const std::optional<Rank> neighbour = communicator->ring ? communicator->ring->lose(lane) : std::nullopt;
    if (!neighbour) continue;
    const wire::WorkerInfo& worker = record_.workers[communicator->members[neighbour->value]];
    communicator->ring_trouble = {Code::peer_lost, "the lane between this rank and rank " +
                                                       std::to_string(neighbour->value) + " (" + worker.host + " at " +
                                                       worker.address + ") is lost: " + why.text() +
                                                       "; check that it runs and is reachable"};
    log::info(communicator->ring_trouble.text());
    return true;
  }
  return false;
}

void ProgressAgent::check_ring(Communicator& communicator, TimeNs now) {
  if (communicator.ring_trouble.ok() || !communicator.closed.ok() || communicator.ring->calls().empty()) return;
  if (communicator.ring_trouble_until == kNever) communicator.ring_trouble_until = now + kLaneGrace;
  if (now >= communicator.ring_trouble_until) end(communicator, communicator.ring_trouble, Origin::here);
}

}  // namespace redsum::client
