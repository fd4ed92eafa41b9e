// SPDX-License-Identifier: Apache-2.0
// What must hold in every run: results equal the left fold in rank order, bit for bit; every handle completes once;
// after an error the input is unchanged and the error names the fault; nothing is left over when everybody has gone.
#include <algorithm>

#include "tests/sim/world.h"

namespace redsum::sim {

namespace {

bool same(const std::vector<std::byte>& left, const std::vector<std::byte>& right, PartBytes part) {
  return std::equal(left.begin() + static_cast<std::ptrdiff_t>(part.first),
                    left.begin() + static_cast<std::ptrdiff_t>(part.end),
                    right.begin() + static_cast<std::ptrdiff_t>(part.first));
}

}  // namespace

std::uint32_t World::Membership::members_of(std::size_t group) const {
  return group == 0 ? size : static_cast<std::uint32_t>(sub.size());
}

std::uint32_t World::Membership::rank_in(std::size_t group, std::uint32_t world_rank) const {
  if (group == 0) return world_rank;
  return static_cast<std::uint32_t>(std::find(sub.begin(), sub.end(), world_rank) - sub.begin());
}

bool World::Membership::has(std::size_t group, std::uint32_t world_rank) const {
  return group == 0 || std::find(sub.begin(), sub.end(), world_rank) != sub.end();
}

std::string World::name_of(const Worker& worker, const Submitted& submitted) const {
  const PlannedCall& planned = submitted.plan();
  return "rank " + std::to_string(submitted.rank) + (worker.incarnation < 6000 ? "" : " (started again)") + ", group " +
         std::to_string(planned.group) + ", call " + std::to_string(submitted.call->sequence) + " (" +
         planned.call.to_string() + ")";
}

void World::on_end(Worker& worker, Submitted& submitted, const Status& status) {
  net_.trace(static_cast<std::uint64_t>(status.code()) * 31 + submitted.planned);
  say(name_of(worker, submitted) + " ends: " + status.to_string());
  if (++submitted.completions != 1) throw Broken("once", name_of(worker, submitted) + " completed twice");
  coverage_.add(status.ok() ? "calls ok" : "calls failed");
  submitted.input_after = submitted.input;
  submitted.output_after = submitted.output;
  if (status.ok()) {  // the user's memory is the user's again
    std::fill(submitted.input.begin(), submitted.input.end(), std::byte{0xEE});
    std::fill(submitted.output.begin(), submitted.output.end(), std::byte{0xEE});
  }
  if (status.ok() && submitted.of == worker.in && !worker.closed[submitted.plan().group].ok())
    throw Broken("error", name_of(worker, submitted) + " completed after its communicator was closed");
  leave_early(worker);
  if (submitted.of != worker.in) return;
  if (submitted.plan().wait_for_it) submit_later(worker);
  admit_at_the_end(worker);
}

bool World::error_is_right(const Status& status, const Submitted& submitted) const {
  const PlannedCall& planned = submitted.plan();
  switch (fault_) {
    case Fault::kill_worker:
    case Fault::silent_worker:
      return status.code() == Code::peer_lost &&
             status.text().find("rank " + std::to_string(victim_)) != std::string::npos;
    case Fault::lose_worker:  // and perhaps reducers; what was never created is closed by the change
      return status.code() == Code::peer_lost || (!recoverable_ && status.code() == Code::reducer_lost);
    case Fault::kill_reducer:
      return !recoverable_ && status.code() == Code::reducer_lost;
    case Fault::cut_lane:  // of a shard, or between workers
      return (!recoverable_ && status.code() == Code::reducer_lost) ||
             (peer_lanes_ && status.code() == Code::peer_lost);
    case Fault::duplicate:  // the sender's lane is ended; in a ring it is known who it was
      return status.code() == Code::reducer_lost || (peer_lanes_ && status.code() == Code::protocol_error);
    case Fault::absent_rank:
      return status.code() == Code::timeout;
    case Fault::mismatch:
      return status.code() == Code::mismatch && planned.group == submitted.of->script[bad_call_].group &&
             (wire::is_exchange(submitted.of->script[bad_call_].call.kind) ||
              status.text().find(" differs in ") != std::string::npos);
    default:
      return false;
  }
}

void World::check_call(const Worker& worker, const Submitted& submitted) const {
  const PlannedCall& planned = submitted.plan();
  const Status& status = submitted.call->status();
  const std::string name = name_of(worker, submitted);
  if (submitted.completions != 1)
    throw Broken("once", name + " completed " + std::to_string(submitted.completions) + " times");
  if (!status.ok()) {
    const bool never_created = planned.group == 1 && status.code() == Code::closed &&
                               (worker.group_ids[1] == 0xFFFF || submitted.of != worker.in);
    if (!never_created && !error_is_right(status, submitted))
      throw Broken("error", name + " ended with the wrong error: " + status.to_string());
    // The other ranks' parts of an all_gather in place are output only.
    const bool part_only = planned.call.kind == wire::Kind::all_gather;
    const PartBytes part = part_of(planned, submitted.members(), submitted.rank_in_group());
    if (part_only ? !same(submitted.input_after, submitted.before, part) : submitted.input_after != submitted.before)
      throw Broken("input", name + " failed and its input has changed");
    return;
  }
  // Of an exchange, who has sent its part may be done.
  const bool exchange = wire::is_exchange(planned.call.kind);
  if (fault_ == Fault::mismatch && fault_done_ && submitted.planned == bad_call_ && submitted.members() > 1 &&
      !exchange)
    throw Broken("agreement", name + " succeeded although the ranks asked for different things");
  const std::uint32_t rank = submitted.rank_in_group();
  const bool is_root = planned.call.kind == wire::Kind::broadcast && planned.call.root == rank;
  if (fault_ == Fault::mismatch && submitted.planned == bad_call_) return;  // alone in its group with another op
  const std::vector<std::byte> expected = expected_of(planned, submitted.members(), rank, settings_);
  const std::vector<std::byte>& got = planned.in_place ? submitted.input_after : submitted.output_after;
  if (planned.call.kind == wire::Kind::barrier) return;
  if (is_root && planned.in_place) return;
  // Who gets no result of a reduce keeps its memory as it was.
  const bool no_result = planned.call.kind == wire::Kind::reduce && planned.call.root != rank;
  if (no_result && !planned.in_place) return;
  const bool part_only = planned.call.kind == wire::Kind::reduce_scatter;
  const PartBytes part = part_of(planned, submitted.members(), rank);
  if (part_only ? !same(got, expected, part) : got != expected) {
    std::size_t at = part_only ? part.first : 0;
    while (at < got.size() && at < expected.size() && got[at] == expected[at]) ++at;
    const bool as_before = at < got.size() && at < submitted.before.size() && got[at] == submitted.before[at];
    throw Broken("bits", name + " has wrong bits from byte " + std::to_string(at) + " of " +
                             std::to_string(got.size()) + (planned.in_place ? " in place" : "") +
                             (as_before ? ", as before" : ""));
  }
  if (part_only && planned.in_place &&
      (!same(got, submitted.before, {0, part.first}) || !same(got, submitted.before, {part.end, got.size()})))
    throw Broken("bits", name + " wrote other ranks' parts");
  if (!planned.in_place && submitted.input_after != submitted.before) throw Broken("input", name + " wrote its input");
  const std::uint32_t took_part = planned.call.kind == wire::Kind::send ? 2 : submitted.members();
  if (submitted.call->contributors() != took_part) throw Broken("once", name + " counts other contributors");
}

void World::check() {
  for (const auto& worker : workers_) {
    if (!worker->join_error.ok()) {
      const Code code = worker->join_error.code();
      const bool right = (fault_ == Fault::refused_memory && code == Code::resource_exhausted) ||
                         (fault_ == Fault::kill_worker && (code == Code::peer_lost || code == Code::timeout)) ||
                         (fault_ == Fault::silent_worker && (code == Code::peer_lost || code == Code::timeout)) ||
                         (fault_ == Fault::lose_worker && (code == Code::peer_lost || code == Code::timeout ||
                                                           (!recoverable_ && code == Code::reducer_lost))) ||
                         (fault_ == Fault::kill_reducer && code == Code::reducer_lost);
      if (!right || !fault_done_)
        throw Broken("error",
                     "rank " + std::to_string(worker->rank) + " cannot join: " + worker->join_error.to_string());
      coverage_.add("join refused");
    }
    if (!worker->alive || worker->silent) continue;
    for (const auto& submitted : worker->calls) check_call(*worker, *submitted);
  }
}

void World::leave(Worker& worker) {
  if (worker.group_open[1] && worker.group_ids[1] != 0xFFFF) {
    worker.agent->retire(CommunicatorId(worker.group_ids[1]), {Code::closed, "leaving"});
    to_coordinator(worker.to_coordinator, worker.peer,
                   wire::CloseCommunicator{"", worker.group_ids[1], worker.sequences[1]});
  }
  if (one_cannot_bring_) recoverable_ = false;  // perhaps no one is left who can
  worker.agent->leave({Code::closed, "leaving"}, {Code::closed, "left"});
  to_coordinator(worker.to_coordinator, worker.peer, wire::Leave{worker.sequences[0]});
  if (worker.agent->busy()) throw Broken("end", "rank " + std::to_string(worker.rank) + " is busy after closing");
}

// A rank that has all its results may go while others still wait for theirs.
void World::leave_early(Worker& worker) {
  const bool member = !worker.in->sub.empty() && worker.in->has(1, worker.rank);
  if (member && !worker.group_open[1]) return;
  if (!through(worker) || fault_ == Fault::absent_rank || fault_ == Fault::lose_worker ||
      !random_.chance(fault_ == Fault::kill_reducer ? 90 : 30))
    return;
  net_.at(net_.now() + static_cast<DurationNs>(random_.below(random_.chance(50) ? 1 : 300)) * kMicrosecond,
          [this, &worker] {
            if (!worker.alive || worker.silent || worker.left || !worker.closed[0].ok() || !worker.closed[1].ok())
              return;
            coverage_.add("left early");
            worker.left = true;
            leave(worker);
            // Others may be waiting for results of calls that are over here.
            if (fault_ == Fault::kill_reducer && random_.chance(80))
              net_.at(net_.now() + static_cast<DurationNs>(random_.below(random_.chance(50) ? 1 : 50)) * kMicrosecond,
                      [this] { inject(); });
            if (!worker.agent->may_be_needed()) go(worker);
            run_agent(worker);
          });
}

// Nobody needs the worker any more: its process ends.
void World::go(Worker& worker) {
  worker.going = true;
  if (worker.own && worker.own->open) return;  // others may still need its reducer
  if (std::exchange(worker.over, true)) return;
  if (worker.own) {
    worker.own->alive = false;
    disconnect(worker.own->peer, worker.own->to_coordinator + kMillisecond, "end of file");
  }
  disconnect(worker.peer, worker.to_coordinator + kMillisecond, "end of file");
}

// Everybody goes; what is left after that is a leak.
void World::leave_and_check() {
  leaving_ = true;
  for (const auto& worker : workers_) {
    if (!worker->alive || worker->silent) continue;
    const bool lingers = worker->joined && worker->join_error.ok();
    if (worker->joined && !worker->left) leave(*worker);
    worker->left = true;
    if (!lingers || !worker->agent->may_be_needed()) go(*worker);
  }
  net_.run_until(net_.now() + 20 * kMillisecond);  // what is under way arrives
  const auto empty = [this] {
    for (const auto& reducer : reducers_)
      for (const Shard& shard : reducer->shards)
        if (reducer->alive && !shard.agent->jobs().empty()) return false;
    return core_.jobs().empty();
  };
  if (!net_.run_until(empty, net_.now() + 30 * kSecond))
    throw Broken("leak", "the job is still known after everybody left");
}

}  // namespace redsum::sim
