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
    if (!peer.of_pool() || peer.draining || shards + peer.reducer->shards > kMaxShardsOfJob) continue;
    if (job.recruits.contains(id) || std::count(job.reducers.begin(), job.reducers.end(), id) != 0) continue;
    const auto barred = job.barred.find(peer.hello.incarnation);
    if (barred != job.barred.end() && barred->second.until > turn.now) continue;
    shards += peer.reducer->shards;
    recruit(job, peer, turn);
  }
}

void CoordinatorCore::recruit(Job& job, const Peer& reducer, Turn& turn) {
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
  const bool comes =
      std::any_of(job.recruits.begin(), job.recruits.end(), [](const auto& recruit) { return recruit.second.ready(); });
  if (!job.change) {
    if (comes || has_leaver(job)) open_epoch(job, turn);
  } else if (comes && job.reducers.empty()) {
    take_in(job, turn);
    advance_epoch(job, turn);
  }
}

void CoordinatorCore::take_in(Job& job, Turn& turn) {
  for (auto it = job.recruits.begin(); it != job.recruits.end();) {
    const auto recruit = it++;
    if (!recruit->second.ready()) continue;
    const PeerId id = recruit->first;
    job.recruits.erase(recruit);
    job.reducers.push_back(id);
    job.record.reducers.push_back(info_of(id));
    job.lost_reducers.erase(job.record.reducers.back().instance);
    note(log::Level::info, "job '" + job.name + "': " + reducer_text(id) + " comes in", turn);
  }
}

bool CoordinatorCore::has_leaver(const Job& job) const {
  if (job.record.settings.mode != wire::Mode::server) return false;
  const auto drains = [this](PeerId id) { return peers_.at(id).draining; };
  return std::any_of(job.reducers.begin(), job.reducers.end(), drains) &&
         !std::all_of(job.reducers.begin(), job.reducers.end(), drains);
}

void CoordinatorCore::let_go(Job& job) {
  if (!has_leaver(job)) return;
  for (const PeerId id : std::vector(job.reducers)) {
    const Peer& peer = peers_.at(id);
    if (!peer.draining) continue;
    std::erase(job.reducers, id);
    std::erase_if(job.record.reducers, [&](const auto& info) { return info.instance == peer.hello.incarnation; });
    job.lost_reducers.insert(peer.hello.incarnation);
    job.parting.push_back(id);
  }
}

void CoordinatorCore::dismiss(Job& job, PeerId id, const Status& why, Turn& turn) {
  const auto node = job.recruits.extract(id);
  if (node.empty()) return;
  if (const Peer* peer = find(id)) {
    send(id, wire::CloseJob{job.name, why.text()}, turn);
    if (!peer->draining) bar(job, peer->hello.incarnation, turn);
  }
  ++changes_;
  note(log::Level::warn, "job '" + job.name + "' does without a reducer more: " + why.text(), turn);
  if (node.mapped().told) send_recruits(job, turn);
  if (job.reducers.empty() && job.recruits.empty()) fail_job(job, {Code::reducer_lost, job.last_error}, {}, turn);
}

void CoordinatorCore::dismiss_all(Job& job, const std::string& reason, Turn& turn) {
  for (const auto& [id, recruit] : job.recruits) send(id, wire::CloseJob{job.name, reason}, turn);
  for (const PeerId id : job.parting) send(id, wire::CloseJob{job.name, reason}, turn);
  job.recruits.clear();
  job.parting.clear();
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
