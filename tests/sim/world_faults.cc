// SPDX-License-Identifier: Apache-2.0
// What goes wrong in a World, and when.
#include <algorithm>

#include "tests/sim/world.h"

namespace redsum::sim {

void World::disconnect(server::PeerId peer, TimeNs when, const char* why) {
  net_.at(when, [this, peer, why] {
    core_.on_lost(peer, {Code::peer_lost, why}, net_.now(), effects_);
    carry_out();
  });
}

void World::kill(Worker& worker) {
  say("kill worker " + std::to_string(worker.rank));
  worker.alive = false;
  net_.crash(worker.endpoint->id(), static_cast<DurationNs>(random_.below(2000)) * kMicrosecond);
  const TimeNs heard =
      std::max(worker.to_coordinator, net_.now() + static_cast<DurationNs>(random_.below(3000)) * kMicrosecond);
  disconnect(worker.peer, heard, "connection reset");
}

void World::kill(ReducerProcess& reducer) {
  say("kill reducer " + std::to_string(reducer.index));
  reducer.alive = false;
  note_reducer_fault();
  for (Shard& shard : reducer.shards)
    net_.crash(shard.endpoint->id(), static_cast<DurationNs>(random_.below(2000)) * kMicrosecond);
  const TimeNs heard =
      std::max(reducer.to_coordinator, net_.now() + static_cast<DurationNs>(random_.below(3000)) * kMicrosecond);
  disconnect(reducer.peer, heard, "connection reset");
}

bool World::job_runs() const {
  const auto jobs = core_.jobs();
  return !jobs.empty() && jobs.front().state == server::JobState::running;
}

// The worker's own reducer; for the coordinator it is one more connection.
void World::bring(Worker& worker) {
  if (worker.own) return;
  if (one_cannot_bring_ && worker.launched_as == victim_)
    return to_coordinator(worker.to_coordinator, worker.peer, wire::Brought{Code::auth_failed, "it may not listen"});
  coverage_.add("reducers that workers brought");
  worker.own = &build_reducer(1);
  worker.own->owner = &worker;
  net_.at(net_.now() + static_cast<DurationNs>(random_.below(1000)) * kMicrosecond, [this, own = worker.own] {
    if (!own->alive) return;
    start_reducer(*own);
    carry_out();
  });
}

void World::start_later(DurationNs within) {
  if (reducers_.size() >= 8) return;
  net_.at(net_.now() +
              static_cast<DurationNs>(random_.below(static_cast<std::uint64_t>(within / kMicrosecond))) * kMicrosecond,
          [this] {
            ReducerProcess& reducer = build_reducer(random_.between(1, 2));
            reducer.refuses = fault_ != Fault::lose_worker && job_runs() &&
                              random_.chance(15);  // of one that is wanted from the start, the job dies
            start_reducer(reducer);
            carry_out();
          });
}

// A reducer's loss shows most while calls are under way.
void World::inject_when_running() {
  const bool of_reducers = fault_ == Fault::kill_reducer || fault_ == Fault::add_reducer ||
                           fault_ == Fault::drain_reducer || fault_ == Fault::cut_lane;
  const bool early = fault_ != Fault::drain_reducer && random_.chance(10);  // no job forms in a pool that drains
  if (job_runs() || !of_reducers || early || net_.now() > 2 * kSecond) return inject();
  net_.at(net_.now() + static_cast<DurationNs>(random_.below(4000)) * kMicrosecond, [this] { inject_when_running(); });
}

// Whether the job can go on without a reducer from here on.
void World::note_reducer_fault() {
  if (!job_runs()) recoverable_ = false;
  // One that is on its way into the job may save it, or not.
  const auto is_left = [this](const auto& one) { return one->alive && in_job_.contains(one->instance()); };
  const auto brings = [this](const auto& one) {
    return one->alive && !one->left && !(one_cannot_bring_ && one->launched_as == victim_);
  };
  if (settings_.fallback == wire::Fallback::direct && std::any_of(workers_.begin(), workers_.end(), brings)) return;
  if (std::none_of(reducers_.begin(), reducers_.end(), is_left)) recoverable_ = false;
  if (fault_ == Fault::cut_lane && reducers_.size() == 1) recoverable_ = false;
}

// The fault of this run, at its drawn moment.
void World::inject() {
  Worker& worker = *workers_[victim_];
  std::vector<ReducerProcess*> pool;
  for (const auto& one : reducers_)
    if (!one->owner) pool.push_back(one.get());
  ReducerProcess& reducer = *pool[random_.below(pool.size())];
  const auto brief = [&] { return net_.now() + static_cast<DurationNs>(random_.between(1, 150)) * kMillisecond; };
  switch (fault_) {
    case Fault::kill_worker:
      kill(worker);
      break;
    case Fault::lose_worker:
      lose_worker();
      break;
    case Fault::kill_reducer:
      if (reducer.alive) kill(reducer);
      if (random_.chance(30)) start_later(4 * kMillisecond);
      if (random_.chance(settings_.fallback == wire::Fallback::direct
                             ? 70
                             : 40))  // soon another one, perhaps while the job is on its way into a new epoch
        net_.at(net_.now() + static_cast<DurationNs>(random_.below(4000)) * kMicrosecond, [this] { inject(); });
      break;
    case Fault::add_reducer:
      start_later(kMillisecond);
      if (random_.chance(40))
        net_.at(net_.now() + static_cast<DurationNs>(random_.below(2000)) * kMicrosecond, [this] { inject(); });
      break;
    case Fault::drain_reducer:
      if (random_.chance(30)) start_later(kMillisecond);
      to_coordinator(reducer.to_coordinator, reducer.peer, wire::Draining{});
      if (random_.chance(50))
        net_.at(net_.now() + static_cast<DurationNs>(random_.below(2000)) * kMicrosecond, [this] { inject(); });
      break;
    case Fault::slow_rank:
      net_.set_wake_delay(worker.endpoint->id(), 100 * kMicrosecond, 3 * kMillisecond);
      break;
    case Fault::stalls:
      net_.stall(worker.endpoint->id(), brief());
      for (Shard& shard : reducer.shards) net_.stall(shard.endpoint->id(), brief());
      break;
    case Fault::cut_lane:
      if (lanes_.empty()) return;
      note_reducer_fault();
      net_.cut_after(lanes_[random_.below(lanes_.size())], random_.chance(50) ? Side::left : Side::right,
                     random_.below(20000),
                     {static_cast<DurationNs>(random_.below(2000)) * kMicrosecond,
                      static_cast<DurationNs>(random_.below(2000)) * kMicrosecond});
      break;
    case Fault::silent_worker:
      worker.silent = true;
      net_.stall(worker.endpoint->id(), net_.now() + 100 * kSecond);
      break;
    default:
      return;
  }
  fault_done_ = true;
}

}  // namespace redsum::sim
