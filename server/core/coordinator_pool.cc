// SPDX-License-Identifier: Apache-2.0
// Reducers: who is in the pool, what they reserved, what they report.
#include <algorithm>

#include "server/core/coordinator_core.h"

namespace redsum::server {
namespace {

constexpr std::size_t kMaxNameBytes = 256;
constexpr std::uint16_t kMaxShardsPerReducer = 1024;
constexpr DurationNs kLaneGrace = kSecond;         // a broken lane often comes just before its reducer's own loss
constexpr DurationNs kDescriptionLimit = kSecond;  // for the ranks to describe a call that a reducer found to differ

}  // namespace

std::vector<wire::ReducerInfo> CoordinatorCore::reducers() const {
  std::vector<wire::ReducerInfo> all;
  for (const auto& [id, peer] : peers_)
    if (peer.of_pool())
      all.push_back({peer.hello.incarnation, peer.reducer->name, peer.reducer->address, peer.reducer->shards, 1});
  return all;
}

std::string CoordinatorCore::reducer_text(PeerId id) const {
  const auto found = peers_.find(id);
  if (found == peers_.end() || !found->second.reducer) return "a reducer that is gone";
  return "reducer '" + found->second.reducer->name + "' (" + found->second.reducer->address + ")";
}

std::string CoordinatorCore::reducers_text(const std::vector<PeerId>& ids) const {
  constexpr std::size_t kListed = 4;
  std::string text;
  for (std::size_t i = 0; i < ids.size() && i < kListed; ++i) text += (i > 0 ? ", " : "") + reducer_text(ids[i]);
  if (ids.size() > kListed) text += " ... (" + std::to_string(ids.size()) + " in all)";
  return text;
}

void CoordinatorCore::on_register(Peer& peer, const wire::Register& message, Turn& turn) {
  const auto wrong = [&](std::string text) { refuse(peer, {Code::invalid_argument, std::move(text)}, turn); };
  if (message.name.empty() || message.name.size() > kMaxNameBytes)
    return wrong("the name of a reducer has " + std::to_string(message.name.size()) + " bytes; it must have 1 to 256");
  if (message.address.empty() || message.address.size() > kMaxNameBytes)
    return wrong("the data address of reducer '" + message.name + "' has " + std::to_string(message.address.size()) +
                 " bytes; it must have 1 to 256");
  if (message.shards == 0 || message.shards > kMaxShardsPerReducer)
    return wrong("reducer '" + message.name + "' has " + std::to_string(message.shards) + " shards; 1 to " +
                 std::to_string(kMaxShardsPerReducer) + " are allowed");
  for (const auto& [id, other] : peers_) {
    if (!other.reducer || (!other.of_pool() && other.draining)) continue;
    if (other.reducer->name == message.name && message.job.empty() && other.of_pool())
      return wrong("a reducer named '" + message.name + "' is registered already, from " + other.address +
                   "; the one at " + peer.address + " needs another name");
    if (other.hello.incarnation == peer.hello.incarnation)
      return wrong("reducer '" + message.name + "' has the same incarnation number as '" + other.reducer->name + "'");
  }
  peer.reducer = message;
  ++changes_;
  const auto pool = static_cast<std::uint32_t>(reducers().size());
  if (peer.of_pool())
    note(log::Level::info,
         reducer_text(peer.id) + " registered: " + std::to_string(message.shards) + " shards, " +
             std::to_string(message.budget_bytes >> 20) + " MiB budget, redsum " + message.version + "; the pool has " +
             std::to_string(pool),
         turn);
  send(peer.id, wire::Registered{pool}, turn);
  if (!peer.of_pool()) own_registered(peer, turn);
  std::vector<Job*> waiting;
  for (const auto& [name, job] : jobs_) {
    if (job->state == JobState::forming) waiting.push_back(job.get());
    recruit(*job, turn);
  }
  arm(turn.now);  // a job may wait for it to resume
  for (Job* job : waiting) open_if_complete(*job, turn);
}

void CoordinatorCore::on_draining(Peer& peer, Turn& turn) {
  if (peer.draining) return;
  peer.draining = true;
  ++changes_;
  note(log::Level::info, reducer_text(peer.id) + " is draining: it takes no new job", turn);
  std::vector<Job*> jobs;
  for (const auto& [name, job] : jobs_) jobs.push_back(job.get());
  for (Job* job : jobs) {
    dismiss(*job, peer.id, {Code::closed, reducer_text(peer.id) + " is draining"}, turn);
    const auto drains = [this](PeerId id) { return peers_.at(id).draining; };
    if (job->recruits.empty() && std::all_of(job->reducers.begin(), job->reducers.end(), drains)) fall_back(*job, turn);
    change_if_due(*job, turn);
  }
}

void CoordinatorCore::reducer_gone(const Peer& peer, const Status& why, Turn& turn) {
  const std::string who = "reducer '" + peer.reducer->name + "' (" + peer.reducer->address + ")";
  note(log::Level::info, who + " is gone: " + why.text(), turn);
  std::vector<Job*> hit, awaiting;
  for (const auto& [name, job] : jobs_) {
    std::erase(job->parting, peer.id);
    if (std::count(job->reducers.begin(), job->reducers.end(), peer.id) > 0) hit.push_back(job.get());
    if (job->recruits.contains(peer.id)) awaiting.push_back(job.get());
  }
  for (Job* job : awaiting) dismiss(*job, peer.id, {Code::reducer_lost, who + " is lost: " + why.text()}, turn);
  for (Job* job : hit) {
    if (job->record.settings.mode == wire::Mode::server) {
      lose_reducer(*job, peer.id, peer.hello.incarnation, {Code::reducer_lost, who + " is lost: " + why.text()}, turn);
      continue;
    }
    std::erase(job->reducers, peer.id);
    if (job->state == JobState::failed) continue;
    // A worker's own: the worker is dying, or left before the others had their results.
    const roster::Seat* owner = owner_of(*job, peer);
    const std::string whose = owner ? owner->text() : who;
    fail_job(*job, {Code::peer_lost, whose + " is lost: " + why.text()},
             owner ? std::vector{owner->worker.rank} : std::vector<std::uint32_t>(), turn);
  }
}

void CoordinatorCore::on_reserved(Peer& peer, const wire::Reserved& message, Turn& turn) {
  const auto found = jobs_.find(message.job);
  if (found == jobs_.end()) return;  // it was closed while the answer was on its way
  Job& job = *found->second;
  if (message.epoch < job.began) return;  // of an earlier membership, or an earlier job of the name
  if (job.recruits.contains(peer.id)) return on_recruit_reserved(job, peer, message, turn);
  const Status refused =
      message.code == Code::ok ? Status() : Status(message.code, reducer_text(peer.id) + ": " + message.text);
  if (message.communicator == 0) {
    if (job.state != JobState::opening || job.unreserved.erase(peer.id) == 0) return;
    if (!refused) return give_up_opening(job, refused, turn);
    if (job.unreserved.empty()) joined(job, turn);
    return;
  }
  const auto creation = std::find_if(job.creations.begin(), job.creations.end(),
                                     [&](const Creation& c) { return c.communicator == message.communicator; });
  if (creation == job.creations.end() || creation->unreserved.erase(peer.id) == 0) return;
  if (!refused) return fail_creation(job, creation, refused, turn);
  if (creation->unreserved.empty()) created(job, creation, turn);
}

void CoordinatorCore::on_mismatched(Peer& peer, const wire::Mismatched& message, Turn& turn) {
  const auto found = jobs_.find(message.job);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  const auto communicator = job.communicators.find(message.communicator);
  if (communicator == job.communicators.end() || communicator->second.failed || job.state == JobState::failed) return;
  if (message.epoch < job.began) return;  // of the time before
  if (peer.reducer && job.lost_reducers.contains(peer.hello.incarnation)) return;
  const bool takes_part = peer.reducer
                              ? std::find(job.reducers.begin(), job.reducers.end(), peer.id) != job.reducers.end()
                              : peer.job == &job && communicator->second.rank_of(peer.hello.rank);
  const std::string who = peer.reducer ? reducer_text(peer.id) : "rank " + std::to_string(peer.hello.rank);
  if (!takes_part)
    return refuse(peer, {Code::protocol_error, who + " has no part in what it reports of job '" + job.name + "'"},
                  turn);
  WaitingCall& call = communicator->second.waiting.at(message.sequence);
  if (!call.reporter.empty()) return;  // another one has told it already
  call.reporter = who;
  settle_call(job, message.communicator, call, kDescriptionLimit, turn);
}

void CoordinatorCore::on_lane_lost(Peer& peer, const wire::LaneLost& message, Turn& turn) {
  Job& job = *peer.job;
  const auto info = std::find_if(job.record.reducers.begin(), job.record.reducers.end(),
                                 [&](const wire::ReducerInfo& r) { return r.instance == message.instance; });
  if (job.lost_reducers.contains(message.instance)) return;
  if (info == job.record.reducers.end())
    return refuse(peer,
                  {Code::protocol_error, "rank " + std::to_string(peer.hello.rank) +
                                             " lost a lane to a reducer that job '" + job.name + "' does not use"},
                  turn);
  for (const roster::LaneTrouble& trouble : job.lane_troubles)
    if (trouble.instance == message.instance) return;
  if (job.state == JobState::failed) return;
  const Status why(Code::reducer_lost, "reducer '" + info->name + "' (" + info->address + ") cannot be reached by " +
                                           job.seats[peer.hello.rank].text() + ": " + message.text);
  job.lane_troubles.push_back({message.instance, why, turn.now + kLaneGrace});
  arm(job.lane_troubles.back().at);
}

}  // namespace redsum::server
