// SPDX-License-Identifier: Apache-2.0
// What the coordinator knows of one job: plain data, changed by CoordinatorCore alone.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/core/waiting_calls.h"
#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/base/types.h"
#include "transport/wire/control.h"

namespace redsum::server {

using PeerId = Number<struct PeerTag, std::uint64_t>;  // one control connection; 0 is nobody

enum class JobState : std::uint8_t { forming, opening, running, failed };
constexpr std::string_view job_state_name(JobState state) noexcept {
  constexpr std::string_view kNames[] = {"forming", "opening", "running", "failed"};
  return kNames[static_cast<std::size_t>(state)];
}

inline constexpr std::uint32_t kMaxShardsOfJob = 65535;  // a schedule's entries are 16 bits wide

namespace roster {

// The place of one rank.
struct Seat {
  enum class State : std::uint8_t { empty, taken, left, lost };
  State state = State::empty;
  PeerId peer;
  wire::WorkerInfo worker;
  std::string address;
  wire::JobSettings asked;
  bool ready = false;
  bool cannot_bring = false;           // a reducer, where the job falls back
  std::uint32_t launched_as = 0;       // the rank that it was started with
  std::optional<wire::Resume> resume;  // it waits for the next membership,
  TimeNs resume_until = kNever;        // at most so long
  bool needed = false;  // it has left, and an epoch began with it: others may wait for what it contributes again
  std::string text() const {
    return "rank " + std::to_string(worker.rank) + " (" + worker.host + " at " + address + ")";
  }
};

struct Communicator {
  Communicator(std::vector<std::uint32_t> world_ranks)
      : members(std::move(world_ranks)),
        calls_of(members.size()),
        waiting(static_cast<std::uint32_t>(members.size())) {}
  std::vector<std::uint32_t> members;  // world ranks; the index is the rank in it
  std::vector<std::optional<std::uint64_t>>
      calls_of;  // of members that have closed it: in how many calls they took part
  std::size_t closed = 0;
  bool failed = false;
  WaitingCalls waiting;
  std::optional<std::uint32_t> rank_of(std::uint32_t world_rank) const;
};

// A communicator that members ask for.
struct Creation {
  std::vector<std::uint32_t> members;
  std::vector<std::optional<std::uint64_t>> requests;  // by index: the member's own number for it, once it has asked
  std::size_t asked = 0;
  std::optional<std::uint16_t> communicator;  // once all have asked: the reducers are reserving for it
  std::set<PeerId> unreserved;                // that have not answered yet
  TimeNs deadline = kNever;
};

// An epoch that is being opened: first the workers say how far they are, then the reducers enter it, then it holds.
struct Change {
  Epoch epoch;
  std::set<PeerId> unreported, unentered;
  bool entering = false;
  std::set<std::pair<std::uint16_t, std::uint32_t>> reported;  // communicator and rank in the job
  std::map<std::uint16_t, wire::CommunicatorProgress> least;   // of those that have reported
};

// A reducer on its way into a running job: it reserves, the workers open lanes to it, an epoch begins with it.
struct Recruit {
  std::set<std::uint16_t> unreserved;  // communicators for which it has not answered yet
  bool told = false;                   // the workers have been asked to open lanes to it,
  std::set<PeerId> unreached;          // and these have not answered yet
  TimeNs deadline = kNever;
  bool ready() const { return told && unreserved.empty() && unreached.empty(); }
};

// A reducer that could not be reached or did not come in: it is not tried again for a while, each time longer.
struct Barred {
  DurationNs wait = 0;
  TimeNs until = 0;  // 0: over
};

// A worker's lane to a reducer broke. At that time the reducer is given up for the job, unless it is declared lost
// first.
struct LaneTrouble {
  Incarnation instance = 0;
  Status why;
  TimeNs at = kNever;
};

struct Job {
  std::string name;
  JobState state = JobState::forming;
  std::uint32_t world_size = 0;
  std::uint32_t first_size = 0;  // of its first membership
  TimeNs since = 0;
  std::string limit;                  // forming: the limit behind the deadline, as people read it
  TimeNs deadline = kNever;           // forming, opening: then it fails. failed: then its reducers are told to close it
  std::vector<Seat> seats;            // by rank
  std::uint32_t taken = 0, left = 0;  // seats in that state
  wire::EpochRecord record;           // complete from `opening` on
  std::vector<PeerId> reducers;       // that still have it open
  std::set<PeerId> unreserved;        // opening: that have not reserved for communicator 0 yet
  bool told = false;                  // Joined went out
  std::map<std::uint16_t, Communicator> communicators;
  std::uint16_t last_communicator = 0;
  std::list<Creation> creations;
  Status failure;          // why it failed
  std::string last_error;  // also of a worker that was refused
  std::vector<LaneTrouble> lane_troubles;
  std::set<Incarnation> lost_reducers;  // that it had and goes on without
  std::map<PeerId, Recruit> recruits;
  std::set<PeerId> coming;  // recruits that have become reducers since the last Commit: the workers keep their lanes
  std::map<Incarnation, Barred> barred;
  std::set<PeerId> bringing;       // workers that were asked to bring a reducer,
  TimeNs bring_deadline = kNever;  // at most until then
  std::vector<PeerId> parting;     // reducers that drain: they are told when an epoch without them has begun
  std::uint32_t epochs = 0;        // numbers given out, also those that nobody entered
  Epoch began;                     // with this one the membership began
  std::size_t applicants = 0;      // that its workers have been told of
  std::optional<Change> change;
  std::set<PeerId> lingering;  // workers that have left, and stay for what others may need of them
};

}  // namespace roster

// "rank 3" or "ranks 0, 1, 7 ... (20 in all)": at most 16 are listed.
std::string ranks_text(const std::vector<std::uint32_t>& ranks);
// "3 s", "0.25 s"
std::string seconds_text(DurationNs ns);

}  // namespace redsum::server
