// SPDX-License-Identifier: Apache-2.0
// A whole job in virtual time: the coordinator's core, reducers' shard agents, workers' progress agents, all unchanged,
// over the simulated network. One seed draws the sizes, the calls, the delays and the fault. A World runs once; check()
// throws Broken with what does not hold.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/progress_agent.h"
#include "server/core/coordinator_core.h"
#include "server/shard_agent.h"
#include "tests/sim/coverage.h"
#include "tests/sim/script.h"
#include "transport/sim/sim_network.h"

namespace redsum::sim {

// `checker`: which of the world's promises it is: bits, error, input, once, agreement, end, leak; else "harness".
struct Broken : std::runtime_error {
  Broken(std::string checker_name, const std::string& text)
      : std::runtime_error(checker_name + ": " + text), checker(std::move(checker_name)) {}
  std::string checker;
};

enum class Fault {
  none,
  slow_rank,
  stalls,
  kill_worker,
  kill_reducer,
  cut_lane,
  mismatch,
  duplicate,
  silent_worker,
  refused_memory,
  absent_rank,
  add_reducer,
  drain_reducer,
  lose_worker  // those that are left resume
};
inline constexpr int kFaultCount = 14;
const char* fault_name(Fault fault);
std::optional<Fault> fault_of(std::string_view name);

class World {
 public:
  // `fault`: instead of one that the seed draws.
  World(std::uint64_t seed, Coverage& coverage, bool verbose, std::optional<Fault> fault = std::nullopt);
  ~World();
  void run();  // throws Broken
  std::uint64_t trace_hash() const { return net_.trace_hash(); }

 private:
  // The workers of the job for a while, and what they do.
  struct Membership {
    wire::EpochRecord record;  // epoch 0: nobody has heard of it yet
    std::uint32_t size = 1;
    std::vector<std::uint32_t> sub;  // members of the second communicator; empty: there is none
    std::vector<PlannedCall> script;
    bool admits = false;  // all ask for new workers when they are through
    std::uint32_t members_of(std::size_t group) const;
    std::uint32_t rank_in(std::size_t group, std::uint32_t world_rank) const;
    bool has(std::size_t group, std::uint32_t world_rank) const;
  };
  struct Submitted {
    const Membership* of = nullptr;
    std::uint32_t rank = 0;   // of the worker in it
    std::size_t planned = 0;  // index in its script
    const PlannedCall& plan() const { return of->script[planned]; }
    std::uint32_t members() const { return of->members_of(plan().group); }
    std::uint32_t rank_in_group() const { return of->rank_in(plan().group, rank); }
    client::CallPtr call;
    std::vector<std::byte> input, output, before;
    std::vector<std::byte> input_after, output_after;  // when it completed; then the memory was used for other things
    int completions = 0;
  };
  struct ReducerProcess;
  struct Worker {
    std::uint32_t launched_as = 0;
    Incarnation incarnation = 0;
    const Membership* in = nullptr;
    std::uint32_t rank = 0;                         // in it
    std::vector<std::unique_ptr<Submitted>> calls;  // their memory outlives the agent
    std::unique_ptr<client::ProgressAgent> agent;
    std::unique_ptr<SimEndpoint> endpoint;
    std::unique_ptr<transport::Transport> repeating;  // fault duplicate: deposits some frame twice
    server::PeerId peer;
    ReducerProcess* own = nullptr;  // where the job fell back
    bool alive = true, joined = false, silent = false, left = false, going = false, over = false;
    Status join_error;
    bool asking = false, admitting = false, has_admitted = false;  // for the next membership
    Sequence lowest_incomplete = 0;                                // of the world's calls, when it asked
    std::size_t next = 0;                                          // of the script
    Sequence sequences[2] = {0, 0}, own_sequences[2] = {0, 0};
    std::uint16_t group_ids[2] = {0, 0};
    bool group_open[2] = {false, false};
    Status closed[2];
    TimeNs tick_at = kNever;
    TimeNs to_coordinator = 0, from_coordinator = 0;  // when the last message of each direction arrives
    std::map<Incarnation, std::vector<client::ProgressAgent::NewLane>> candidates;  // lanes to recruits
  };
  struct Shard {
    std::unique_ptr<server::ShardAgent> agent;
    std::unique_ptr<SimEndpoint> endpoint;
    TimeNs tick_at = kNever;
  };
  struct ReducerProcess {
    std::size_t index = 0;
    Worker* owner = nullptr;  // a worker's own
    std::vector<Shard> shards;
    server::PeerId peer;
    bool alive = true, refuses = false;  // every reservation
    bool open = false;                   // the job,
    Epoch epoch;                         // in this one, as it was opened
    TimeNs to_coordinator = 0, from_coordinator = 0;
    Incarnation instance() const { return 1000 + index; }
  };

