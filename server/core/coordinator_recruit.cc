// SPDX-License-Identifier: Apache-2.0
// Reducers that come into a running job, and those that drain. A recruit first reserves for every communicator, then
// every worker opens its lanes to it; both happen beside running calls. The epoch that begins with it costs no more
// than one that begins without a lost one.
#include <algorithm>

#include "server/core/coordinator_core.h"

namespace redsum::server {
namespace {

constexpr DurationNs kRecruitLimit = 10 * kSecond;
constexpr DurationNs kShortestBar = kSecond, kLongestBar = 60 * kSecond;

}  // namespace

wire::ReducerInfo CoordinatorCore::info_of(PeerId reducer) const {
  const Peer& peer = peers_.at(reducer);
  return {peer.hello.incarnation, peer.reducer->name, peer.reducer->address, peer.reducer->shards, 1};
}

std::vector<PeerId> CoordinatorCore::candidates(const Job& job) const {
  std::vector<PeerId> all = job.reducers;
  for (const auto& [id, recruit] : job.recruits) all.push_back(id);
  return all;
}

void CoordinatorCore::recruit(Job& job, Turn& turn) {
  if (job.state != JobState::running || job.record.settings.mode != wire::Mode::server) return;
  std::uint32_t shards = 0;
  for (const PeerId id : candidates(job)) shards += peers_.at(id).reducer->shards;
  for (const auto& [id, peer] : peers_) {
    if (!peer.of_pool() || !may_recruit(job, peer, turn) || shards + peer.reducer->shards > kMaxShardsOfJob) continue;
    shards += peer.reducer->shards;
    recruit(job, peer, turn);
  }
}

bool CoordinatorCore::may_recruit(const Job& job, const Peer& reducer, const Turn& turn) const {
  const auto barred = job.barred.find(reducer.hello.incarnation);
  return !reducer.draining && !job.recruits.contains(reducer.id) &&
         std::count(job.reducers.begin(), job.reducers.end(), reducer.id) == 0 &&
         (barred == job.barred.end() || barred->second.until <= turn.now);
}

void CoordinatorCore::recruit(Job& job, const Peer& reducer, Turn& turn) {
  std::erase(job.parting, reducer.id);
  roster::Recruit& recruit = job.recruits[reducer.id];
  recruit.deadline = turn.now + kRecruitLimit;
  arm(recruit.deadline);
  ++changes_;
  send(reducer.id, wire::OpenJob{job.name, job.record}, turn);
  const auto open = [&](std::uint16_t id, const std::vector<std::uint32_t>& members) {
    recruit.unreserved.insert(id);
    send(reducer.id, wire::OpenCommunicator{job.name, id, members}, turn);
  };
  for (const auto& [id, communicator] : job.communicators) open(id, communicator.members);
  for (const Creation& creation : job.creations)
    if (creation.communicator) open(*creation.communicator, creation.members);
}

void CoordinatorCore::on_recruit_reserved(Job& job, const Peer& reducer, const wire::Reserved& message, Turn& turn) {
  if (message.code != Code::ok)
    return dismiss(job, reducer.id, {message.code, reducer_text(reducer.id) + ": " + message.text}, turn);
  roster::Recruit& recruit = job.recruits.at(reducer.id);
  recruit.unreserved.erase(message.communicator);
  if (!recruit.unreserved.empty()) return;
  if (!std::exchange(recruit.told, true)) {
    for (const roster::Seat& seat : job.seats)
      if (seat.state == roster::Seat::State::taken) recruit.unreached.insert(seat.peer);
    recruit.unreached.insert(job.lingering.begin(), job.lingering.end());
    send_recruits(job, turn);
  }
  change_if_due(job, turn);
}

void CoordinatorCore::send_recruits(const Job& job, Turn& turn) {
  wire::Recruit message;
  for (const auto& [id, recruit] : job.recruits)
    if (recruit.told) message.reducers.push_back(info_of(id));
  for (const PeerId id : job.reducers)
    if (job.coming.contains(id)) message.reducers.push_back(info_of(id));
  send_members(job, std::move(message), turn);
}

void CoordinatorCore::on_recruited(Peer& worker, const wire::Recruited& message, Turn& turn) {
  Job& job = worker.lingers ? *worker.lingers : *worker.job;
  for (const auto& [id, recruit] : job.recruits) {
    if (peers_.at(id).hello.incarnation != message.instance || !recruit.told) continue;
    if (message.code == Code::ok) return reached(job, id, worker.id, turn);
    return dismiss(job, id,
                   {message.code, reducer_text(id) + " cannot be reached by " + job.seats[worker.hello.rank].text() +
                                      ": " + message.text},
                   turn);
  }
}

void CoordinatorCore::reached(Job& job, PeerId id, PeerId worker, Turn& turn) {
  const auto recruit = job.recruits.find(id);
  if (recruit == job.recruits.end()) return;
  recruit->second.unreached.erase(worker);
  change_if_due(job, turn);
}

// While a job has no reducer an epoch is open already, and waits for one.
void CoordinatorCore::change_if_due(Job& job, Turn& turn) {
  if (job.state != JobState::running) return;
  const bool comes = ready_to_come(job);
  if (!job.change) {
    if (comes || !leavers(job).empty()) open_epoch(job, turn);
  } else if (comes && job.reducers.empty()) {
    take_in(job, turn);
    let_go(job, turn);
    advance_epoch(job, turn);
  }
}

// The pool's come one by one; of the workers' own all that come, at once.
bool CoordinatorCore::ready_to_come(const Job& job) const {
  bool own = false, waits = !job.bringing.empty();
  for (const auto& [id, recruit] : job.recruits) {
    if (!peers_.at(id).of_pool()) {
      own = own || recruit.ready();
      waits = waits || !recruit.ready();
    } else if (recruit.ready()) {
      return true;
    }
  }
  return own && !waits;
}

bool CoordinatorCore::none_left(const Job& job) const {
  return job.reducers.empty() && job.recruits.empty() && job.bringing.empty();
}

void CoordinatorCore::take_in(Job& job, Turn& turn) {
  for (auto it = job.recruits.begin(); it != job.recruits.end();) {
    const auto recruit = it++;
    if (!recruit->second.ready()) continue;
    const PeerId id = recruit->first;
    job.recruits.erase(recruit);
    job.reducers.push_back(id);
    job.coming.insert(id);
    job.record.reducers.push_back(info_of(id));
    job.lost_reducers.erase(job.record.reducers.back().instance);
    note(log::Level::info, "job '" + job.name + "': " + reducer_text(id) + " comes in", turn);
  }
}

void CoordinatorCore::take_out(Job& job, PeerId id, Incarnation instance) {
  std::erase(job.reducers, id);
  std::erase_if(job.record.reducers, [&](const wire::ReducerInfo& info) { return info.instance == instance; });
  job.lost_reducers.insert(instance);
}

std::vector<PeerId> CoordinatorCore::leavers(const Job& job) const {
  std::vector<PeerId> going;
  if (job.record.settings.mode != wire::Mode::server) return going;
  const bool has_pool = std::any_of(job.reducers.begin(), job.reducers.end(),
                                    [this](PeerId id) { return peers_.at(id).of_pool() && !peers_.at(id).draining; });
  for (const PeerId id : job.reducers) {
    const Peer& peer = peers_.at(id);
    const roster::Seat* owner = peer.of_pool() ? nullptr : owner_of(job, peer);
    const bool idle = !owner || owner->state != roster::Seat::State::taken;
    if (peer.draining || (!peer.of_pool() && (has_pool || idle))) going.push_back(id);
  }
  if (going.size() == job.reducers.size()) going.clear();
  return going;
}

void CoordinatorCore::let_go(Job& job, Turn& turn) {
  for (const PeerId id : leavers(job)) {
    take_out(job, id, peers_.at(id).hello.incarnation);
    job.parting.push_back(id);
  }
  const auto of_pool = [this](PeerId id) { return peers_.at(id).of_pool(); };
  if (std::none_of(job.reducers.begin(), job.reducers.end(), of_pool)) return;
  job.bringing.clear();
  for (const PeerId id : candidates(job))
    if (!of_pool(id) && job.recruits.contains(id))
      drop_recruit(job, id, "the pool has a reducer for the job again", turn);
}

void CoordinatorCore::drop_recruit(Job& job, PeerId id, const std::string& reason, Turn& turn) {
  const auto node = job.recruits.extract(id);
  if (node.empty()) return;
  ++changes_;
  if (find(id)) send(id, wire::CloseJob{job.name, reason}, turn);
  if (node.mapped().told) send_recruits(job, turn);
}

void CoordinatorCore::dismiss(Job& job, PeerId id, const Status& why, Turn& turn) {
  if (!job.recruits.contains(id)) return;
  drop_recruit(job, id, why.text(), turn);
  if (const Peer* peer = find(id); peer && !peer->draining) bar(job, peer->hello.incarnation, turn);
  note(log::Level::warn, "job '" + job.name + "' does without a reducer more: " + why.text(), turn);
  if (job.reducers.empty() && job.recruits.empty()) fall_back(job, turn);
  if (none_left(job)) return fail_job(job, {Code::reducer_lost, job.last_error}, {}, turn);
  change_if_due(job, turn);  // it may be the one that others waited for
}

void CoordinatorCore::dismiss_all(Job& job, const std::string& reason, Turn& turn) {
  for (const auto& [id, recruit] : job.recruits) send(id, wire::CloseJob{job.name, reason}, turn);
  for (const PeerId id : job.parting) send(id, wire::CloseJob{job.name, reason}, turn);
  job.recruits.clear();
  job.parting.clear();
  job.bringing.clear();
}

void CoordinatorCore::bar(Job& job, Incarnation instance, Turn& turn) {
  roster::Barred& barred = job.barred[instance];
  barred.wait = std::clamp(2 * barred.wait, kShortestBar, kLongestBar);
  barred.until = turn.now + barred.wait;
  arm(barred.until);
}

void CoordinatorCore::check_recruits(Job& job, Turn& turn) {
  std::vector<PeerId> late;
  for (const auto& [id, recruit] : job.recruits)
    if (recruit.deadline <= turn.now) late.push_back(id);
  for (const PeerId id : late) {
    const auto recruit = job.recruits.find(id);
    if (recruit != job.recruits.end()) dismiss(job, id, recruit_timeout(job, id, recruit->second), turn);
  }
  bool again = false;
  for (auto& [instance, barred] : job.barred) {
    if (barred.until == 0 || barred.until > turn.now) continue;
    barred.until = 0;
    again = true;
  }
  if (again) recruit(job, turn);
  check_bringing(job, turn);
}

Status CoordinatorCore::recruit_timeout(const Job& job, PeerId id, const roster::Recruit& recruit) const {
  const std::string limit = " within " + seconds_text(kRecruitLimit);
  if (!recruit.unreserved.empty()) return {Code::timeout, reducer_text(id) + " has not reserved" + limit};
  std::vector<std::uint32_t> ranks;
  for (const PeerId worker : recruit.unreached)
    for (const roster::Seat& seat : job.seats)
      if (seat.peer == worker) ranks.push_back(seat.worker.rank);
  return {Code::timeout, reducer_text(id) + ": no lanes" + limit + " from " + ranks_text(ranks)};
}

}  // namespace redsum::server
