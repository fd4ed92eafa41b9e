// SPDX-License-Identifier: Apache-2.0
// The pool has no reducer left for a job in server mode: its workers sum for each other, each with a reducer of its own
// as in direct mode, until the pool has one again. That is the same left fold, so the same bits. Their reducers come
// into the job as any other does.
#include <algorithm>

#include "server/core/coordinator_core.h"

namespace redsum::server {
namespace {

constexpr DurationNs kBringLimit = 5 * kSecond;

}  // namespace

void CoordinatorCore::fall_back(Job& job, Turn& turn) {
  const wire::JobSettings& settings = job.record.settings;
  if (job.state != JobState::running || settings.mode != wire::Mode::server ||
      settings.fallback != wire::Fallback::direct || !job.bringing.empty())
    return;
  const std::vector<PeerId> own = own_reducers(job, job.seats);
  for (const roster::Seat& seat : job.seats) {
    if (seat.state != roster::Seat::State::taken || seat.cannot_bring) continue;
    const PeerId id = own[seat.worker.rank];
    if (id == PeerId()) {
      job.bringing.insert(seat.peer);
    } else if (may_recruit(job, peers_.at(id), turn)) {
      recruit(job, peers_.at(id), turn);
    }
  }
  if (job.bringing.empty()) return;
  note(log::Level::warn, "job '" + job.name + "' has no reducer of the pool: its workers sum for each other", turn);
  job.bring_deadline = turn.now + kBringLimit;
  arm(job.bring_deadline);
  turn.effects.sends.push_back({{job.bringing.begin(), job.bringing.end()}, wire::Bring{}});
}

void CoordinatorCore::own_registered(const Peer& reducer, Turn& turn) {
  const auto found = jobs_.find(reducer.reducer->job);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  const roster::Seat* owner = owner_of(job, reducer);
  if (!owner || !job.bringing.contains(owner->peer)) return arm(turn.now);  // a job in direct mode may wait for it
  const PeerId worker = owner->peer;
  recruit(job, reducer, turn);
  brought(job, worker, turn);
}

void CoordinatorCore::on_brought(Peer& worker, const wire::Brought& message, Turn& turn) {
  Job& job = *worker.job;
  roster::Seat& seat = job.seats[worker.hello.rank];
  seat.cannot_bring = true;
  note(log::Level::warn, "job '" + job.name + "': " + seat.text() + " brings no reducer: " + message.text, turn);
  brought(job, worker.id, turn);
}

void CoordinatorCore::brought(Job& job, PeerId worker, Turn& turn) {
  if (job.bringing.erase(worker) == 0) return;
  if (none_left(job)) return fail_job(job, {Code::reducer_lost, job.last_error}, {}, turn);
  change_if_due(job, turn);
}

// The worker of that rank has left: its reducer goes too, as soon as the others can do without.
void CoordinatorCore::own_leaves(Job& job, std::uint32_t rank, Turn& turn) {
  if (job.state != JobState::running || job.record.settings.mode != wire::Mode::server) return;
  const PeerId own = own_reducers(job, job.seats)[rank];
  if (job.recruits.contains(own))
    dismiss(job, own, {Code::closed, job.seats[rank].text() + " has left the job"}, turn);
  else if (job.bringing.contains(job.seats[rank].peer))
    brought(job, job.seats[rank].peer, turn);
  else
    change_if_due(job, turn);
}

void CoordinatorCore::check_bringing(Job& job, Turn& turn) {
  if (job.bringing.empty() || job.bring_deadline > turn.now) return;
  for (const PeerId worker : std::set(job.bringing)) {
    if (Peer* peer = find(worker))
      on_brought(*peer, {Code::timeout, "none has registered within " + seconds_text(kBringLimit)}, turn);
    if (job.state != JobState::running) return;
  }
}

}  // namespace redsum::server
