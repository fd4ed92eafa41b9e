// SPDX-License-Identifier: Apache-2.0
// How a job ends: workers leave, somebody is lost, the last one goes.
#include <algorithm>
#include <utility>

#include "server/core/coordinator_core.h"

namespace redsum::server {
namespace {

using roster::Seat;

// The workers shall hear why before their lanes close, so the reducers keep a failed job for so long at most.
constexpr DurationNs kFailedJobLinger = 5 * kSecond;

}  // namespace

void CoordinatorCore::on_leave(Peer& peer, const wire::Leave& message, Turn& turn) {
  peer.gone = true;
  peer.parked.reset();
  peer.parked_until = kNever;
  peer.contests = PeerId();
  arm(turn.now);  // the members hear that it waits no more
  if (!peer.job) return;
  Job& job = *std::exchange(peer.job, nullptr);
  const std::uint32_t rank = peer.hello.rank;
  Seat& seat = job.seats[rank];
  --job.taken;
  ++changes_;
  if (job.state == JobState::forming) {
    seat = Seat{};
    return forget_if_empty(job, turn);
  }
  seat.state = Seat::State::left;
  seat.resume.reset();
  seat.ready = true;  // nobody waits for its lanes
  ++job.left;
  if (job.state == JobState::running) {
    job.lingering.insert(peer.id);
    peer.lingers = &job;
  }
  const Status why(Code::peer_lost, seat.text() + " has left the job");
  for (auto it = job.creations.begin(); it != job.creations.end();) {
    const auto creation = it++;
    if (std::count(creation->members.begin(), creation->members.end(), rank)) fail_creation(job, creation, why, turn);
  }
  std::vector<std::uint16_t> open;
  for (const auto& [id, communicator] : job.communicators)
    if (communicator.rank_of(rank)) open.push_back(id);
  for (const std::uint16_t id : open) close_member(job, id, rank, id == 0 ? message.calls : 0, turn);
  run_if_ready(job, turn);
  if (job.taken > 0) own_leaves(job, rank, turn);
  arm(turn.now);
  forget_if_empty(job, turn);
}

void CoordinatorCore::worker_gone(Job& job, std::uint32_t rank, const Status& why, Turn& turn) {
  Seat& seat = job.seats[rank];
  --job.taken;
  if (job.state == JobState::forming) {
    seat = Seat{};  // only its place is free again
    return forget_if_empty(job, turn);
  }
  seat.state = Seat::State::lost;
  seat.resume.reset();
  arm(turn.now);  // those that are left may have waited for it to resume
  if (job.state == JobState::failed) return forget_if_empty(job, turn);
  fail_job(job, {Code::peer_lost, seat.text() + " is lost: " + why.text()}, {rank}, turn);
}

void CoordinatorCore::fail_job(Job& job, const Status& why, std::vector<std::uint32_t> ranks, Turn& turn) {
  if (job.state == JobState::opening && !job.told) let_newcomers_wait(job);
  job.state = JobState::failed;
  job.since = turn.now;
  job.failure = why;
  job.last_error = why.text();
  job.lane_troubles.clear();
  job.change.reset();
  job.deadline = turn.now + kFailedJobLinger;
  arm(job.deadline);
  job.creations.clear();
  fail_resume(job, why, turn);
  dismiss_all(job, why.text(), turn);
  release_lingering(job, why.text(), turn);
  for (auto& [id, communicator] : job.communicators) communicator.waiting.clear();
  ++counters_.jobs_failed;
  ++changes_;
  count(why.code());
  note(log::Level::warn, "job '" + job.name + "' failed: " + why.to_string(), turn);
  send_workers(job, wire::Fail{wire::kEveryCommunicator, why.code(), why.text(), std::move(ranks)}, turn);
  forget_if_empty(job, turn);
}

void CoordinatorCore::fail_formation(Job& job, const Status& why, Turn& turn) {
  count(why.code());
  note(log::Level::warn, "job '" + job.name + "' could not form: " + why.to_string(), turn);
  send_workers(job, wire::Fail{wire::kEveryCommunicator, why.code(), why.text(), {}}, turn);
  for (const Seat& seat : job.seats) {
    if (seat.state != Seat::State::taken) continue;
    turn.effects.closes.push_back(seat.peer);
    peers_.erase(seat.peer);
  }
  ++counters_.jobs_failed;
  forget(job, why.text(), turn);
}

// Who has been in the job before stays in it, and may try again.
void CoordinatorCore::give_up_opening(Job& job, const Status& why, Turn& turn) {
  if (job.record.stayed > 0) return fail_job(job, why, {}, turn);
  fail_formation(job, why, turn);
}

void CoordinatorCore::close_at_reducers(Job& job, const std::string& reason, Turn& turn) {
  send_reducers(job, wire::CloseJob{job.name, reason}, turn);
  job.reducers.clear();
}

void CoordinatorCore::forget_if_empty(Job& job, Turn& turn) {
  if (job.taken == 0) forget(job, job.failure ? "all workers have left" : job.failure.text(), turn);
}

void CoordinatorCore::forget(Job& job, const std::string& reason, Turn& turn) {
  close_at_reducers(job, reason, turn);
  dismiss_all(job, reason, turn);
  release_lingering(job, reason, turn);
  for (auto& [id, peer] : peers_)  // a worker's own reducer has had its one job
    if (peer.reducer && !peer.of_pool() && owner_of(job, peer)) peer.draining = true;
  for (const Seat& seat : job.seats) {
    if (seat.state != Seat::State::taken) continue;
    Peer* peer = find(seat.peer);
    if (!peer) continue;
    peer->job = nullptr;
    peer->gone = true;
  }
  if (job.state != JobState::forming) {
    ++counters_.jobs_ended;
    note(log::Level::info, "job '" + job.name + "' has ended: " + reason, turn);
  }
  ++changes_;
  const std::string name = job.name;
  jobs_.erase(name);
  std::vector<PeerId> parked;
  for (const auto& [id, peer] : peers_)
    if (peer.parked && peer.hello.job == name) parked.push_back(id);
  for (const PeerId id : parked) {
    Peer* peer = find(id);
    if (!peer) continue;
    const wire::Join join = *std::exchange(peer->parked, std::nullopt);
    peer->parked_until = kNever;
    peer->contests = PeerId();
    on_join(*peer, join, turn);
  }
}

}  // namespace redsum::server
