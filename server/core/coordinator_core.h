// SPDX-License-Identifier: Apache-2.0
// What the coordinator decides: who is in the pool, when a job has formed, which communicators it has, who is lost and
// who is told so. Pure: messages, losses and the time go in, messages to send and connections to close come out. It
// owns no thread, clock, socket or random source; whoever drives it delivers its effects in order.
//
// A job is `forming` until every rank has joined and the pool is large enough, `opening` until all reducers have
// reserved and all workers have their lanes, then `running`. A loss makes it `failed`: its workers hear why, and it is
// forgotten when the last of them has gone. No state lasts without a limit except `running`.
#pragma once
#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/coordinator_job.h"
#include "transport/base/log.h"
#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/base/types.h"
#include "transport/wire/control.h"
#include "transport/wire/handshake.h"

namespace redsum::server {

struct CoordinatorOptions {
  DurationNs heartbeat_timeout = 3 * kSecond;
  DurationNs formation_timeout = 60 * kSecond;  // of a job, and of a communicator, from the first who asks for it
  std::uint32_t min_reducers = 1;
  wire::JobSettings defaults;  // zero fields: chosen from the world size
  std::uint32_t term = 1;      // of every epoch that this coordinator opens
  wire::Nonce seed{};          // random once per life: the lane nonces of all jobs come from it
};

// The driver sends first, in order, and then closes: a connection sends what is queued before it is gone.
struct CoordinatorEffects {
  struct Send {
    std::vector<PeerId> to;
    wire::Message message;
  };
  struct Note {
    log::Level level = log::Level::info;
    std::string text;
  };
  std::vector<Send> sends;
  std::vector<PeerId> closes;  // on_lost() must not be called for these any more (it would do nothing)
  std::vector<Note> notes;
  void clear() {
    sends.clear();
    closes.clear();
    notes.clear();
  }
};

struct CoordinatorCounters {
  std::uint64_t epochs_opened = 0;  // after a job's first
  std::uint64_t jobs_formed = 0, jobs_ended = 0, jobs_failed = 0;
  std::array<std::uint64_t, kCodeCount> failures{};  // jobs, communicators, creations and peers refused, by code
};

// A job as people see it.
struct JobStatus {
  std::string job;
  JobState state = JobState::forming;
  std::uint32_t world_size = 0, joined = 0, communicators = 0;
  Epoch epoch;                         // 0 until it has formed
  std::vector<std::string> workers;    // "rank host:pid address", the first 64
  std::vector<std::uint32_t> missing;  // ranks without a worker, the first 16
  std::string last_error;
  TimeNs since = 0;  // of its state
};

class CoordinatorCore {
 public:
  explicit CoordinatorCore(const CoordinatorOptions& options);
  ~CoordinatorCore();

  // A connection whose handshake is complete. `address` is the peer's "host:port"; ids are never used twice.
  void on_connected(PeerId peer, const wire::Hello& hello, std::string address, TimeNs now,
                    CoordinatorEffects& effects);
  void on_message(PeerId peer, const wire::Message& message, TimeNs now, CoordinatorEffects& effects);
  void on_lost(PeerId peer, const Status& why, TimeNs now, CoordinatorEffects& effects);
  // Whatever is due. Early calls do nothing.
  void tick(TimeNs now, CoordinatorEffects& effects);
  TimeNs next_deadline() const noexcept { return deadline_; }

  std::vector<wire::ReducerInfo> reducers() const;  // of the pool, registered now, draining ones too
  std::vector<JobStatus> jobs() const;
  const CoordinatorCounters& counters() const noexcept { return counters_; }
  // Grows whenever reducers(), jobs() or counters() may have changed.
  std::uint64_t changes() const noexcept { return changes_; }

 private:
  using Job = roster::Job;
  using Creation = roster::Creation;
  using Communicator = roster::Communicator;

