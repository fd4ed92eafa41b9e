// SPDX-License-Identifier: Apache-2.0
// Peers: who speaks, what they may say, when silence is loss.
#include "server/core/coordinator_core.h"

#include <algorithm>
#include <utility>

#include "transport/base/mutant.h"

namespace redsum::server {
namespace {

constexpr std::string_view purpose_name(wire::Purpose purpose) {
  switch (purpose) {
    case wire::Purpose::control_worker:
      return "worker";
    case wire::Purpose::control_reducer:
      return "reducer";
    case wire::Purpose::control_tool:
      return "tool";
    case wire::Purpose::lane:
    case wire::Purpose::ring_lane:
    case wire::Purpose::exchange_lane:
    case wire::Purpose::pair_lane:
      break;
  }
  return "lane";
}

}  // namespace

CoordinatorCore::CoordinatorCore(const CoordinatorOptions& options) : options_(options) {}
CoordinatorCore::~CoordinatorCore() = default;

CoordinatorCore::Peer* CoordinatorCore::find(PeerId id) {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : &found->second;
}

void CoordinatorCore::on_connected(PeerId id, const wire::Hello& hello, std::string address, TimeNs now,
                                   CoordinatorEffects& effects) {
  Turn turn{now, effects};
  Peer& peer = peers_[id];
  peer.id = id;
  peer.hello = hello;
  peer.address = std::move(address);
  peer.last_heard = now;
  arm(now + options_.heartbeat_timeout);
  switch (hello.purpose) {
    case wire::Purpose::control_worker:
      if (!wire::valid_job_id(hello.job))
        refuse(peer, {Code::invalid_argument, "a worker at " + peer.address + " names no valid job id"}, turn);
      return;
    case wire::Purpose::control_reducer:
    case wire::Purpose::control_tool:
      return;
    case wire::Purpose::lane:
    case wire::Purpose::ring_lane:
    case wire::Purpose::exchange_lane:
    case wire::Purpose::pair_lane:
      refuse(peer,
             {Code::invalid_argument,
              peer.address + " asks for a lane; this is a control port, lanes go to a reducer or a worker"},
             turn);
  }
}

void CoordinatorCore::on_message(PeerId id, const wire::Message& message, TimeNs now, CoordinatorEffects& effects) {
  Peer* peer = find(id);
  if (!peer) return;
  Turn turn{now, effects};
  peer->last_heard = now;
  dispatch(*peer, message, turn);
}

void CoordinatorCore::on_lost(PeerId id, const Status& why, TimeNs now, CoordinatorEffects& effects) {
  Turn turn{now, effects};
  drop(id, why, turn);
}

void CoordinatorCore::dispatch(Peer& peer, const wire::Message& message, Turn& turn) {
  if (std::holds_alternative<wire::Heartbeat>(message)) return send(peer.id, message, turn);
  if (std::holds_alternative<wire::Ping>(message))
    return peer.hello.purpose == wire::Purpose::control_worker ? on_alive(peer, turn) : send(peer.id, message, turn);
  if (const auto* progress = std::get_if<wire::Progress>(&message); progress && peer.lingers)
    return on_progress(peer, *progress, turn);
  if (const auto* recruited = std::get_if<wire::Recruited>(&message); recruited && peer.lingers)
    return on_recruited(peer, *recruited, turn);
  if (peer.gone) return;  // what it sent before it heard of the end
  const wire::Purpose purpose = peer.hello.purpose;
  const bool known = purpose == wire::Purpose::control_worker    ? dispatch_worker(peer, message, turn)
                     : purpose == wire::Purpose::control_reducer ? dispatch_reducer(peer, message, turn)
                                                                 : false;
  // A known message may have ended the peer: it is not to be touched after that.
  if (!known)
    refuse(peer,
           {Code::protocol_error, "a " + std::string(purpose_name(purpose)) + " at " + peer.address +
                                      " may not send '" + std::string(wire::type_name(message)) + "' now"},
           turn);
}

bool CoordinatorCore::dispatch_worker(Peer& peer, const wire::Message& message, Turn& turn) {
  if (const auto* join = std::get_if<wire::Join>(&message)) {
    if (peer.job || peer.parked) return false;
    return on_join(peer, *join, turn), true;
  }
  if (const auto* leave = std::get_if<wire::Leave>(&message)) {
    if (!peer.job && !peer.parked) return false;
    return on_leave(peer, *leave, turn), true;
  }
  if (!peer.job) return false;
  if (const auto* resume = std::get_if<wire::Resume>(&message)) return on_resume(peer, *resume, turn), true;
  const bool ready = std::holds_alternative<wire::Ready>(message);
  if (peer.job->told && ready) return on_ready(peer, turn), true;
  const bool of_before = peer.job->record.stayed > 0 && !peer.job->seats[peer.hello.rank].ready;
  if (of_before && !mutant("hears_those_of_before")) return true;  // what it says is of the membership before
  if (!peer.job->told) return false;                               // before Joined there is nothing else to say
  if (const auto* mismatched = std::get_if<wire::Mismatched>(&message))
    return on_mismatched(peer, *mismatched, turn), true;
  if (const auto* create = std::get_if<wire::Create>(&message)) return on_create(peer, *create, turn), true;
  if (const auto* close = std::get_if<wire::CloseCommunicator>(&message))
    return on_close_communicator(peer, *close, turn), true;
  if (const auto* waiting = std::get_if<wire::Waiting>(&message)) return on_waiting(peer, *waiting, turn), true;
  if (const auto* lane = std::get_if<wire::LaneLost>(&message)) return on_lane_lost(peer, *lane, turn), true;
  if (const auto* failed = std::get_if<wire::Fail>(&message)) return on_failed(peer, *failed, turn), true;
  if (const auto* progress = std::get_if<wire::Progress>(&message)) return on_progress(peer, *progress, turn), true;
  if (const auto* brought = std::get_if<wire::Brought>(&message)) return on_brought(peer, *brought, turn), true;
  if (const auto* reached = std::get_if<wire::Recruited>(&message)) return on_recruited(peer, *reached, turn), true;
  return false;
}

bool CoordinatorCore::dispatch_reducer(Peer& peer, const wire::Message& message, Turn& turn) {
  if (const auto* hello = std::get_if<wire::Register>(&message)) {
    if (peer.reducer) return false;
    return on_register(peer, *hello, turn), true;
  }
  if (!peer.reducer) return false;
  if (std::holds_alternative<wire::Draining>(message)) return on_draining(peer, turn), true;
  if (const auto* reserved = std::get_if<wire::Reserved>(&message)) return on_reserved(peer, *reserved, turn), true;
  if (const auto* differ = std::get_if<wire::Mismatched>(&message)) return on_mismatched(peer, *differ, turn), true;
  if (const auto* entered = std::get_if<wire::Entered>(&message)) return on_entered(peer, *entered, turn), true;
  return false;
}

void CoordinatorCore::refuse(Peer& peer, const Status& why, Turn& turn) {
  count(why.code());
  note(log::Level::warn,
       "closed " + std::string(purpose_name(peer.hello.purpose)) + " at " + peer.address + ": " + why.to_string(),
       turn);
  send(peer.id, wire::Fail{wire::kEveryCommunicator, why.code(), why.text(), {}}, turn);
  turn.effects.closes.push_back(peer.id);
  drop(peer.id, why, turn);
}

void CoordinatorCore::drop(PeerId id, const Status& why, Turn& turn) {
  const auto node = peers_.extract(id);
  if (node.empty()) return;
  const Peer& peer = node.mapped();
  ++changes_;
  if (peer.parked) arm(turn.now);
  for (auto& [other, rival] : peers_)
    if (rival.contests == id) rival.contests = PeerId();  // its place is free
  if (peer.job) worker_gone(*peer.job, peer.hello.rank, why, turn);
  if (peer.lingers) lingerer_gone(*peer.lingers, peer, why, turn);
  if (peer.reducer) reducer_gone(peer, why, turn);
}

// -- time

void CoordinatorCore::tick(TimeNs now, CoordinatorEffects& effects) {
  if (now < deadline_) return;
  Turn turn{now, effects};
  // Late ourselves (stopped, starved): what the peers sent meanwhile is still unread, so that time does not count as
  // silence.
  const DurationNs late = now - deadline_;
  if (late > options_.heartbeat_timeout / 4)
    for (auto& [id, peer] : peers_) peer.last_heard = std::min(now, peer.last_heard + late);
  check_silence(turn);
  check_parked(turn);
  check_contests(turn);
  check_jobs(turn);
  deadline_ = earliest_deadline();
}

void CoordinatorCore::check_silence(Turn& turn) {
  std::vector<PeerId> silent;
  for (const auto& [id, peer] : peers_)
    if (turn.now - peer.last_heard >= options_.heartbeat_timeout) silent.push_back(id);
  for (const PeerId id : silent) {
    Peer* peer = find(id);
    if (!peer) continue;  // closed with its job meanwhile
    const Status why(Code::timeout, "no heartbeat for " + seconds_text(turn.now - peer->last_heard) +
                                        " (limit heartbeat_timeout=" + seconds_text(options_.heartbeat_timeout) + ")");
    if (!peer->gone)
      send(id,
           wire::Fail{wire::kEveryCommunicator, why.code(), "the coordinator ended this connection: " + why.text(), {}},
           turn);
    turn.effects.closes.push_back(id);
    drop(id, why, turn);
  }
}

void CoordinatorCore::check_parked(Turn& turn) {
  std::vector<PeerId> due;
  std::vector<PeerId> welcome;  // a place in a job that forms has become free
  for (const auto& [id, peer] : peers_) {
    if (!peer.parked || peer.job) continue;
    const auto job = jobs_.find(peer.hello.job);
    const bool forming = job == jobs_.end() || job->second->state == JobState::forming;
    if (peer.parked_until <= turn.now)
      due.push_back(id);
    else if (forming && peer.contests == PeerId())
      welcome.push_back(id);
  }
  for (const PeerId id : welcome)
    if (Peer* peer = find(id); peer && peer->parked) {
      const wire::Join join = *std::exchange(peer->parked, std::nullopt);
      peer->parked_until = kNever;
      on_join(*peer, join, turn);
    }
  for (const PeerId id : due) {
    Peer* peer = find(id);
    if (peer && peer->parked)
      refuse(*peer,
             {Code::timeout,
              "the members of job '" + peer->hello.job + "' have not taken this worker in, and the job " +
                  "has not ended, within " + seconds_text(turn.now - peer->parked_since) +
                  ": they take workers in by redsum_resume or redsum_admit; for another job use " + "another job id"},
             turn);
  }
}

void CoordinatorCore::check_jobs(Turn& turn) {
  std::vector<std::string> names;
  for (const auto& [name, job] : jobs_) names.push_back(name);
  for (const std::string& name : names) {
    if (const auto found = jobs_.find(name); found != jobs_.end()) check_job(*found->second, turn);
    if (const auto found = jobs_.find(name); found != jobs_.end()) check_resume(*found->second, turn);
  }
}

void CoordinatorCore::check_job(Job& job, Turn& turn) {
  if (job.deadline <= turn.now) {
    job.deadline = kNever;
    if (job.state != JobState::failed) return give_up_opening(job, formation_timeout(job), turn);
    close_at_reducers(job, job.failure.text(), turn);
  }
  for (const roster::LaneTrouble& trouble : std::vector(job.lane_troubles)) {
    if (trouble.at > turn.now) continue;
    give_up_reducer(job, trouble, turn);
    if (job.state == JobState::failed) return;
  }
  check_recruits(job, turn);
  if (job.state == JobState::failed) return;
  for (auto it = job.creations.begin(); it != job.creations.end();) {
    const auto creation = it++;
    if (creation->deadline <= turn.now) fail_creation(job, creation, creation_timeout(*creation), turn);
  }
  for (auto& [id, communicator] : job.communicators)
    if (WaitingCall* call = communicator.waiting.due(turn.now)) conclude(job, id, *call, turn);
}

TimeNs CoordinatorCore::earliest_deadline() const {
  TimeNs earliest = kNever;
  for (const auto& [id, peer] : peers_) {
    earliest = std::min(earliest, peer.last_heard + options_.heartbeat_timeout);
    if (peer.parked && !peer.job) earliest = std::min(earliest, peer.parked_until);
    if (peer.contests != PeerId()) earliest = std::min(earliest, peer.contested_until);
  }
  for (const auto& [name, job] : jobs_) {
    earliest = std::min(earliest, job->deadline);
    const bool resumes = job->state == JobState::running || job->state == JobState::failed;
    for (const roster::Seat& seat : job->seats)
      if (seat.resume && resumes) earliest = std::min(earliest, seat.resume_until);
    for (const roster::LaneTrouble& trouble : job->lane_troubles) earliest = std::min(earliest, trouble.at);
    for (const auto& [id, recruit] : job->recruits) earliest = std::min(earliest, recruit.deadline);
    if (!job->bringing.empty()) earliest = std::min(earliest, job->bring_deadline);
    for (const auto& [instance, barred] : job->barred)
      if (barred.until != 0) earliest = std::min(earliest, barred.until);
    for (const Creation& creation : job->creations) earliest = std::min(earliest, creation.deadline);
    for (const auto& [id, communicator] : job->communicators)
      earliest = std::min(earliest, communicator.waiting.next_verdict());
  }
  return earliest;
}

// -- what others see

std::vector<JobStatus> CoordinatorCore::jobs() const {
  constexpr std::size_t kWorkersListed = 64, kMissingListed = 16;
  std::vector<JobStatus> all;
  for (const auto& [name, job] : jobs_) {
    JobStatus& status = all.emplace_back();
    status.job = name;
    status.state = job->state;
    status.world_size = job->world_size;
    status.joined = job->taken;
    status.communicators = static_cast<std::uint32_t>(job->communicators.size());
    status.epoch = job->record.epoch;
    status.last_error = job->last_error;
    status.since = job->since;
    for (std::uint32_t rank = 0; rank < job->world_size; ++rank) {
      const roster::Seat& seat = job->seats[rank];
      if (seat.state == roster::Seat::State::taken) {
        if (status.workers.size() < kWorkersListed)
          status.workers.push_back(std::to_string(rank) + " " + seat.worker.host + " " + seat.address);
      } else if (status.missing.size() < kMissingListed) {
        status.missing.push_back(rank);
      }
    }
  }
  return all;
}

// -- effects

void CoordinatorCore::send(PeerId to, wire::Message message, Turn& turn) {
  turn.effects.sends.push_back({{to}, std::move(message)});
}

void CoordinatorCore::send_workers(const Job& job, wire::Message message, Turn& turn) {
  std::vector<PeerId> to;
  for (const roster::Seat& seat : job.seats)
    if (seat.state == roster::Seat::State::taken) to.push_back(seat.peer);
  if (!to.empty()) turn.effects.sends.push_back({std::move(to), std::move(message)});
}

void CoordinatorCore::send_reducers(const Job& job, wire::Message message, Turn& turn) {
  if (!job.reducers.empty()) turn.effects.sends.push_back({job.reducers, std::move(message)});
}

void CoordinatorCore::note(log::Level level, std::string text, Turn& turn) {
  turn.effects.notes.push_back({level, std::move(text)});
}

}  // namespace redsum::server
