// SPDX-License-Identifier: Apache-2.0
// Epochs after the first: the reducers of a running job change, and its calls go on.
#include <algorithm>
#include <map>
#include <utility>

#include "server/core/coordinator_core.h"
#include "transport/base/mutant.h"

namespace redsum::server {
namespace {

using roster::Change;

// The lesser of both, shard by shard; the lists are as long as each other.
void take_least(std::vector<std::uint64_t>& into, const std::vector<std::uint64_t>& from) {
  for (std::size_t i = 0; i < into.size(); ++i)
    into[i] = mutant("max_progress") ? std::max(into[i], from[i]) : std::min(into[i], from[i]);
}

}  // namespace

// `why` is told where the job cannot go on without it.
void CoordinatorCore::lose_reducer(Job& job, PeerId id, Incarnation instance, const Status& why, Turn& turn) {
  std::erase(job.reducers, id);
  std::erase_if(job.lane_troubles, [&](const roster::LaneTrouble& trouble) { return trouble.instance == instance; });
  if (job.state == JobState::failed) return;
  if (job.state != JobState::running) return fail_job(job, why, {}, turn);
  take_out(job, id, instance);
  job.last_error = why.text();
  if (job.reducers.empty()) recruit(job, turn);
  if (job.reducers.empty() && job.recruits.empty()) fall_back(job, turn);
  if (none_left(job)) return fail_job(job, why, {}, turn);
  const std::vector<PeerId> others = candidates(job);
  note(log::Level::warn,
       "job '" + job.name + "': " + why.text() + (others.empty() ? "" : "; it goes on with " + reducers_text(others)),
       turn);
  for (auto it = job.creations.begin(); it != job.creations.end();) {
    const auto creation = it++;
    if (creation->unreserved.erase(id) != 0 && creation->unreserved.empty()) created(job, creation, turn);
  }
  open_epoch(job, turn);
}

// Some worker cannot reach it, so the job does without.
void CoordinatorCore::give_up_reducer(Job& job, const roster::LaneTrouble& trouble, Turn& turn) {
  for (const PeerId id : job.reducers) {
    if (peers_.at(id).hello.incarnation != trouble.instance) continue;
    if (job.record.settings.mode != wire::Mode::server) break;
    send(id, wire::CloseJob{job.name, trouble.why.text()}, turn);
    bar(job, trouble.instance, turn);
    return lose_reducer(job, id, trouble.instance, trouble.why, turn);
  }
  fail_job(job, trouble.why, {}, turn);
}

void CoordinatorCore::open_epoch(Job& job, Turn& turn) {
  take_in(job, turn);
  let_go(job, turn);
  job.change.emplace();
  job.change->epoch = Epoch(options_.term, ++job.epochs);
  for (const roster::Seat& seat : job.seats)
    if (seat.state == roster::Seat::State::taken) job.change->unreported.insert(seat.peer);
  job.change->unreported.insert(job.lingering.begin(), job.lingering.end());
  ++changes_;
  send_members(job, wire::Prepare{job.change->epoch}, turn);
  advance_epoch(job, turn);
}

void CoordinatorCore::on_progress(Peer& peer, const wire::Progress& message, Turn& turn) {
  Job& job = peer.lingers ? *peer.lingers : *peer.job;
  if (!job.change || job.change->epoch != message.epoch || job.change->unreported.erase(peer.id) == 0) return;
  for (const wire::CommunicatorProgress& one : message.communicators) {
    const auto communicator = job.communicators.find(one.communicator);
    if (communicator == job.communicators.end() || !communicator->second.rank_of(peer.hello.rank)) continue;
    job.change->reported.emplace(one.communicator, peer.hello.rank);
    const auto [known, is_new] = job.change->least.emplace(one.communicator, one);
    if (is_new) continue;
    if (known->second.bulk.size() != one.bulk.size())
      return refuse(peer,
                    {Code::protocol_error, "rank " + std::to_string(peer.hello.rank) + " counts " +
                                               std::to_string(one.bulk.size()) + " shards, other ranks " +
                                               std::to_string(known->second.bulk.size())},
                    turn);
    take_least(known->second.bulk, one.bulk);
    take_least(known->second.small, one.small);
  }
  advance_epoch(job, turn);
}

void CoordinatorCore::on_entered(Peer& peer, const wire::Entered& message, Turn& turn) {
  const auto found = jobs_.find(message.job);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  if (!job.change || job.change->epoch != message.epoch) return;
  job.change->unentered.erase(peer.id);
  advance_epoch(job, turn);
}

void CoordinatorCore::advance_epoch(Job& job, Turn& turn) {
  Change& change = *job.change;
  if (!change.unreported.empty() || job.reducers.empty()) return;  // none: recruits are on their way
  if (!std::exchange(change.entering, true)) {
    change.unentered = {job.reducers.begin(), job.reducers.end()};
    send_reducers(job, wire::Enter{job.name, change.epoch}, turn);
  }
  if (change.unentered.empty()) commit_epoch(job, turn);
}

void CoordinatorCore::commit_epoch(Job& job, Turn& turn) {
  const Change change = std::move(*job.change);
  job.change.reset();
  // Who has closed a communicator, or left the job, contributes again all the same, if it is still there.
  std::map<std::uint16_t, std::string> missed;
  for (const auto& [id, communicator] : job.communicators)
    for (std::size_t i = 0; i < communicator.members.size() && !communicator.failed; ++i) {
      roster::Seat& seat = job.seats[communicator.members[i]];
      const bool there = seat.state == roster::Seat::State::taken || job.lingering.contains(seat.peer);
      seat.needed = seat.needed || seat.state == roster::Seat::State::left;
      if (communicator.calls_of[i] && !(there && change.reported.contains({id, seat.worker.rank})))
        missed.emplace(id, seat.text());
    }
  for (const auto& [id, who] : missed)
    fail_communicator(job, id, {Code::reducer_lost, job.last_error + "; " + who + " is gone, and needed to go on"}, {},
                      turn);
  job.record.epoch = change.epoch;
  job.coming.clear();
  wire::Commit commit{change.epoch, job.record.reducers, {}};
  for (const auto& [id, least] : change.least)
    if (const auto found = job.communicators.find(id); found != job.communicators.end() && !found->second.failed)
      commit.least.push_back(least);
  ++changes_;
  ++counters_.epochs_opened;
  note(log::Level::info,
       "job '" + job.name + "' is in epoch " + std::to_string(change.epoch.count()) + " with " +
           std::to_string(job.record.reducers.size()) + " reducers",
       turn);
  send_members(job, std::move(commit), turn);
  for (const PeerId id : std::exchange(job.parting, {}))
    send(id, wire::CloseJob{job.name, "the job goes on without this reducer, which drains"}, turn);
  change_if_due(job, turn);
}

void CoordinatorCore::send_members(const Job& job, wire::Message message, Turn& turn) {
  if (!job.lingering.empty()) turn.effects.sends.push_back({{job.lingering.begin(), job.lingering.end()}, message});
  send_workers(job, std::move(message), turn);
}

void CoordinatorCore::release_lingering(Job& job, const std::string& reason, Turn& turn) {
  for (const PeerId id : job.lingering) {
    send(id, wire::CloseJob{job.name, reason}, turn);
    if (Peer* peer = find(id)) peer->lingers = nullptr;
  }
  job.lingering.clear();
}

void CoordinatorCore::lingerer_gone(Job& job, const Peer& peer, const Status& why, Turn& turn) {
  job.lingering.erase(peer.id);
  std::vector<PeerId> awaiting;
  for (const auto& [id, recruit] : job.recruits) awaiting.push_back(id);
  for (const PeerId id : awaiting) reached(job, id, peer.id, turn);
  if (job.change) {
    job.change->unreported.erase(peer.id);
    return advance_epoch(job, turn);
  }
  const roster::Seat& seat = job.seats[peer.hello.rank];
  if (!seat.needed) return;
  std::vector<std::uint16_t> open;
  for (const auto& [id, communicator] : job.communicators)
    if (!communicator.failed && communicator.rank_of(peer.hello.rank)) open.push_back(id);
  for (const std::uint16_t id : open)
    fail_communicator(
        job, id,
        {Code::peer_lost, seat.text() + ", which had left the job and was still needed, is lost: " + why.text()},
        {*job.communicators.at(id).rank_of(peer.hello.rank)}, turn);
}

}  // namespace redsum::server