  struct Peer {
    PeerId id;
    wire::Hello hello;
    std::string address;
    TimeNs last_heard = 0;
    Job* job = nullptr;                // a worker that has its place in a job
    Job* lingers = nullptr;            // a worker that has left this one
    bool gone = false;                 // a worker whose part is over: it left, or its job is forgotten
    std::optional<wire::Join> parked;  // waits until an ending job of the same name is forgotten,
    TimeNs parked_since = 0;
    TimeNs parked_until = kNever;           // or that one takes it in, at most so long
    PeerId contests;                        // the worker whose place it claims,
    TimeNs contested_until = kNever;        // and who has so long to show that it is alive
    std::optional<wire::Register> reducer;  // a registered reducer
    bool draining = false;
    bool of_pool() const { return reducer && reducer->job.empty(); }  // it takes any job
  };
  struct Turn {  // of one event
    TimeNs now;
    CoordinatorEffects& effects;
  };

  // -- peers (coordinator_core.cc)
  Peer* find(PeerId id);
  void dispatch(Peer& peer, const wire::Message& message, Turn& turn);
  bool dispatch_worker(Peer& peer, const wire::Message& message, Turn& turn);
  bool dispatch_reducer(Peer& peer, const wire::Message& message, Turn& turn);
  void refuse(Peer& peer, const Status& why, Turn& turn);  // tells, closes and forgets it
  void drop(PeerId id, const Status& why, Turn& turn);     // forgets it: the loss of whatever it was
  void check_silence(Turn& turn);
  void check_parked(Turn& turn);
  void check_jobs(Turn& turn);
  void check_job(Job& job, Turn& turn);
  void arm(TimeNs at) noexcept { deadline_ = at < deadline_ ? at : deadline_; }
  TimeNs earliest_deadline() const;

  // -- reducers (coordinator_pool.cc)
  void on_register(Peer& peer, const wire::Register& message, Turn& turn);
  void on_draining(Peer& peer, Turn& turn);
  void on_reserved(Peer& peer, const wire::Reserved& message, Turn& turn);
  void on_mismatched(Peer& peer, const wire::Mismatched& message, Turn& turn);
  void on_lane_lost(Peer& peer, const wire::LaneLost& message, Turn& turn);
  void reducer_gone(const Peer& peer, const Status& why, Turn& turn);
  std::string reducer_text(PeerId id) const;  // "reducer 'r0' (10.0.0.1:7401)"
  std::string reducers_text(const std::vector<PeerId>& ids) const;

  // -- epochs (coordinator_epoch.cc)
  void lose_reducer(Job& job, PeerId id, Incarnation instance, const Status& why, Turn& turn);
  void give_up_reducer(Job& job, const roster::LaneTrouble& trouble, Turn& turn);
  void open_epoch(Job& job, Turn& turn);
  void on_progress(Peer& peer, const wire::Progress& message, Turn& turn);
  void on_entered(Peer& peer, const wire::Entered& message, Turn& turn);
  void advance_epoch(Job& job, Turn& turn);
  void commit_epoch(Job& job, Turn& turn);
  void send_members(const Job& job, wire::Message message, Turn& turn);  // workers, also those that have left
  // Who has left stays until then.
  void release_lingering(Job& job, const std::string& reason, Turn& turn);
  void lingerer_gone(Job& job, const Peer& peer, const Status& why, Turn& turn);

