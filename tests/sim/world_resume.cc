// SPDX-License-Identifier: Apache-2.0
// The workers of a World change: those that are left resume, one that is started again is taken in.
#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/sim/world.h"

namespace redsum::sim {

bool World::through(const Worker& worker) const {
  if (fault_ == Fault::lose_worker && (!worker.closed[0].ok() || worker.asking)) return false;
  if (worker.in->admits && !worker.has_admitted) return false;
  return next_of(worker) == worker.in->script.size() &&
         std::all_of(worker.calls.begin(), worker.calls.end(), [](const auto& one) { return one->call->done(); });
}

World::Membership& World::membership_of(const wire::EpochRecord& record) {
  for (Membership& membership : memberships_) {
    if (membership.record.epoch == Epoch()) membership.record = record;  // the first one
    if (membership.record.epoch != record.epoch) continue;
    if (membership.record != record) throw Broken("agreement", "two workers have another record of one epoch");
    return membership;
  }
  coverage_.add("memberships after the first");
  if (record.epoch < memberships_.back().record.epoch) throw Broken("agreement", "an epoch comes after a later one");
  Sequence lowest = ~Sequence{0};
  for (std::uint32_t rank = 0; rank < record.stayed; ++rank)
    lowest = std::min(lowest, worker_of(record.workers[rank].incarnation).lowest_incomplete);
  if (record.sequence != lowest)
    throw Broken("agreement", "the job goes on with call " + std::to_string(record.sequence) +
                                  ", the lowest that is not complete is " + std::to_string(lowest));
  Membership& next = memberships_.emplace_back();
  next.record = record;
  next.size = static_cast<std::uint32_t>(record.workers.size());
  if (record.stayed < next.size) coverage_.add("workers taken in", next.size - record.stayed);
  next.admits = next.size < world_size_ && random_.chance(70);
  draw_calls(next, random_.between(3, 12));
  return next;
}

void World::on_joined(Worker& worker, const wire::EpochRecord& record) {
  say("worker " + std::to_string(worker.incarnation) + " joins epoch " + std::to_string(record.epoch.count()));
  if (worker.joined) worker.agent->leave_membership({Code::closed, "the workers have changed"});
  const Membership& in = membership_of(record);
  worker.in = &in;
  worker.asking = worker.admitting = worker.has_admitted = false;
  worker.next = 0;
  worker.candidates.clear();
  for (std::size_t group : {0u, 1u}) {
    worker.sequences[group] = group == 0 ? record.sequence : 0;
    worker.own_sequences[group] = 0;
    worker.closed[group] = {};
    worker.group_open[group] = false;
  }
  for (const wire::WorkerInfo& one : record.workers)
    if (one.incarnation == worker.incarnation) worker.rank = one.rank;
  open_lanes(worker, record);
  std::vector<std::uint32_t> everybody(in.size);
  std::iota(everybody.begin(), everybody.end(), 0u);
  if (!worker.agent->open_communicator(CommunicatorId(0), Rank(worker.rank), everybody).ok())
    throw Broken("harness", "no memory");
  worker.joined = true;
  worker.group_open[0] = true;
  to_coordinator(worker.to_coordinator, worker.peer, wire::Ready{});
  if (!in.sub.empty() && in.has(1, worker.rank))
    to_coordinator(worker.to_coordinator, worker.peer, wire::Create{7, in.sub});
  submit_next(worker);
}

void World::ask(Worker& worker, bool admit) {
  Sequence lowest = worker.sequences[0];
  for (const auto& one : worker.calls) {
    const Sequence sequence = one->call->sequence;
    if (one->of == worker.in && one->plan().group == 0 && (sequence & client::kOwnSequences) == 0 &&
        !one->call->status().ok())
      lowest = std::min(lowest, sequence);
  }
  worker.asking = true;
  worker.admitting = admit;
  worker.lowest_incomplete = lowest;
  coverage_.add(admit ? "admissions asked for" : "resumptions asked for");
  to_coordinator(worker.to_coordinator, worker.peer, wire::Resume{lowest, admit, 0});
}

// Its user hears of it and resumes, sooner or later.
void World::on_world_closed(Worker& worker) {
  if (fault_ != Fault::lose_worker) return;
  net_.at(net_.now() + static_cast<DurationNs>(random_.below(2000)) * kMicrosecond, [this, &worker, in = worker.in] {
    if (worker.in == in && worker.alive && !worker.silent && !worker.asking) ask(worker, false);
  });
}

void World::on_resumed(Worker& worker, const wire::Resumed& answer) {
  const bool admitted = worker.admitting;
  worker.asking = worker.admitting = false;
  worker.has_admitted = true;
  if (!admitted || answer.code != Code::ok) throw Broken("end", "a worker cannot resume: " + answer.text);
}

void World::admit_at_the_end(Worker& worker) {
  if (!worker.in->admits || worker.asking || worker.has_admitted || !worker.closed[0].ok()) return;
  const bool done =
      next_of(worker) == worker.in->script.size() &&
      std::all_of(worker.calls.begin(), worker.calls.end(), [](const auto& s) { return s->call->done(); });
  if (done) ask(worker, true);
}

// A worker dies, or falls silent; perhaps another one, or a reducer; perhaps it is started again.
void World::lose_worker() {
  std::vector<Worker*> members;
  for (const auto& worker : workers_)
    if (worker->alive && !worker->silent) members.push_back(worker.get());
  if (members.size() < 2) return;
  Worker& worker = *members[random_.below(members.size())];
  if (worker.joined && random_.chance(25)) {
    say("worker " + std::to_string(worker.incarnation) + " falls silent");
    worker.silent = true;
    net_.stall(worker.endpoint->id(), net_.now() + 100 * kSecond);
  } else {
    kill(worker);
  }
  if (random_.chance(60)) start_again(worker.launched_as);
  if (random_.chance(30))
    net_.at(net_.now() + static_cast<DurationNs>(random_.below(6000)) * kMicrosecond, [this] { lose_worker(); });
  if (random_.chance(20)) {
    ReducerProcess& reducer = *reducers_[random_.below(reducers_.size())];
    if (reducer.alive && !reducer.owner) kill(reducer);
    recoverable_ = false;
    start_later(4 * kMillisecond);
  }
}

void World::start_again(std::uint32_t launched_as) {
  net_.at(net_.now() + static_cast<DurationNs>(random_.below(8000)) * kMicrosecond, [this, launched_as] {
    if (leaving_) return;
    Worker& worker = build_worker(launched_as, 6000 + workers_.size());
    say("worker " + std::to_string(worker.incarnation) + " is started as rank " + std::to_string(launched_as));
    start_worker(worker);
    carry_out();
  });
}

}  // namespace redsum::sim
