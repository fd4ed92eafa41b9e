// SPDX-License-Identifier: Apache-2.0
// The control plane of a World: the coordinator's core, and what the control threads of workers and reducers do.
#include <algorithm>
#include <numeric>

#include "tests/sim/world.h"

namespace redsum::sim {
namespace {

const std::string kJob = "job";

Delay control_delay() {
  return {20 * kMicrosecond, 400 * kMicrosecond, 0};
}

}  // namespace

client::ProgressAgent::Reports World::reports(Worker& worker) {
  return {
      [this, &worker](CommunicatorId id, Sequence sequence, const wire::CallDescription& call,
                      const std::vector<std::uint32_t>& awaits) {
        coverage_.add("stall reported");
        to_coordinator(worker.to_coordinator, worker.peer, wire::Waiting{id.value, sequence, call, awaits});
      },
      [this, &worker](const wire::ReducerInfo& reducer, const Status& why) {
        coverage_.add("lane lost at a worker");
        to_coordinator(worker.to_coordinator, worker.peer, wire::LaneLost{reducer.instance, why.text()});
      },
      [this, &worker](CommunicatorId id, const Status& why, bool here) {
        if (here) to_coordinator(worker.to_coordinator, worker.peer, wire::Fail{id.value, why.code(), why.text(), {}});
        for (int group = 0; group < 2; ++group)
          if (worker.group_open[group] && worker.group_ids[group] == id.value) worker.closed[group] = why;
        if (id == CommunicatorId(0)) on_world_closed(worker);
      },
      [this, &worker](CommunicatorId id, std::uint32_t rank, wire::Purpose purpose) {
        coverage_.add("lane between workers");
        open_peer_lane(worker, id, rank, purpose);
      },
      [this, &worker](CommunicatorId id, Sequence sequence) {
        coverage_.add("disagreement in a ring");
        to_coordinator(worker.to_coordinator, worker.peer,
                       wire::Mismatched{kJob, id.value, sequence, worker.in->record.epoch});
      },
  };
}

void World::start_control() {
  for (const auto& reducer : reducers_) start_reducer(*reducer);
  // All reducers are registered before the first worker joins, so that the job has all of them.
  for (const auto& owned : workers_) {
    Worker& worker = *owned;
    net_.at(net_.now() + kMillisecond + static_cast<DurationNs>(random_.below(4000)) * kMicrosecond, [this, &worker] {
      if (worker.alive) start_worker(worker);
    });
  }
}

void World::start_worker(Worker& worker) {
  const std::string name = std::to_string(worker.launched_as);
  wire::Hello hello;
  hello.purpose = wire::Purpose::control_worker;
  hello.job = kJob;
  hello.rank = worker.launched_as;
  hello.incarnation = worker.incarnation;
  core_.on_connected(worker.peer, hello, "worker:" + name, net_.now(), effects_);
  to_coordinator(worker.to_coordinator, worker.peer, wire::Join{world_size_, "host:" + name, "sim", settings_, 0});
  heartbeat(worker);
}

World::Worker& World::worker_of(Incarnation incarnation) {
  for (const auto& worker : workers_)
    if (worker->incarnation == incarnation) return *worker;
  throw Broken("harness", "there is no such worker");
}

void World::start_reducer(ReducerProcess& reducer) {
  wire::Hello hello;
  hello.purpose = wire::Purpose::control_reducer;
  hello.incarnation = reducer.instance();
  core_.on_connected(reducer.peer, hello, "reducer:" + std::to_string(reducer.index), net_.now(), effects_);
  wire::Register registration{"r" + std::to_string(reducer.index), "10.0.0." + std::to_string(reducer.index) + ":7401",
                              static_cast<std::uint16_t>(reducer.shards.size()), 1u << 30, "sim"};
  if (reducer.owner) {
    registration.job = kJob;
    registration.worker = reducer.owner->incarnation;
  }
  to_coordinator(reducer.to_coordinator, reducer.peer, registration);
  heartbeat(reducer);
}

void World::to_coordinator(TimeNs& last, server::PeerId from, wire::Message message) {
  const Delay delay = control_delay();
  last = std::max(last + 1,
                  net_.now() + static_cast<DurationNs>(random_.between(static_cast<std::uint64_t>(delay.least_ns),
                                                                       static_cast<std::uint64_t>(delay.most_ns))));
  net_.at(last, [this, from, message = std::move(message)] {
    core_.on_message(from, message, net_.now(), effects_);
    carry_out();
  });
}

void World::heartbeat(Worker& worker) {
  if (!worker.alive || worker.silent || worker.over) return;
  to_coordinator(worker.to_coordinator, worker.peer, wire::Heartbeat{1});
  net_.at(net_.now() + kSecond, [this, &worker] { heartbeat(worker); });
}

void World::heartbeat(ReducerProcess& reducer) {
  if (!reducer.alive) return;
  to_coordinator(reducer.to_coordinator, reducer.peer, wire::Heartbeat{1});
  net_.at(net_.now() + kSecond, [this, &reducer] { heartbeat(reducer); });
}

void World::carry_out() {
  // Delivery may lead to new effects; those are of a later moment.
  server::CoordinatorEffects effects;
  std::swap(effects, effects_);
  for (const auto& note : effects.notes) say("coordinator: " + note.text);
  for (auto& send : effects.sends)
    for (const server::PeerId to : send.to) deliver(to, send.message);
  const TimeNs due = core_.next_deadline();
  if (due != kNever && (core_tick_at_ == kNever || due < core_tick_at_ || core_tick_at_ <= net_.now())) {
    core_tick_at_ = due;
    net_.at(due, [this] { coordinator_tick(); });
  }
}

void World::coordinator_tick() {
  core_tick_at_ = kNever;
  core_.tick(net_.now(), effects_);
  carry_out();
}

void World::deliver(server::PeerId to, const wire::Message& message) {
  const Delay delay = control_delay();
  const auto arrival = [&](TimeNs& last) {
    last = std::max(last + 1,
                    net_.now() + static_cast<DurationNs>(random_.between(static_cast<std::uint64_t>(delay.least_ns),
                                                                         static_cast<std::uint64_t>(delay.most_ns))));
    return last;
  };
  for (const auto& worker : workers_)
    if (worker->peer == to)
      net_.at(arrival(worker->from_coordinator), [this, p = worker.get(), message] {
        if (p->alive && !p->silent) on_message(*p, message);
      });
  for (const auto& reducer : reducers_)
    if (reducer->peer == to)
      net_.at(arrival(reducer->from_coordinator), [this, p = reducer.get(), message] {
        if (p->alive) on_message(*p, message);
      });
}

void World::open_lanes(Worker& worker, const wire::EpochRecord& record) {
  worker.agent->enter(record);
  const auto shards = client::shard_order(record.reducers);
  for (std::size_t index = 0; index < shards.size(); ++index)
    worker.agent->adopt(index, open_lane(worker, record.reducers[shards[index].reducer], shards[index].shard));
  in_job_.clear();
  for (const wire::ReducerInfo& reducer : record.reducers) in_job_.insert(reducer.instance);
}

std::unique_ptr<transport::Link> World::open_lane(Worker& worker, const wire::ReducerInfo& info, std::uint16_t index) {
  wire::Hello hello;
  hello.job = kJob;
  hello.rank = worker.rank;
  hello.incarnation = worker.incarnation;
  ReducerProcess& reducer = *reducers_[info.instance - 1000];
  SimNetwork::LinkPair pair = net_.make_link(hello);
  lanes_.push_back(pair.lane);
  if (reducer.alive) {  // else the right link dies here: the lane is closed
    Shard& shard = reducer.shards[index];
    shard.agent->adopt(std::move(pair.right));
    run_agent(reducer, shard);
  }
  return std::move(pair.left);
}

// Lanes to a recruit: dialling takes a while, and fails where nobody is.
void World::open_candidate(Worker& worker, const wire::ReducerInfo& info) {
  worker.candidates[info.instance];
  const TimeNs dialled = net_.now() + static_cast<DurationNs>(random_.between(20, 2000)) * kMicrosecond;
  net_.at(dialled, [this, &worker, info] {
    const auto found = worker.candidates.find(info.instance);
    if (found == worker.candidates.end() || !found->second.empty() || !worker.alive || worker.over) return;
    wire::Recruited answer{info.instance, Code::ok, ""};
    if (!reducers_[info.instance - 1000]->alive) {
      answer.code = Code::timeout;
      answer.text = "nobody answers";
      worker.candidates.erase(found);
    } else {
      for (std::uint16_t shard = 0; shard < info.shards; ++shard)
        found->second.push_back({info.instance, shard, open_lane(worker, info, shard)});
    }
    to_coordinator(worker.to_coordinator, worker.peer, answer);
  });
}

void World::on_recruit(Worker& worker, const wire::Recruit& recruit) {
  std::map<Incarnation, std::vector<client::ProgressAgent::NewLane>> wanted;
  for (const wire::ReducerInfo& info : recruit.reducers) {
    auto known = worker.candidates.extract(info.instance);
    if (!known.empty()) wanted.insert(std::move(known));
  }
  worker.candidates = std::move(wanted);
  for (const wire::ReducerInfo& info : recruit.reducers)
    if (!worker.candidates.contains(info.instance)) open_candidate(worker, info);
}

void World::on_commit(Worker& worker, const wire::Commit& commit) {
  coverage_.add("epochs committed at a worker");
  if (worker.agent->busy()) {
    recovered_ = true;
    coverage_.add("epochs inside a call");
  }
  std::vector<client::ProgressAgent::NewLane> lanes;
  in_job_.clear();
  for (const wire::ReducerInfo& reducer : commit.reducers) {
    in_job_.insert(reducer.instance);
    auto candidate = worker.candidates.extract(reducer.instance);
    if (candidate.empty()) continue;
    coverage_.add("reducers that came into a job");
    for (auto& lane : candidate.mapped()) lanes.push_back(std::move(lane));
  }
  worker.agent->commit(commit, std::move(lanes));
}

// Dialling takes a while, and longer when the other one has not joined; one that is gone never answers.
void World::open_peer_lane(Worker& worker, CommunicatorId id, std::uint32_t rank, wire::Purpose purpose) {
  const TimeNs dialled = net_.now() + static_cast<DurationNs>(random_.between(20, 2000)) * kMicrosecond;
  net_.at(dialled, [this, &worker, id, rank, purpose, in = worker.in] {
    if (worker.in != in) return;
    Worker& other = worker_of(in->record.workers[rank].incarnation);
    if (!worker.alive || worker.silent || !other.alive || other.left) return;
    if (!other.joined || other.silent || other.in->record.epoch < in->record.epoch)
      return open_peer_lane(worker, id, rank, purpose);
    if (other.in != in) return;
    wire::Hello hello;
    hello.purpose = purpose;
    hello.job = kJob;
    hello.rank = worker.rank;
    hello.incarnation = worker.incarnation;
    hello.epoch = in->record.epoch.value;
    hello.shard = id.value;
    SimNetwork::LinkPair pair = net_.make_link(hello);
    lanes_.push_back(pair.lane);
    worker.agent->adopt_peer(id, rank, std::move(pair.left));
    other.agent->adopt_accepted(std::move(pair.right));
    run_agent(other);
    run_agent(worker);
  });
}

void World::on_message(Worker& worker, const wire::Message& message) {
  if (const auto* joined = std::get_if<wire::Joined>(&message)) {
    on_joined(worker, joined->record);
  } else if (const auto* resumed = std::get_if<wire::Resumed>(&message)) {
    on_resumed(worker, *resumed);
  } else if (std::holds_alternative<wire::Ping>(message)) {
    to_coordinator(worker.to_coordinator, worker.peer, message);
  } else if (const auto* created = std::get_if<wire::Created>(&message)) {
    coverage_.add("communicator created");
    const Status status = worker.agent->open_communicator(CommunicatorId(created->communicator),
                                                          Rank(worker.in->rank_in(1, worker.rank)), worker.in->sub);
    if (!status) throw Broken("harness", status.to_string());
    worker.group_ids[1] = created->communicator;
    worker.group_open[1] = true;
    submit_next(worker);
  } else if (const auto* failed = std::get_if<wire::Fail>(&message)) {
    const Status why(failed->code, failed->text);
    say("worker " + std::to_string(worker.rank) + " hears: " + why.to_string());
    if (!worker.joined) {
      worker.join_error = why;
      return;
    }
    if (failed->communicator == wire::kEveryCommunicator) {
      if (worker.admitting) worker.asking = worker.admitting = false;
      worker.agent->fail_all(why);
      // What was to be the second communicator is never created now: its calls would wait for it.
      if (!worker.group_open[1] && !worker.in->sub.empty()) {
        worker.group_open[1] = true;
        worker.group_ids[1] = 0xFFFF;
        submit_next(worker);
      }
    } else {
      worker.agent->fail(CommunicatorId(static_cast<std::uint16_t>(failed->communicator)), why);
    }
  } else if (const auto* describe = std::get_if<wire::Describe>(&message)) {
    if (const auto* call = worker.agent->describe(CommunicatorId(describe->communicator), describe->sequence))
      to_coordinator(worker.to_coordinator, worker.peer,
                     wire::Waiting{describe->communicator, describe->sequence, *call, {}});
  } else if (const auto* prepare = std::get_if<wire::Prepare>(&message)) {
    to_coordinator(worker.to_coordinator, worker.peer, wire::Progress{prepare->epoch, worker.agent->prepare()});
  } else if (const auto* commit = std::get_if<wire::Commit>(&message)) {
    on_commit(worker, *commit);
  } else if (std::holds_alternative<wire::Bring>(message)) {
    if (!worker.left) bring(worker);
  } else if (const auto* recruit = std::get_if<wire::Recruit>(&message)) {
    on_recruit(worker, *recruit);
  } else if (const auto* gone = std::get_if<wire::CloseCommunicator>(&message)) {
    worker.agent->close_communicator(CommunicatorId(gone->communicator), {Code::closed, "closed by all"});
  } else if (std::holds_alternative<wire::CloseJob>(message)) {
    go(worker);
  } else if (const auto* stalled = std::get_if<wire::Stalled>(&message)) {
    coverage_.add("stall answered");
    worker.agent->on_stalled(*stalled);
  }
  run_agent(worker);
}

void World::on_message(ReducerProcess& reducer, const wire::Message& message) {
  if (const auto* open = std::get_if<wire::OpenJob>(&message)) {
    reducer.open = true;
    reducer.epoch = open->record.epoch;
    for (Shard& shard : reducer.shards) shard.agent->open_job(open->job, open->record);
  } else if (const auto* communicator = std::get_if<wire::OpenCommunicator>(&message)) {
    wire::Reserved answer{communicator->job, communicator->communicator, 1, Code::ok, "", reducer.epoch};
    if (reducer.refuses) {
      answer.code = Code::resource_exhausted;
      answer.text = "no memory here";
    } else if (fault_ == Fault::refused_memory && reducer.index == victim_ % reducers_.size() &&
               communicator->communicator == 0) {
      fault_done_ = true;
      answer.code = Code::resource_exhausted;
      answer.text = "no memory here";
    } else {
      for (Shard& shard : reducer.shards) {
        const Status status = shard.agent->open_communicator(
            communicator->job, CommunicatorId(communicator->communicator), communicator->members);
        if (!status) throw Broken("harness", status.to_string());
      }
    }
    to_coordinator(reducer.to_coordinator, reducer.peer, answer);
  } else if (const auto* enter = std::get_if<wire::Enter>(&message)) {
    for (Shard& shard : reducer.shards) shard.agent->enter(enter->job, enter->epoch);
    to_coordinator(reducer.to_coordinator, reducer.peer, wire::Entered{enter->job, enter->epoch});
  } else if (const auto* gone = std::get_if<wire::CloseCommunicator>(&message)) {
    for (Shard& shard : reducer.shards) shard.agent->close_communicator(gone->job, CommunicatorId(gone->communicator));
  } else if (const auto* closed = std::get_if<wire::CloseJob>(&message)) {
    coverage_.add("job closed");
    reducer.open = false;
    for (Shard& shard : reducer.shards) shard.agent->close_job(closed->job);
    if (reducer.owner && reducer.owner->going) go(*reducer.owner);
  }
  for (Shard& shard : reducer.shards) run_agent(reducer, shard);
}

}  // namespace redsum::sim
