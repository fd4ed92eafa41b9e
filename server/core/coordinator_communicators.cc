// SPDX-License-Identifier: Apache-2.0
// Communicators of a job: made, closed, and what their members wait for.
#include <algorithm>

#include "server/core/coordinator_core.h"

namespace redsum::server {
namespace {

using roster::Seat;

constexpr std::size_t kMaxOpenCreations = 256;               // of one worker
constexpr std::size_t kMissingListed = 16;                   // ranks in an answer to a waiting one
constexpr DurationNs kDifferenceLimit = 300 * kMillisecond;  // two differ: so long for the others to say what they have

std::string label(std::uint16_t id) {
  return id == 0 ? "" : "communicator " + std::to_string(id) + ": ";
}

}  // namespace

// -- made

Status CoordinatorCore::check_members(const Job& job, std::uint32_t caller,
                                      const std::vector<std::uint32_t>& members) const {
  const auto wrong = [](std::string text) { return Status(Code::invalid_argument, "new communicator: " + text); };
  if (members.empty()) return wrong("its list of ranks is empty");
  std::vector<bool> seen(job.world_size);
  for (const std::uint32_t rank : members) {
    if (rank >= job.world_size)
      return wrong("rank " + std::to_string(rank) + " is not in a world of " + std::to_string(job.world_size));
    if (seen[rank]) return wrong("rank " + std::to_string(rank) + " is listed twice");
    seen[rank] = true;
  }
  if (!seen[caller])
    return wrong("the caller, rank " + std::to_string(caller) + ", is not among " + ranks_text(members));
  for (const std::uint32_t rank : members)
    if (job.seats[rank].state == Seat::State::left)
      return {Code::peer_lost, "new communicator: " + job.seats[rank].text() + " has left the job"};
  return {};
}

void CoordinatorCore::on_create(Peer& peer, const wire::Create& message, Turn& turn) {
  Job& job = *peer.job;
  const std::uint32_t rank = peer.hello.rank;
  const auto fail = [&](const Status& why) {
    count(why.code());
    send(peer.id, wire::CreateFailed{message.request, why.code(), why.text()}, turn);
  };
  if (job.state == JobState::failed) return fail(job.failure);
  if (const Status wrong = check_members(job, rank, message.members); !wrong) return fail(wrong);
  const auto at = std::find(message.members.begin(), message.members.end(), rank) - message.members.begin();
  std::size_t open = 0;
  auto creation = job.creations.end();  // the first of these members for which this one has not asked yet
  for (auto it = job.creations.begin(); it != job.creations.end(); ++it) {
    const auto member = std::find(it->members.begin(), it->members.end(), rank) - it->members.begin();
    const bool is_member = member < static_cast<std::ptrdiff_t>(it->members.size());
    if (is_member && it->requests[static_cast<std::size_t>(member)])
      ++open;
    else if (creation == job.creations.end() && it->members == message.members)
      creation = it;
  }
  if (open >= kMaxOpenCreations)
    return fail({Code::resource_exhausted, "rank " + std::to_string(rank) + " has " + std::to_string(open) +
                                               " creations of communicators under way, which is the limit"});
  if (creation == job.creations.end()) {
    creation = job.creations.emplace(job.creations.end());
    creation->members = message.members;
    creation->requests.resize(message.members.size());
    creation->deadline = turn.now + options_.formation_timeout;
    arm(creation->deadline);
  }
  creation->requests[static_cast<std::size_t>(at)] = message.request;
  if (++creation->asked == creation->members.size()) reserve(job, creation, turn);
}

std::optional<std::uint16_t> CoordinatorCore::free_communicator(Job& job) const {
  // In turn, so that a number comes again as late as possible.
  for (std::uint32_t tries = 0; tries < 65535; ++tries) {
    job.last_communicator = static_cast<std::uint16_t>(job.last_communicator == 65535 ? 1 : job.last_communicator + 1);
    const std::uint16_t id = job.last_communicator;
    const bool reserving = std::any_of(job.creations.begin(), job.creations.end(),
                                       [&](const Creation& c) { return c.communicator == id; });
    if (!reserving && !job.communicators.contains(id)) return id;
  }
  return std::nullopt;
}

void CoordinatorCore::reserve(Job& job, std::list<Creation>::iterator creation, Turn& turn) {
  creation->communicator = free_communicator(job);
  if (!creation->communicator)
    return fail_creation(
        job, creation, {Code::resource_exhausted, "job '" + job.name + "' has 65535 communicators, which is the limit"},
        turn);
  creation->unreserved = {job.reducers.begin(), job.reducers.end()};
  creation->deadline = turn.now + options_.formation_timeout;
  arm(creation->deadline);
  for (auto& [id, recruit] : job.recruits) recruit.unreserved.insert(*creation->communicator);
  if (const std::vector<PeerId> to = candidates(job); !to.empty())
    turn.effects.sends.push_back({to, wire::OpenCommunicator{job.name, *creation->communicator, creation->members}});
  if (creation->unreserved.empty()) created(job, creation, turn);
}

void CoordinatorCore::created(Job& job, std::list<Creation>::iterator creation, Turn& turn) {
  const std::uint16_t id = *creation->communicator;
  for (std::size_t i = 0; i < creation->members.size(); ++i)
    send(job.seats[creation->members[i]].peer, wire::Created{*creation->requests[i], id}, turn);
  job.communicators.emplace(id, Communicator(std::move(creation->members)));
  job.creations.erase(creation);
  ++changes_;
}

void CoordinatorCore::fail_creation(Job& job, std::list<Creation>::iterator creation, const Status& why, Turn& turn) {
  count(why.code());
  note(log::Level::warn,
       "job '" + job.name + "': no communicator of " + ranks_text(creation->members) + ": " + why.to_string(), turn);
  for (std::size_t i = 0; i < creation->members.size(); ++i) {
    const Seat& seat = job.seats[creation->members[i]];
    if (creation->requests[i] && seat.state == Seat::State::taken)
      send(seat.peer, wire::CreateFailed{*creation->requests[i], why.code(), why.text()}, turn);
  }
  if (creation->communicator) close_at_candidates(job, *creation->communicator, turn);
  job.creations.erase(creation);
}

Status CoordinatorCore::creation_timeout(const Creation& creation) const {
  const std::string limit = " within " + seconds_text(options_.formation_timeout) + " (formation_timeout)";
  if (creation.communicator)
    return {Code::timeout, "new communicator: no reservation" + limit + " from " +
                               reducers_text({creation.unreserved.begin(), creation.unreserved.end()})};
  std::vector<std::uint32_t> missing;
  for (std::size_t i = 0; i < creation.members.size(); ++i)
    if (!creation.requests[i]) missing.push_back(creation.members[i]);
  return {Code::timeout, "new communicator of " + ranks_text(creation.members) + ": " + ranks_text(missing) +
                             (missing.size() == 1 ? " has" : " have") + " not asked for it" + limit};
}

// -- closed

void CoordinatorCore::close_at_candidates(const Job& job, std::uint16_t id, Turn& turn) {
  std::vector<PeerId> to = candidates(job);
  if (!to.empty()) turn.effects.sends.push_back({std::move(to), wire::CloseCommunicator{job.name, id}});
}

void CoordinatorCore::on_close_communicator(Peer& peer, const wire::CloseCommunicator& message, Turn& turn) {
  Job& job = *peer.job;
  const auto found = job.communicators.find(message.communicator);
  if (found == job.communicators.end() || !found->second.rank_of(peer.hello.rank))
    return refuse(peer,
                  {Code::protocol_error, "rank " + std::to_string(peer.hello.rank) + " is not in communicator " +
                                             std::to_string(message.communicator) + " of job '" + job.name + "'"},
                  turn);
  close_member(job, message.communicator, peer.hello.rank, message.calls, turn);
}

void CoordinatorCore::close_member(Job& job, std::uint16_t id, std::uint32_t rank, std::uint64_t calls, Turn& turn) {
  Communicator& communicator = job.communicators.at(id);
  const std::optional<std::uint32_t> member = communicator.rank_of(rank);
  if (!member || communicator.calls_of[*member]) return;
  communicator.calls_of[*member] = calls;
  if (++communicator.closed < communicator.members.size()) return;
  if (id != 0) {  // that of the world ends with the job
    close_at_candidates(job, id, turn);
    send_members(job, wire::CloseCommunicator{job.name, id}, turn);
  }
  job.communicators.erase(id);
  ++changes_;
}

// -- waiting

void CoordinatorCore::on_waiting(Peer& peer, const wire::Waiting& message, Turn& turn) {
  Job& job = *peer.job;
  const auto found = job.communicators.find(message.communicator);
  if (job.state == JobState::failed || found == job.communicators.end() || found->second.failed) return;
  Communicator& communicator = found->second;
  const std::optional<std::uint32_t> rank = communicator.rank_of(peer.hello.rank);
  if (!rank)
    return refuse(peer,
                  {Code::protocol_error, "rank " + std::to_string(peer.hello.rank) + " is not in communicator " +
                                             std::to_string(message.communicator) + " of job '" + job.name + "'"},
                  turn);
  if (message.call.kind == wire::Kind::send) return on_receive_waits(job, message, turn);
  WaitingCall& call = communicator.waiting.at(message.sequence);
  communicator.waiting.add(call, *rank, message.call);
  if (call.groups.size() > 1 || !call.reporter.empty())
    return settle_call(job, message.communicator, call, kDifferenceLimit, turn);

  std::vector<std::uint32_t> missing = communicator.waiting.missing(call);
  for (const std::uint32_t other : missing) {
    if (!communicator.calls_of[other] || *communicator.calls_of[other] > message.sequence) continue;
    return fail_without(job, message.communicator, other, "takes no part in call " + std::to_string(message.sequence),
                        turn);
  }
  // Who has its share of an exchange may be done with it: the ranks know better whom they wait for.
  if (wire::is_exchange(message.call.kind)) return;
  std::erase_if(missing, [&](std::uint32_t other) { return communicator.calls_of[other].has_value(); });
  const auto all = static_cast<std::uint32_t>(missing.size());
  missing.resize(std::min<std::size_t>(missing.size(), kMissingListed));
  send(peer.id, wire::Stalled{message.communicator, message.sequence, std::move(missing), all}, turn);
}

// The business of two ranks, which numbers no other knows: all that can be told is that the other one is gone.
void CoordinatorCore::on_receive_waits(Job& job, const wire::Waiting& message, Turn& turn) {
  const Communicator& communicator = job.communicators.at(message.communicator);
  for (const std::uint32_t other : message.awaits)
    if (other < communicator.members.size() && communicator.calls_of[other])
      return fail_without(job, message.communicator, other, "sends nothing more", turn);
}

void CoordinatorCore::fail_without(Job& job, std::uint16_t id, std::uint32_t rank, const std::string& so, Turn& turn) {
  const Seat& seat = job.seats[job.communicators.at(id).members[rank]];
  const bool left = seat.state == Seat::State::left;
  fail_communicator(
      job, id,
      {Code::peer_lost, label(id) + "rank " + std::to_string(rank) + " (" + seat.worker.host + " at " + seat.address +
                            ") has " + (left ? "left the job" : "closed the communicator") + " and " + so},
      {rank}, turn);
}

void CoordinatorCore::settle_call(Job& job, std::uint16_t id, WaitingCall& call, DurationNs limit, Turn& turn) {
  const Communicator& communicator = job.communicators.at(id);
  std::vector<PeerId> ask;
  for (const std::uint32_t rank : communicator.waiting.missing(call)) {
    const Seat& seat = job.seats[communicator.members[rank]];
    if (seat.state == Seat::State::taken && !communicator.calls_of[rank]) ask.push_back(seat.peer);
  }
  if (ask.empty()) return conclude(job, id, call, turn);
  const bool asked = call.verdict_at != kNever;
  call.verdict_at = std::min(call.verdict_at, turn.now + limit);
  arm(call.verdict_at);
  if (!asked) turn.effects.sends.push_back({std::move(ask), wire::Describe{id, call.sequence}});
}

void CoordinatorCore::conclude(Job& job, std::uint16_t id, WaitingCall& call, Turn& turn) {
  WaitingCalls& waiting = job.communicators.at(id).waiting;
  if (call.groups.size() == 1 && call.sequence > 0) {
    // A call before it differs, and in how many chunks: the numbers of the two ranks have shifted since.
    call.verdict_at = kNever;
    const std::string reporter = call.reporter;
    WaitingCall& before = waiting.at(call.sequence - 1);
    before.reporter = reporter;
    return settle_call(job, id, before, kDifferenceLimit, turn);
  }
  const WaitingCall* after = call.groups.empty() ? waiting.find(call.sequence + 1) : nullptr;
  end_mismatched(job, id, after ? *after : call, turn);  // a call that nobody has is long over: it was none of them
}

void CoordinatorCore::end_mismatched(Job& job, std::uint16_t id, const WaitingCall& call, Turn& turn) {
  const WaitingCalls& waiting = job.communicators.at(id).waiting;
  fail_communicator(job, id, {Code::mismatch, label(id) + mismatch_text(call, waiting.missing(call))}, odd_ranks(call),
                    turn);
}

// A worker has closed a communicator by itself: nobody may go on in it, or wait there for that worker.
void CoordinatorCore::on_failed(Peer& peer, const wire::Fail& message, Turn& turn) {
  Job& job = *peer.job;
  if (message.communicator > 0xFFFF) return;
  const auto id = static_cast<std::uint16_t>(message.communicator);
  const auto found = job.communicators.find(id);
  if (job.state == JobState::failed || found == job.communicators.end() || found->second.failed) return;
  const std::optional<std::uint32_t> rank = found->second.rank_of(peer.hello.rank);
  if (!rank) return;
  fail_communicator(job, id, {message.code, label(id) + "at rank " + std::to_string(*rank) + ": " + message.text},
                    {*rank}, turn);
}

void CoordinatorCore::fail_communicator(Job& job, std::uint16_t id, const Status& why, std::vector<std::uint32_t> ranks,
                                        Turn& turn) {
  Communicator& communicator = job.communicators.at(id);
  communicator.failed = true;
  communicator.waiting.clear();
  job.last_error = why.text();
  ++changes_;
  count(why.code());
  note(log::Level::warn, "job '" + job.name + "': " + why.to_string(), turn);
  std::vector<PeerId> to;
  for (std::size_t i = 0; i < communicator.members.size(); ++i) {
    const Seat& seat = job.seats[communicator.members[i]];
    if (seat.state == Seat::State::taken && !communicator.calls_of[i]) to.push_back(seat.peer);
  }
  turn.effects.sends.push_back({std::move(to), wire::Fail{id, why.code(), why.text(), std::move(ranks)}});
}

}  // namespace redsum::server