  // -- world.cc: the processes
  void build();
  Worker& build_worker(std::uint32_t launched_as, Incarnation incarnation);
  void draw_calls(Membership& membership, std::size_t calls);
  Membership& membership_of(const wire::EpochRecord& record);
  ReducerProcess& build_reducer(std::size_t shards);
  void run_agent(Worker& worker);
  void run_agent(ReducerProcess& reducer, Shard& shard);
  void submit_next(Worker& worker);
  void submit_later(Worker& worker);
  void fill_tensors(Submitted& submitted, client::Call& call) const;
  void fill_exchange(const Submitted& submitted, const std::byte* in, std::byte* out, client::Call& call) const;
  std::size_t next_of(const Worker& worker) const;
  bool finished() const;

  // -- world_faults.cc
  void inject();
  void inject_when_running();
  void note_reducer_fault();
  void kill(Worker& worker);
  void kill(ReducerProcess& reducer);
  void disconnect(server::PeerId peer, TimeNs when, const char* why);  // the coordinator hears of it then
  bool job_runs() const;
  void bring(Worker& worker);
  void start_later(DurationNs within);  // one more reducer
  void lose_worker();
  void start_again(std::uint32_t launched_as);

  // -- world_control.cc: the control plane
  void start_control();
  void start_reducer(ReducerProcess& reducer);
  void start_worker(Worker& worker);
  Worker& worker_of(Incarnation incarnation);
  // -- world_resume.cc: the workers change
  void ask(Worker& worker, bool admit);
  void on_world_closed(Worker& worker);
  void on_joined(Worker& worker, const wire::EpochRecord& record);
  void on_resumed(Worker& worker, const wire::Resumed& answer);
  void admit_at_the_end(Worker& worker);
  bool through(const Worker& worker) const;  // with its calls
  void open_candidate(Worker& worker, const wire::ReducerInfo& info);
  std::unique_ptr<transport::Link> open_lane(Worker& worker, const wire::ReducerInfo& info, std::uint16_t index);
  void on_recruit(Worker& worker, const wire::Recruit& recruit);
  void on_commit(Worker& worker, const wire::Commit& commit);
  void to_coordinator(TimeNs& last, server::PeerId from, wire::Message message);
  void heartbeat(Worker& worker);
  void heartbeat(ReducerProcess& reducer);
  void carry_out();  // the coordinator's effects
  void coordinator_tick();
  void deliver(server::PeerId to, const wire::Message& message);
  void on_message(Worker& worker, const wire::Message& message);
  void on_message(ReducerProcess& reducer, const wire::Message& message);
  void open_lanes(Worker& worker, const wire::EpochRecord& record);
  void open_peer_lane(Worker& worker, CommunicatorId id, std::uint32_t rank, wire::Purpose purpose);
  client::ProgressAgent::Reports reports(Worker& worker);

  // -- world_check.cc
  void on_end(Worker& worker, Submitted& submitted, const Status& status);
  void check();
  void check_call(const Worker& worker, const Submitted& submitted) const;
  bool error_is_right(const Status& status, const Submitted& submitted) const;
  void leave(Worker& worker);
  void leave_early(Worker& worker);
  void go(Worker& worker);
  void leave_and_check();
  std::string name_of(const Worker& worker, const Submitted& submitted) const;
  void say(const std::string& what) const;

  SimNetwork net_;
  Prng& random_;
  Coverage& coverage_;
  const bool verbose_;
  Fault fault_ = Fault::none;
  bool fault_done_ = false, leaving_ = false;
  bool recovered_ = false;  // an epoch or a membership began while calls were under way
  std::uint32_t world_size_ = 1;
  wire::JobSettings settings_;
  bool one_cannot_bring_ = false;            // a reducer: victim_
  std::set<Incarnation> in_job_;             // reducers of the epoch that some worker heard of last
  bool recoverable_ = true;                  // whatever was done to reducers, the job had to go on
  bool rings_ = false, peer_lanes_ = false;  // some call goes round the ring
  std::uint64_t ring_percent_ = 0;           // of the calls
  std::deque<Membership> memberships_;       // the job's, one after another
  std::uint32_t victim_ = 0;                 // rank or reducer of the fault
  std::size_t bad_call_ = 0;                 // fault mismatch: index in the script
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<ReducerProcess>> reducers_;
  std::vector<SimLane> lanes_;
  server::CoordinatorOptions options_;
  server::CoordinatorCore core_;
  server::CoordinatorEffects effects_;
  TimeNs core_tick_at_ = kNever;
};

}  // namespace redsum::sim
