// SPDX-License-Identifier: Apache-2.0
// The messages of the control plane: small, O(1) per member and epoch, JSON text on the wire (length-prefixed by the
// control connection, at most kMaxControlBytes). Pure values and their codec; docs/protocol.md lists them with their
// fields. Who speaks: W worker, R reducer, C coordinator, T tool.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "transport/base/status.h"
#include "transport/base/types.h"
#include "transport/wire/call.h"
#include "transport/wire/handshake.h"

namespace redsum::wire {

inline constexpr std::size_t kMaxControlBytes = 8u << 20;      // after authentication
inline constexpr std::size_t kMaxUnauthenticatedBytes = 4096;  // before

// Who sums for a job.
enum class Mode : std::uint8_t {
  unset = 0,   // in a join: no wish
  server = 1,  // the pool's reducers
  direct = 2,  // its own workers: each brings a reducer that serves this job alone
  ring = 3,    // nobody: partial results go round the workers. No reducer has a part in the job
};
inline constexpr int kModeCount = 4;
constexpr std::string_view mode_name(Mode mode) noexcept {
  constexpr std::string_view kNames[kModeCount] = {"unset", "server", "direct", "ring"};
  return kNames[static_cast<std::size_t>(mode)];
}

// Where the fold of a chunk begins in a ring.
enum class RingOrder : std::uint8_t {
  unset = 0,  // in a join: no wish
  ring = 1,   // chunk k of a call at rank k + 1, so that every link carries as much: documented, but another order
  rank = 2,   // at rank 0: the bits of the other modes, on links that carry up to 2 S
};
inline constexpr int kRingOrderCount = 3;
constexpr std::string_view ring_order_name(RingOrder order) noexcept {
  constexpr std::string_view kNames[kRingOrderCount] = {"unset", "ring", "rank"};
  return kNames[static_cast<std::size_t>(order)];
}

// What a job in server mode does when it has lost all reducers.
enum class Fallback : std::uint8_t {
  unset = 0,   // in a join: no wish
  none = 1,    // its calls end with reducer_lost
  direct = 2,  // as in direct mode its workers bring reducers, until the pool has one again
};
inline constexpr int kFallbackCount = 3;
constexpr std::string_view fallback_name(Fallback fallback) noexcept {
  constexpr std::string_view kNames[kFallbackCount] = {"unset", "none", "direct"};
  return kNames[static_cast<std::size_t>(fallback)];
}

// How a job cuts its calls. Agreed once per job: the coordinator fills in what the workers leave open.
struct JobSettings {
  std::uint32_t chunk_bytes = 0;   // 0 in a join: the coordinator chooses. 4 KiB .. 1 MiB, a multiple of 64
  std::uint16_t window = 0;        // slots of the bulk numbering per shard; 0 in a join: the coordinator chooses. 1..64
  std::uint16_t small_window = 0;  // slots of the small numbering per shard; likewise
  std::uint32_t small_bytes =
      0;  // calls of at most so many payload bytes use the small numbering; likewise, <= chunk_bytes
  Mode mode = Mode::unset;
  RingOrder ring_order = RingOrder::unset;
  Fallback fallback = Fallback::unset;
  std::uint32_t min_workers =
      0;  // a membership after the first has at least so many; 0: more than half of the one before
  std::uint32_t max_workers = 0;  // and at most so many; 0: as many as the first
  bool operator==(const JobSettings&) const = default;
};

struct WorkerInfo {
  std::uint32_t rank = 0;
  Incarnation incarnation = 0;
  std::string host;          // "name:pid", for messages only
  std::string address = {};  // where it takes lanes of other workers, "host:port"; empty: nowhere
  bool operator==(const WorkerInfo&) const = default;
};

struct ReducerInfo {
  Incarnation instance = 0;
  std::string name;     // unique in the pool, for messages and metrics
  std::string address;  // of its data port, "host:port"
  std::uint16_t shards = 1;
  std::uint32_t weight = 1;  // of each shard, see schedule.h
  bool operator==(const ReducerInfo&) const = default;
};

// One membership of a job: the same on every member.
struct EpochRecord {
  Epoch epoch;                      // with which it began
  std::vector<WorkerInfo> workers;  // index = rank
  std::vector<ReducerInfo> reducers;
  JobSettings settings;        // complete
  Nonce lane_nonce{};          // lane_key(pool key, job, lane_nonce)
  std::uint32_t stayed = 0;    // ranks below it were in the membership before; the others are new and know nothing
  std::uint64_t sequence = 0;  // the world's calls begin with it: the lowest not complete on all that stayed
  bool operator==(const EpochRecord&) const = default;
};

// Results of one communicator that are held, by shard in the order of the epoch's pool (client: shard_order).
struct CommunicatorProgress {
  std::uint16_t communicator = 0;
  std::vector<std::uint64_t> bulk, small;
  bool operator==(const CommunicatorProgress&) const = default;
};

// -- a worker's life
// W>C, first. limit_ms: how long the worker waits for the job to form, 0: as long as the coordinator does
struct Join {
  std::uint32_t world_size = 0;
  std::string host;
  std::string version;
  JobSettings settings;
  std::uint32_t limit_ms = 0;
  std::string address = {};  // as in WorkerInfo
};
struct Joined {
  EpochRecord record;
};                // C>W  the job is formed; communicator 0 is the world; open your lanes
struct Ready {};  // W>C  all lanes are open
// W>C  every call of mine is done; my going is no loss. I took part in so many calls of the world and shall in no later
// one; communicators that I have not closed before count as closed without any. Until CloseJob I still say how far I am
// and contribute again when an epoch asks for it
struct Leave {
  std::uint64_t calls = 0;
};
// W>C  let the next membership begin, of those that are left and those that wait; I have no call pending. Until the
// answer (joined or resumed) I still answer prepare, after it the communicators of before are no more. `sequence`: the
// lowest of the world's calls that is not complete here. admit: only if nobody is lost
struct Resume {
  std::uint64_t sequence = 0;
  bool admit = false;
  std::uint32_t limit_ms = 0;  // how long I wait
};
struct Resumed {
  Code code = Code::ok;
  std::string text;
};  // C>W  no other membership begins: nobody has come or gone (ok), or why not
struct Applicants {
  std::uint32_t count = 0;
};  // C>W  so many workers wait to be taken in
struct Create {
  std::uint64_t request = 0;
  std::vector<std::uint32_t> members;
};  // W>C  members: world ranks, in order
struct Created {
  std::uint64_t request = 0;
  std::uint16_t communicator = 0;
};  // C>W
struct CreateFailed {
  std::uint64_t request = 0;
  Code code = Code::internal;
  std::string text;
};  // C>W  that one only
// W>C  one member is done (job empty): it took part in `calls` calls and shall in no later one, but keeps what it
// contributed; C>R, C>W  all are (calls 0)
struct CloseCommunicator {
  std::string job;
  std::uint16_t communicator = 0;
  std::uint64_t calls = 0;
};

// -- a reducer's life
struct Register {
  std::string name;
  std::string address;
  std::uint16_t shards = 1;
  std::uint64_t budget_bytes = 0;
  std::string version;
  std::string job = {};    // not empty: it serves this job alone,
  Incarnation worker = 0;  // as the reducer of this worker of it
};                         // R>C, first
struct Registered {
  std::uint32_t reducers = 0;
};  // C>R  so many are in the pool now
struct OpenJob {
  std::string job;
  EpochRecord record;
};  // C>R
struct OpenCommunicator {
  std::string job;
  std::uint16_t communicator = 0;
  std::vector<std::uint32_t> members;
};  // C>R
// R>C  the answer to OpenCommunicator: ok with the bytes reserved, or resource_exhausted with need and budget in the
// text
struct Reserved {
  std::string job;
  std::uint16_t communicator = 0;
  std::uint64_t bytes = 0;
  Code code = Code::ok;
  std::string text;
  Epoch epoch = {};  // in which the job is there
};
struct CloseJob {
  std::string job;
  std::string reason;
};                   // C>R; C>W to a worker that has left: nobody needs it any more
struct Draining {};  // R>C  take no new job here; I leave when the last one has ended or goes on without me

// -- epochs: the reducers of a running job change
// C>W  these are to come into the job: open lanes to them beside what runs, and drop those to others that no Commit has
// taken. The list replaces the one before
struct Recruit {
  std::vector<ReducerInfo> reducers;
};
struct Recruited {
  Incarnation instance = 0;
  Code code = Code::ok;
  std::string text;
};  // W>C  the answer for each: all lanes to it are open, or why not
// C>W  the pool has no reducer for the job: register one for it, as that of your rank (direct mode)
struct Bring {};
struct Brought {
  Code code = Code::internal;
  std::string text;
};  // W>C  the answer if that is not possible
struct Prepare {
  Epoch epoch;
};  // C>W  send nothing to reducers any more, drop what still comes, say how far you are
struct Progress {
  Epoch epoch;
  std::vector<CommunicatorProgress> communicators;
};  // W>C  the answer
struct Enter {
  std::string job;
  Epoch epoch;
};  // C>R  drop all older state of the job; only frames of this epoch count
struct Entered {
  std::string job;
  Epoch epoch;
};  // R>C  the answer, once every shard has
// C>W  go on, with these reducers. What is below `least` on the shards of the epoch before is held by every rank; a
// communicator that is not listed has nothing below
struct Commit {
  Epoch epoch;
  std::vector<ReducerInfo> reducers;
  std::vector<CommunicatorProgress> least;
};

// -- trouble
struct Heartbeat {
  std::uint64_t count = 0;
};  // both ways; the answer repeats the count
struct Mismatched {
  std::string job;
  std::uint16_t communicator = 0;
  std::uint64_t sequence = 0;
  Epoch epoch = {};  // of these contributions
};                   // R>C; W>C in a ring: contributions of one chunk differ
struct Describe {
  std::uint16_t communicator = 0;
  std::uint64_t sequence = 0;
};  // C>W  what was that call? answer: Waiting
// W>C  I have waited for this call since a while (or was asked); C compares with what the others wait for
struct Waiting {
  std::uint16_t communicator = 0;
  std::uint64_t sequence = 0;
  CallDescription call;
  std::vector<std::uint32_t> awaits = {};  // a receive: the rank that has not yet opened a lane for it
};
// C>W  the answer while others are missing: their ranks in the communicator (the first 16), and how many in all
struct Stalled {
  std::uint16_t communicator = 0;
  std::uint64_t sequence = 0;
  std::vector<std::uint32_t> missing;
  std::uint32_t missing_count = 0;
};
struct LaneLost {
  Incarnation instance = 0;
  std::string text;
};  // W>C  my lane to this reducer broke and cannot be made again
// C>W  the communicator (kEveryCommunicator: all) is closed with this error, and creations that are under way with it;
// C>R: what a refused registration says; W>C: this worker closed the communicator with that error (a timeout, say), so
// the others must end there too. `ranks`: whose fault it is, ranks of that communicator (kEveryCommunicator: of the
// world)
inline constexpr std::uint32_t kEveryCommunicator = 0xFFFFFFFF;
struct Fail {
  std::uint32_t communicator = kEveryCommunicator;
  Code code = Code::internal;
  std::string text;
  std::vector<std::uint32_t> ranks;
};

// T>C, answered alike: somebody is there. C>W, answered alike: another process says that it has the worker's place
struct Ping {};

using Message = std::variant<Join, Joined, Ready, Leave, Create, Created, CreateFailed, CloseCommunicator, Register,
                             Registered, OpenJob, OpenCommunicator, Reserved, CloseJob, Draining, Heartbeat, Mismatched,
                             Describe, Waiting, Stalled, LaneLost, Fail, Ping, Prepare, Progress, Enter, Entered,
                             Commit, Recruit, Recruited, Bring, Brought, Resume, Resumed, Applicants>;

// {"type":"join",...}. Every field is written; a reader ignores fields it does not know (a newer minor version) and
// refuses missing ones, wrong types and numbers out of range with protocol_error naming the field.
std::string encode(const Message& message);
std::string_view type_name(const Message& message) noexcept;  // "join"
Result<Message> decode(std::string_view text);

}  // namespace redsum::wire
