// SPDX-License-Identifier: Apache-2.0
// The workers of a job change: never inside a call, but when all that are left ask for it (resume). The next membership
// is made of them, in the order of their ranks, and of those that wait to be taken in, in the order in which they came.
// It begins as the first one did: reducers reserve, all lanes are made anew. Who has not said `ready` since is of the
// membership before, and so is all else it says.
#include <algorithm>
#include <utility>

#include "server/core/coordinator_core.h"
#include "transport/base/mutant.h"

namespace redsum::server {
namespace {

using roster::Job;
using roster::Seat;

constexpr DurationNs kProofLimit = kSecond;  // for a worker to show that it is alive, while another claims its place

std::uint32_t most_workers(const Job& job) {
  const std::uint32_t asked = job.record.settings.max_workers;
  return asked ? asked : job.first_size;
}

std::uint32_t least_workers(const Job& job) {
  const std::uint32_t asked = job.record.settings.min_workers;
  return asked ? asked : job.world_size / 2 + 1;
}

bool world_failed(const Job& job) {
  const auto world = job.communicators.find(0);
  return job.state == JobState::failed || world == job.communicators.end() || world->second.failed;
}

}  // namespace

// -- who wants to come in

// A worker comes to a job that is there already: it waits until the members take it in, or the job has ended.
void CoordinatorCore::apply(Peer& peer, const wire::Join& message, Job& job, Turn& turn) {
  const auto same = std::find_if(job.seats.begin(), job.seats.end(), [&](const Seat& seat) {
    return seat.state == Seat::State::taken && seat.launched_as == peer.hello.rank;
  });
  const bool has_place = same != job.seats.end();
  if (has_place && is_older(peer, message, *same, job, turn)) return;
  const bool whole = job.state != JobState::failed && job.left == 0;
  if (whole && !has_place && job.taken >= most_workers(job))
    return refuse(peer,
                  {Code::invalid_argument, "job '" + job.name + "' runs already with " + std::to_string(job.taken) +
                                               " ranks, and takes " + std::to_string(most_workers(job)) +
                                               " (max_workers); use another job id"},
                  turn);
  if (const Status wrong = whole ? check_settings(peer.hello.rank, message.settings, job) : Status(); !wrong)
    return refuse(peer, wrong, turn);
  park(peer, message, turn);
  if (has_place) contest(peer, *same, job, turn);
}

// Two processes of one rank, both alive.
Status CoordinatorCore::twice(const Seat& seat, const Job& job, const Peer& other, const wire::Join& join) {
  return {Code::invalid_argument, seat.text() + " of job '" + job.name + "' is there already and alive; " + join.host +
                                      " at " + other.address +
                                      " asks to be the same rank: give every worker its own, or use another job id"};
}

// Then it is refused: it supersedes nobody.
bool CoordinatorCore::is_older(Peer& peer, const wire::Join& message, const Seat& seat, const Job& job, Turn& turn) {
  if (peer.hello.incarnation >= seat.worker.incarnation) return false;
  refuse(peer, twice(seat, job, peer, message), turn);
  return true;
}

void CoordinatorCore::park(Peer& peer, const wire::Join& message, Turn& turn) {
  const DurationNs limit = message.limit_ms * kMillisecond;
  peer.parked = message;
  peer.parked_since = turn.now;
  peer.parked_until = turn.now + (limit != 0 ? limit : options_.formation_timeout);
  arm(turn.now);
  arm(peer.parked_until);
}

// A parked worker claims the place of one that is there. Where the job has failed the newer one is right in any case.
void CoordinatorCore::contest(Peer& peer, const Seat& seat, const Job& job, Turn& turn) {
  if (job.state == JobState::failed) return supersede(seat.peer, peer, turn);
  peer.contests = seat.peer;
  peer.contested_until = turn.now + kProofLimit;
  arm(peer.contested_until);
  send(seat.peer, wire::Ping{}, turn);
}

// Two processes have been started as the same rank.
void CoordinatorCore::on_alive(const Peer& worker, Turn& turn) {
  std::vector<PeerId> rivals;
  for (const auto& [id, peer] : peers_)
    if (peer.contests == worker.id) rivals.push_back(id);
  for (const PeerId id : rivals) {
    Peer* peer = find(id);
    if (!peer || !worker.job) continue;
    refuse(*peer, twice(worker.job->seats[worker.hello.rank], *worker.job, *peer, *peer->parked), turn);
  }
}

void CoordinatorCore::supersede(PeerId old, const Peer& newer, Turn& turn) {
  const std::string who = newer.parked->host + " at " + newer.address;
  send(
      old,
      wire::Fail{wire::kEveryCommunicator, Code::stale, "a newer process, " + who + ", has taken this one's place", {}},
      turn);
  turn.effects.closes.push_back(old);
  drop(old, {Code::stale, "a newer process, " + who + ", has taken its place"}, turn);
}

void CoordinatorCore::check_contests(Turn& turn) {
  std::vector<PeerId> due;
  for (auto& [id, peer] : peers_)
    if (peer.contests != PeerId() && peer.contested_until <= turn.now) due.push_back(id);
  for (const PeerId id : due) {
    Peer* peer = find(id);
    if (!peer || peer->contests == PeerId()) continue;
    const PeerId old = std::exchange(peer->contests, PeerId());
    if (const Peer* rival = find(old); rival && rival->job) supersede(old, *peer, turn);
  }
}

std::vector<PeerId> CoordinatorCore::applicants(const Job& job) const {
  std::vector<PeerId> waiting;
  for (const auto& [id, peer] : peers_)  // by number, hence in the order in which they came
    if (peer.parked && !peer.job && peer.hello.job == job.name && peer.contests == PeerId()) waiting.push_back(id);
  return waiting;
}

// -- the members ask for it

void CoordinatorCore::on_resume(Peer& peer, const wire::Resume& message, Turn& turn) {
  Job& job = *peer.job;
  Seat& seat = job.seats[peer.hello.rank];
  const bool opened = job.state == JobState::opening && seat.ready;  // others are not yet, this one asks already
  if (!opened && job.state != JobState::running && job.state != JobState::failed) return;
  if (message.admit && world_failed(job)) return;  // it has been told
  seat.resume = message;
  const DurationNs limit = message.limit_ms * kMillisecond;
  seat.resume_until = turn.now + (limit != 0 ? limit : options_.formation_timeout);
  arm(seat.resume_until);
  arm(turn.now);
}

void CoordinatorCore::answer_resume(Job& job, const Status& status, Turn& turn) {
  for (Seat& seat : job.seats)
    if (std::exchange(seat.resume, std::nullopt)) send(seat.peer, wire::Resumed{status.code(), status.text()}, turn);
}

// The job fails. Who was going to go on without those that are lost goes on without these too.
void CoordinatorCore::fail_resume(Job& job, const Status& why, Turn& turn) {
  for (Seat& seat : job.seats)
    if (seat.resume && seat.resume->admit) seat.resume.reset();  // it is told by the failure
  if (why.code() != Code::peer_lost && why.code() != Code::reducer_lost) answer_resume(job, why, turn);
}

void CoordinatorCore::check_resume(Job& job, Turn& turn) {
  if (job.state != JobState::running && job.state != JobState::failed) return;
  const std::vector<PeerId> waiting = applicants(job);
  if (waiting.size() != std::exchange(job.applicants, waiting.size()))
    send_workers(job, wire::Applicants{static_cast<std::uint32_t>(waiting.size())}, turn);
  bool all = true, late = false;
  for (const Seat& seat : job.seats) {
    all = all && (seat.state != Seat::State::taken || seat.resume);
    late = late || (seat.resume && seat.resume_until <= turn.now);
  }
  if (all && begin_next(job, waiting, turn)) return;
  if (late) answer_resume(job, resume_timeout(job), turn);
}

// Those that are left, then those that come; each has its new rank.
std::vector<Seat> CoordinatorCore::next_seats(const Job& job, const std::vector<PeerId>& newcomers) const {
  std::vector<Seat> seats;
  for (const Seat& seat : job.seats)
    if (seat.state == Seat::State::taken) seats.push_back(seat);
  for (const PeerId id : newcomers) {
    const Peer& peer = peers_.at(id);
    seats.push_back(seat_of(peer, *peer.parked));
  }
  for (std::uint32_t rank = 0; rank < seats.size(); ++rank) {
    Seat& seat = seats[rank];
    seat.worker.rank = rank;
    seat.ready = seat.cannot_bring = seat.needed = false;
  }
  return seats;
}

// False: it cannot begin now.
bool CoordinatorCore::begin_next(Job& job, std::vector<PeerId> newcomers, Turn& turn) {
  const std::uint32_t most = most_workers(job);
  newcomers.resize(std::min<std::size_t>(newcomers.size(), most > job.taken ? most - job.taken : 0));
  if (!world_failed(job) && job.left == 0 && newcomers.empty()) return answer_resume(job, Status(), turn), true;
  for (const PeerId id : std::vector(newcomers)) {
    Peer& peer = peers_.at(id);
    const Status wrong = check_settings(peer.hello.rank, peer.parked->settings, job);
    if (wrong) continue;
    std::erase(newcomers, id);
    refuse(peer, wrong, turn);
  }
  if (job.taken + newcomers.size() < least_workers(job)) return false;
  std::vector<Seat> seats = next_seats(job, newcomers);
  std::optional<std::vector<PeerId>> reducers = reducers_for(job, job.record.settings, seats);
  if (!reducers) return false;
  leave_membership(job, turn);
  job.record.stayed = job.taken;
  job.taken = job.world_size = static_cast<std::uint32_t>(seats.size());
  job.seats = std::move(seats);
  job.reducers = std::move(*reducers);
  for (const Seat& seat : job.seats) {
    Peer& peer = peers_.at(seat.peer);
    peer.job = &job;
    peer.hello.rank = seat.worker.rank;
  }
  open(job, turn);
  return true;
}

// Until the members have heard of it, those that stayed still ask for it, and those that come still wait.
void CoordinatorCore::next_is_told(Job& job) {
  for (Seat& seat : job.seats) {
    seat.resume.reset();
    if (Peer* peer = find(seat.peer)) {
      peer->parked.reset();
      peer->parked_until = kNever;
    }
  }
}

// It fails before that: as if it had not been tried.
void CoordinatorCore::let_newcomers_wait(Job& job) {
  for (Seat& seat : job.seats) {
    Peer* peer = find(seat.peer);
    if (seat.state != Seat::State::taken || !peer || !peer->parked) continue;
    seat.state = Seat::State::empty;
    peer->job = nullptr;
    --job.taken;
  }
}

// What belongs to the membership that ends.
void CoordinatorCore::leave_membership(Job& job, Turn& turn) {
  const std::string reason = "the workers of the job change";
  std::optional<std::uint64_t> sequence;
  for (const Seat& seat : job.seats) {
    if (!seat.resume) continue;
    const std::uint64_t one = seat.resume->sequence, other = sequence.value_or(one);
    sequence = mutant("resume_from_highest") ? std::max(one, other) : std::min(one, other);
  }
  while (!job.creations.empty()) fail_creation(job, job.creations.begin(), {Code::closed, reason}, turn);
  close_at_reducers(job, reason, turn);
  dismiss_all(job, reason, turn);
  release_lingering(job, reason, turn);
  job.left = 0;
  job.applicants = 0;
  job.told = false;
  job.unreserved.clear();
  job.communicators.clear();
  job.failure = Status();
  job.lane_troubles.clear();
  job.lost_reducers.clear();
  job.coming.clear();
  job.change.reset();
  const wire::JobSettings settings = job.record.settings;
  job.record = {};
  job.record.settings = settings;
  job.record.sequence = sequence.value_or(0);
}

Status CoordinatorCore::resume_timeout(const Job& job) const {
  std::vector<std::uint32_t> missing;
  for (const Seat& seat : job.seats)
    if (seat.state == Seat::State::taken && !seat.resume) missing.push_back(seat.worker.rank);
  const std::string what = "job '" + job.name + "' does not resume: ";
  if (!missing.empty())
    return {Code::timeout, what + ranks_text(missing) + (missing.size() == 1 ? " has" : " have") +
                               " not asked for it within the connect_timeout of those that have"};
  const std::size_t there = job.taken + applicants(job).size();
  if (there < least_workers(job))
    return {Code::timeout, what + std::to_string(there) + " workers are there, and it needs " +
                               std::to_string(least_workers(job)) + " (min_workers" +
                               (job.record.settings.min_workers ? "" : ": more than half of those before") +
                               "); start more, or set REDSUM_MIN_WORKERS"};
  return {Code::reducer_lost, what +
                                  "no reducer is registered at this coordinator: start one with redsumd --role "
                                  "reducer --coordinator ADDRESS"};
}

}  // namespace redsum::server
