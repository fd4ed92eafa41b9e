// SPDX-License-Identifier: Apache-2.0
// A process' membership in one job: the control thread (coordinator connection, heartbeats, opening lanes) and the
// progress thread (the data path). Created by join(), ended by leave() or destruction. All functions may be called from
// any thread.
#pragma once
#include <atomic>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "client/direct/own_reducer.h"
#include "client/direct/peer_lanes.h"
#include "client/options.h"
#include "client/progress_agent.h"
#include "transport/agent.h"
#include "transport/control/connection.h"

namespace redsum::client {

// The workers of a job, and which of them this one is.
struct Membership {
  wire::EpochRecord record;
  std::uint32_t rank = 0;
};

class Job {
 public:
  // Blocks until the job is formed and every lane is open, at most options.connect_timeout.
  static Result<std::shared_ptr<Job>> join(const Options& options);
  ~Job();

  const Options& options() const { return options_; }
  std::shared_ptr<const Membership> membership() const;  // now; there is one once joined
  // Enters the next membership together with all workers that are left: see redsum_resume() and redsum_admit(). Blocks,
  // at most options.connect_timeout. `sequence`: the lowest of the world's calls that is not complete here; no call is
  // pending. The membership is the same as before where nobody has come or gone.
  Result<std::shared_ptr<const Membership>> resume(Sequence sequence, bool admit);
  std::uint32_t waiting() const { return waiting_; }  // workers, to be taken in
  // Called on threads of the library. One per job.
  using Changed = std::function<void(redsum_membership_event, const std::string& text)>;
  void on_change(Changed changed);
  struct Pool {
    Epoch epoch;
    std::uint32_t reducers = 0, shards = 0;
  };
  Pool pool() const;  // of the epoch now

  // A communicator of these ranks of the job, in that order; all of them call. Blocks, at most options.connect_timeout.
  Result<CommunicatorId> create(const std::vector<std::uint32_t>& members);
  // This rank took part in `calls` calls and takes part in no more. Pending ones end with closed.
  void close_communicator(CommunicatorId id, Epoch began, std::uint64_t calls);
  // Tells the coordinator that going is no loss. `calls`: of the world communicator. Until the job is over other ranks
  // may need what this one contributed: keep the object so long (stay_until_over()).
  void leave(std::uint64_t calls);
  bool wait_over(DurationNs limit) const;  // after leave()

  // ok, or the error that closed the communicator of the membership that began with this epoch; cheap while nothing is.
  Status closed(CommunicatorId id, Epoch began) const;
  // Fills in who folds the call. unsupported where it needs lanes between workers and some member takes none.
  Status route(const std::vector<std::uint32_t>& members, wire::CallDescription& call) const;
  void submit(CommunicatorId id, CallPtr call);
  transport::Transport::Counters counters();
  std::uint64_t nonfinite_results() const { return worker_.progress.nonfinite_results(); }

 private:
  explicit Job(const Options& options);
  Status start_reducer();  // an own one
  Status listen();         // for lanes of other workers

  // The progress thread's agent: takes submissions in, then lets ProgressAgent work.
  class Worker final : public Agent {
   public:
    explicit Worker(ProgressAgent::Reports reports) : progress(monotonic_now, std::move(reports)) {}
    void push(CommunicatorId id, CallPtr call);  // any thread
    std::size_t do_work(TimeNs now) override;
    TimeNs next_deadline() const override { return progress.next_deadline(); }
    ProgressAgent progress;

   private:
    using Submission = std::pair<CommunicatorId, CallPtr>;
    std::mutex mutex_;
    std::vector<Submission> inbox_, taken_;
    std::atomic<bool> waiting_{false};
  };

  void set_pool(Epoch epoch, const std::vector<wire::ReducerInfo>& reducers);
  void set_over();

