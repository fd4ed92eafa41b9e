// SPDX-License-Identifier: Apache-2.0
// The exchanges of a worker's communicators: opened at their first use, and what a lost lane means.
#include <algorithm>
#include <utility>

#include "client/progress_agent.h"
#include "transport/base/log.h"

namespace redsum::client {

// What an ExchangePath needs of the agent, for one turn of one communicator.
class ProgressAgent::ExchangeOwner final : public ExchangePath::Owner {
 public:
  ExchangeOwner(ProgressAgent& agent, Communicator& communicator, const Exchange& exchange)
      : agent_(agent), communicator_(communicator), lanes_(exchange.lanes) {}
  Call& call_of(Sequence sequence) override { return *communicator_.calls.find(sequence)->second; }
  void finish(Sequence sequence) override {
    agent_.finish(communicator_, sequence);
    finished_ = true;
  }
  void wants_lane(Rank to) override {
    agent_.reports_.on_peer_wanted(communicator_.id, communicator_.members[to.value], lanes_);
  }
  bool finished() const { return finished_; }

 private:
  ProgressAgent& agent_;
  Communicator& communicator_;
  const wire::Purpose lanes_;
  bool finished_ = false;
};

ExchangePath& ProgressAgent::open_exchange(Communicator& communicator, Exchange& exchange) {
  if (exchange.path) return *exchange.path;
  exchange.path =
      std::make_unique<ExchangePath>(communicator.id, communicator.rank,
                                     static_cast<std::uint32_t>(communicator.members.size()), record_, *transport_);
  exchanges_ = true;
  // A send may well be meant to follow a barrier of the rank that receives it.
  if (exchange.lanes == wire::Purpose::pair_lane) return *exchange.path;
  if (communicator.core) communicator.core->barriers_after(*exchange.path);
  if (communicator.ring) communicator.ring->core().barriers_after(*exchange.path);
  return *exchange.path;
}

void ProgressAgent::adopt_exchange(Communicator& communicator, Rank peer, bool dialled,
                                   std::unique_ptr<transport::Link> link) {
  Exchange& exchange = exchange_of(communicator, link->hello().purpose);
  ExchangePath& path = open_exchange(communicator, exchange);
  if (dialled) {
    path.adopt_out(peer, std::move(link));
  } else {
    if (path.has_in(peer)) return;  // there is one, ever
    if (const Status status = path.adopt_in(peer, std::move(link)); !status)
      return end(communicator, status, Origin::here);
  }
  pump_exchange(communicator, exchange);
}

void ProgressAgent::submit_to_exchange(Communicator& communicator, Call& call) {
  Exchange& exchange = exchange_of(communicator, call.description.kind);
  ExchangeOwner owner(*this, communicator, exchange);
  after_exchange(communicator, open_exchange(communicator, exchange).submit(call, owner), owner);
}

void ProgressAgent::pump_exchange(Communicator& communicator, Exchange& exchange) {
  ExchangeOwner owner(*this, communicator, exchange);
  after_exchange(communicator, exchange.path->pump(owner), owner);
}

bool ProgressAgent::exchange_arrival(Communicator& communicator, transport::LaneId lane, const wire::Header& header,
                                     Bytes payload) {
  for (Exchange* exchange : {&communicator.exchange, &communicator.pairs}) {
    if (!exchange->path || !exchange->path->has(lane)) continue;
    communicator.last_progress = clock_();
    ExchangeOwner owner(*this, communicator, *exchange);
    after_exchange(communicator, exchange->path->on_arrival(lane, header, payload, owner), owner);
    return true;
  }
  return false;
}

// A call that has ended may be what a barrier waits for.
void ProgressAgent::after_exchange(Communicator& communicator, const Status& status, const ExchangeOwner& owner) {
  if (!communicator.closed.ok()) return;
  if (!status) return end(communicator, status, Origin::here);
  if (!owner.finished()) return;
  if (communicator.core) pump(communicator);
  if (communicator.ring) pump_ring(communicator);
}

void ProgressAgent::settle_exchanges() {
  for (std::size_t i = 0; i < communicators_.size(); ++i)
    for (Exchange* exchange : {&communicators_[i]->exchange, &communicators_[i]->pairs}) {
      if (!exchange->path || !exchange->path->sending()) continue;
      ExchangeOwner owner(*this, *communicators_[i], *exchange);
      exchange->path->settle(owner);
      after_exchange(*communicators_[i], {}, owner);
    }
}

bool ProgressAgent::exchange_lane_lost(transport::LaneId lane, const Status& why) {
  for (auto& communicator : communicators_)
    for (Exchange* exchange : {&communicator->exchange, &communicator->pairs}) {
      if (!exchange->path || !exchange->path->has(lane)) continue;
      const Rank peer = exchange->path->lose(lane, why);
      log::info("the lane between this rank and rank " + std::to_string(peer.value) + " is lost: " + why.text());
      return true;
    }
  return false;
}

// A peer that has left or died; calls that need it wait for the coordinator's verdict, then end by themselves.
void ProgressAgent::check_exchanges(Communicator& communicator, TimeNs now) {
  for (Exchange* exchange : {&communicator.exchange, &communicator.pairs}) {
    if (!exchange->path || !communicator.closed.ok()) continue;
    const Status blocked = exchange->path->blocked();
    if (blocked.ok()) {
      exchange->blocked_until = kNever;
      continue;
    }
    if (exchange->blocked_until == kNever) exchange->blocked_until = now + kLaneGrace;
    if (now >= exchange->blocked_until) end(communicator, blocked, Origin::here);
  }
}

// A rank that has left cannot open a lane any more, which only the coordinator knows.
std::vector<std::uint32_t> ProgressAgent::awaited_lanes(const Communicator& communicator, const Call& call) {
  std::vector<std::uint32_t> ranks;
  if (call.description.kind != wire::Kind::send) return ranks;
  const ExchangePath& path = *communicator.pairs.path;
  for (const std::uint32_t rank : path.awaited(call.sequence))
    if (!path.has_in(Rank(rank))) ranks.push_back(rank);
  return ranks;
}

}  // namespace redsum::client