  // -- reducers that come into a running job, or go (coordinator_recruit.cc)
  void recruit(Job& job, Turn& turn);  // whom the pool has and the job not
  void recruit(Job& job, const Peer& reducer, Turn& turn);
  void on_recruit_reserved(Job& job, const Peer& reducer, const wire::Reserved& message, Turn& turn);
  void on_recruited(Peer& worker, const wire::Recruited& message, Turn& turn);
  void reached(Job& job, PeerId recruit, PeerId worker, Turn& turn);
  void send_recruits(const Job& job, Turn& turn);
  // Opens an epoch if a recruit is ready or a reducer wants to go, and none is being opened.
  void change_if_due(Job& job, Turn& turn);
  bool may_recruit(const Job& job, const Peer& reducer, const Turn& turn) const;
  void take_out(Job& job, PeerId reducer, Incarnation instance);
  void take_in(Job& job, Turn& turn);  // recruits that are ready
  // Reducers that drain, and those of workers that have left or where the pool has one again; while others are left.
  void let_go(Job& job, Turn& turn);
  std::vector<PeerId> leavers(const Job& job) const;
  void dismiss(Job& job, PeerId recruit, const Status& why, Turn& turn);  // it does not come in; `job` may fail
  void dismiss_all(Job& job, const std::string& reason, Turn& turn);
  void bar(Job& job, Incarnation instance, Turn& turn);
  void check_recruits(Job& job, Turn& turn);
  void drop_recruit(Job& job, PeerId recruit, const std::string& reason, Turn& turn);
  bool ready_to_come(const Job& job) const;
  bool none_left(const Job& job) const;  // nor on its way
  Status recruit_timeout(const Job& job, PeerId id, const roster::Recruit& recruit) const;
  wire::ReducerInfo info_of(PeerId reducer) const;
  std::vector<PeerId> candidates(const Job& job) const;  // reducers and recruits

  // -- jobs without a reducer of the pool (coordinator_fallback.cc)
  void fall_back(Job& job, Turn& turn);
  void own_registered(const Peer& reducer, Turn& turn);
  void on_brought(Peer& worker, const wire::Brought& message, Turn& turn);
  void own_leaves(Job& job, std::uint32_t rank, Turn& turn);
  void check_bringing(Job& job, Turn& turn);
  void brought(Job& job, PeerId worker, Turn& turn);  // or it cannot

  // -- the workers of a job change (coordinator_resume.cc)
  void apply(Peer& peer, const wire::Join& message, Job& job, Turn& turn);
  static Status twice(const roster::Seat& seat, const Job& job, const Peer& other, const wire::Join& join);
  bool is_older(Peer& peer, const wire::Join& message, const roster::Seat& seat, const Job& job, Turn& turn);
  void park(Peer& peer, const wire::Join& message, Turn& turn);
  void contest(Peer& peer, const roster::Seat& seat, const Job& job, Turn& turn);
  void on_alive(const Peer& worker, Turn& turn);
  void supersede(PeerId old, const Peer& newer, Turn& turn);
  void check_contests(Turn& turn);
  std::vector<PeerId> applicants(const Job& job) const;
  void on_resume(Peer& peer, const wire::Resume& message, Turn& turn);
  void answer_resume(Job& job, const Status& status, Turn& turn);
  void fail_resume(Job& job, const Status& why, Turn& turn);
  void check_resume(Job& job, Turn& turn);
  std::vector<roster::Seat> next_seats(const Job& job, const std::vector<PeerId>& newcomers) const;
  bool begin_next(Job& job, std::vector<PeerId> newcomers, Turn& turn);
  void leave_membership(Job& job, Turn& turn);
  void next_is_told(Job& job);
  void let_newcomers_wait(Job& job);
  Status resume_timeout(const Job& job) const;