  // -- control thread
  void begin();
  void on_message(const wire::Message& message);
  void handle(const wire::Joined& message);
  void handle(const wire::Fail& message);
  void handle(const wire::Describe& message);
  void handle(const wire::Prepare& message);
  void handle(const wire::Commit& message);
  void handle(const wire::Recruit& message);
  void handle(const wire::Resumed& message);
  void handle(const wire::Applicants& message);
  void ask(wire::Resume request, TimeNs limit, std::shared_ptr<std::promise<Status>> done);
  bool outlives(const wire::Fail& message) const;
  void tell(redsum_membership_event event, const std::string& text) const;
  void bring_reducer();
  wire::Hello lane_hello(const wire::ReducerInfo& reducer, std::uint16_t shard) const;
  void dial_candidate(const wire::ReducerInfo& reducer);
  void on_candidate_lane(Incarnation instance, std::uint64_t attempt, std::uint16_t shard,
                         Result<std::unique_ptr<transport::Link>> link);
  void open_lanes(const Membership& membership);
  void open_lane(std::size_t shard);
  void on_lane(std::size_t shard, const wire::ReducerInfo& reducer, Result<std::unique_ptr<transport::Link>> link);
  void start_data_path();
  void open_peer_lane(CommunicatorId id, std::uint32_t rank, wire::Purpose purpose);
  void beat();
  void coordinator_lost(const Status& why);
  void end(const Status& why);
  void finish_join(const Status& status);
  void finish_create(std::uint64_t request, Result<CommunicatorId> result);
  void send(const wire::Message& message) {
    if (connection_) connection_->send(message);
  }
  ProgressAgent::Reports reports();

  const Options options_;
  const Incarnation incarnation_;
  std::unique_ptr<OwnReducer> own_reducer_;  // direct mode, and where the job fell back
  std::atomic<OwnReducer*> own_{nullptr};    // it, once it is there
  Worker worker_;
  AgentThread progress_thread_;
  std::unique_ptr<transport::Transport> transport_;

  Loop loop_;
  std::shared_ptr<control::Connection> connection_;
  std::shared_ptr<void> dialing_;
  std::unique_ptr<transport::Dialer> dialer_;
  std::unique_ptr<PeerLanes> peers_;  // none where this worker may not listen
  std::unique_ptr<Timer> timer_;
  TimeNs deadline_ = kNever, last_heard_ = 0;
  std::uint64_t beats_ = 0;
  mutable std::mutex membership_mutex_;  // held to write it, and to read it on another thread
  std::shared_ptr<const Membership> membership_;
  std::vector<ShardAddress> shards_;  // that it began with
  wire::Key lane_key_{};
  std::vector<std::unique_ptr<transport::Link>> links_;  // while lanes are opened, by shard
  std::size_t links_missing_ = 0;
  // A reducer that is to come into the job, and the lanes to it that are open.
  struct Candidate {
    wire::ReducerInfo reducer;
    std::uint64_t attempt = 0;
    std::vector<ProgressAgent::NewLane> lanes;
  };
  std::map<Incarnation, Candidate> candidates_;
  std::uint64_t attempts_ = 0;
  bool joining_ = true;          // a membership, the first or the next:
  bool awaits_members_ = false;  // the others have not all asked for it yet,
  bool admits_ = false;          // and it was asked for in a job that is well
  std::uint64_t opening_ = 0;    // the attempt at opening its lanes
  Status world_failure_;         // what ended the world communicator
  std::shared_ptr<std::promise<Status>> joined_;

  struct Creation {
    std::vector<std::uint32_t> members;
    std::shared_ptr<std::promise<Result<CommunicatorId>>> done;
  };
  std::map<std::uint64_t, Creation> creations_;  // control thread
  std::uint64_t next_request_ = 0;

  mutable std::mutex pool_mutex_;
  Pool pool_;

  mutable std::mutex closed_mutex_;
  std::map<CommunicatorId, Status> closed_;
  std::atomic<bool> any_closed_{false};
  std::atomic<std::uint32_t> began_{0};  // the epoch with which the membership began, as the progress thread has it
  std::atomic<std::uint32_t> waiting_{0};
  mutable std::mutex changed_mutex_;
  Changed changed_;
  std::atomic<bool> ended_{false};  // the whole job, by an error
  mutable std::mutex over_mutex_;
  mutable std::condition_variable over_changed_;
  bool over_ = false;  // nobody needs this worker any more
  std::thread thread_;
};

// Keeps a job that was left as long as others may need this worker, at most its operation_timeout; a process that ends
// waits for that.
void stay_until_over(std::shared_ptr<Job> job);

}  // namespace redsum::client