  // -- the life of a job (coordinator_formation.cc)
  void on_join(Peer& peer, const wire::Join& message, Turn& turn);
  void on_ready(Peer& peer, Turn& turn);
  void on_leave(Peer& peer, const wire::Leave& message, Turn& turn);
  Status check_join(const Peer& peer, const wire::Join& message, const Job& job) const;
  Status check_settings(std::uint32_t rank, const wire::JobSettings& asked, const Job& job) const;
  wire::JobSettings choose_settings(const Job& job) const;
  std::vector<PeerId> pool_reducers() const;
  std::vector<PeerId> own_reducers(const Job& job, const std::vector<roster::Seat>& seats) const;
  const roster::Seat* owner_of(const Job& job, const Peer& reducer) const;  // nullptr: none of its workers
  // That the job begins with; none: they are not all there yet.
  std::optional<std::vector<PeerId>> reducers_for(const Job& job, const wire::JobSettings& settings,
                                                  const std::vector<roster::Seat>& seats) const;
  static roster::Seat seat_of(const Peer& peer, const wire::Join& message);
  void open_if_complete(Job& job, Turn& turn);
  void open(Job& job, Turn& turn);
  void joined(Job& job, Turn& turn);
  void run_if_ready(Job& job, Turn& turn);
  Status formation_timeout(const Job& job) const;
  void worker_gone(Job& job, std::uint32_t rank, const Status& why, Turn& turn);
  void fail_formation(Job& job, const Status& why, Turn& turn);  // nobody stays; `job` is gone after it
  void fail_job(Job& job, const Status& why, std::vector<std::uint32_t> ranks, Turn& turn);
  void give_up_opening(Job& job, const Status& why, Turn& turn);
  void close_at_reducers(Job& job, const std::string& reason, Turn& turn);
  void forget_if_empty(Job& job, Turn& turn);  // `job` may be gone after it
  void forget(Job& job, const std::string& reason, Turn& turn);

  // -- communicators (coordinator_communicators.cc)
  void on_create(Peer& peer, const wire::Create& message, Turn& turn);
  void on_close_communicator(Peer& peer, const wire::CloseCommunicator& message, Turn& turn);
  void on_waiting(Peer& peer, const wire::Waiting& message, Turn& turn);
  void on_failed(Peer& peer, const wire::Fail& message, Turn& turn);
  Status check_members(const Job& job, std::uint32_t caller, const std::vector<std::uint32_t>& members) const;
  std::optional<std::uint16_t> free_communicator(Job& job) const;
  void reserve(Job& job, std::list<Creation>::iterator creation, Turn& turn);
  void created(Job& job, std::list<Creation>::iterator creation, Turn& turn);
  void fail_creation(Job& job, std::list<Creation>::iterator creation, const Status& why, Turn& turn);
  Status creation_timeout(const Creation& creation) const;
  void close_at_candidates(const Job& job, std::uint16_t id, Turn& turn);
  void close_member(Job& job, std::uint16_t id, std::uint32_t rank, std::uint64_t calls, Turn& turn);
  // A call does not match: its verdict falls once every rank that can has described it, at most `limit` from now.
  void on_receive_waits(Job& job, const wire::Waiting& message, Turn& turn);
  void fail_without(Job& job, std::uint16_t id, std::uint32_t rank, const std::string& so, Turn& turn);
  void settle_call(Job& job, std::uint16_t id, WaitingCall& call, DurationNs limit, Turn& turn);
  void conclude(Job& job, std::uint16_t id, WaitingCall& call, Turn& turn);
  void end_mismatched(Job& job, std::uint16_t id, const WaitingCall& call, Turn& turn);
  void fail_communicator(Job& job, std::uint16_t id, const Status& why, std::vector<std::uint32_t> ranks, Turn& turn);

  void send(PeerId to, wire::Message message, Turn& turn);
  void send_workers(const Job& job, wire::Message message, Turn& turn);
  void send_reducers(const Job& job, wire::Message message, Turn& turn);
  void note(log::Level level, std::string text, Turn& turn);
  void count(Code code) { ++counters_.failures[static_cast<std::size_t>(code)]; }

  CoordinatorOptions options_;
  std::map<PeerId, Peer> peers_;
  std::map<std::string, std::unique_ptr<Job>, std::less<>> jobs_;
  CoordinatorCounters counters_;
  std::uint64_t nonces_ = 0;  // drawn from the seed so far
  std::uint64_t changes_ = 0;
  TimeNs deadline_ = kNever;  // not later than anything that is due
};

}  // namespace redsum::server
