// SPDX-License-Identifier: Apache-2.0
// One shard at work: carries out what ShardCore decides, on one thread, over one transport. It owns the memory of the
// slots, maps lanes to jobs and ranks, folds in short steps and sends results. It starts no thread and reads no clock
// of its own, so the simulation drives the very same code.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/core/shard_core.h"
#include "server/snapshot.h"
#include "transport/agent.h"
#include "transport/base/region.h"
#include "transport/transport.h"

namespace redsum::server {

// Bytes that one communicator of `members` ranks reserves on one shard: (n + 2) places for every slot of both windows.
std::uint64_t reservation_bytes(std::uint32_t members, const wire::JobSettings& settings) noexcept;

class ShardAgent final : public transport::LaneSink, public Agent {
 public:
  using Clock = std::function<TimeNs()>;
  // A chunk on whose call the ranks do not agree; reported once per communicator.
  using OnDisagreement = std::function<void(const wire::Mismatched&)>;

  ShardAgent(Clock clock, OnDisagreement on_disagreement, DurationNs idle_release);
  // The transport calls back into this agent and must be destroyed before it.
  void use(transport::Transport& transport) { transport_ = &transport; }

  // -- the job's life, all on the shard's thread
  void open_job(const std::string& job, const wire::EpochRecord& record);
  // members[i] = rank in the job of the communicator's rank i. resource_exhausted when the memory cannot be reserved.
  Status open_communicator(const std::string& job, CommunicatorId id, const std::vector<std::uint32_t>& members);
  void close_communicator(const std::string& job, CommunicatorId id);
  void close_job(const std::string& job);
  // The job goes on in a new epoch: whatever is under way is dropped.
  void enter(const std::string& job, Epoch epoch);
  void adopt(std::unique_ptr<transport::Link> link);  // a link of a job that is not open here is closed

  // Folds for at most about 100 us; returns how many steps it made. Now and then it gives back the pages of
  // communicators that have been idle for long.
  std::size_t do_work(TimeNs now) override;
  TimeNs next_deadline() const override { return next_release_; }

  const ShardCounters& counters() const { return counters_; }
  std::vector<JobOnReducer> jobs() const;

  void on_arrival(transport::LaneId lane, const wire::Header& header, Bytes payload) override;
  void on_lane_lost(transport::LaneId lane, const Status& why) override;

 private:
  struct Job;
  // A communicator of a job on this shard: the core's board and the memory behind it.
  struct Communicator {
    Job* job = nullptr;
    CommunicatorId id;
    BoardIndex board;
    std::vector<std::uint32_t> members;
    Region memory;
    std::size_t stride = 0;  // of one place
    std::size_t places = 0;  // window + small_window
    TimeNs last_use = 0;
    bool touched = false;  // since the pages were given back
    bool disagreed = false;
    std::uint64_t chunks_reduced = 0, bytes_reduced = 0, nonfinite = 0;

    std::byte* staging(std::size_t member, std::size_t place) const;
    std::byte* result(std::size_t place, std::uint8_t buffer) const;
  };
  struct Lane {
    transport::LaneId id;
    Incarnation incarnation = 0;
    bool open = false;
  };
  struct Job {
    std::string name;
    wire::EpochRecord record;
    std::vector<Lane> lanes;  // by rank in the job
    std::map<CommunicatorId, std::unique_ptr<Communicator>> communicators;
  };
  // What a lane's frames mean, by communicator number: found without touching the job.
  struct Route {
    CommunicatorId id;
    Communicator* communicator = nullptr;
    Rank rank;  // in the communicator
  };
  struct LaneState {
    Job* job = nullptr;
    std::uint32_t rank = 0;  // in the job
    std::vector<Route> routes;
  };
  struct FoldTask {
    Fold fold;
    Communicator* communicator = nullptr;
    std::size_t done = 0;  // elements
    TimeNs begun = 0;
  };
  // First in, first out, without an allocation once it has grown.
  struct FoldQueue {
    std::vector<FoldTask> tasks;
    std::size_t head = 0;
    bool empty() const { return head == tasks.size(); }
    FoldTask& front() { return tasks[head]; }
    void pop();
    void forget(const Communicator* communicator);
  };

  void expose(Job& job, std::uint32_t rank, Communicator& communicator);
  void hide(Communicator& communicator);
  void close(Communicator& communicator);
  bool fold_step(FoldTask& task);  // true: the fold is complete
  void count_nonfinite(FoldTask& task, std::uint64_t elements);
  void finish(const FoldTask& task);
  void take_effects(Communicator& communicator);
  void end_lane(transport::LaneId lane, const Status& why);
  void release_idle(TimeNs now);

  const Clock clock_;
  const OnDisagreement on_disagreement_;
  const DurationNs idle_release_;
  transport::Transport* transport_ = nullptr;
  ShardCore core_;
  ShardEffects effects_;
  std::map<std::string, std::unique_ptr<Job>> jobs_;
  std::map<transport::LaneId, LaneState> lanes_;
  transport::LaneId last_lane_;  // the lane of the frame before: most frames come in bursts
  LaneState* last_state_ = nullptr;
  std::vector<Communicator*> boards_;  // by BoardIndex
  FoldQueue small_, bulk_;
  TimeNs next_release_ = kNever;
  std::vector<const void*> inputs_;
  ShardCounters counters_;
};

}  // namespace redsum::server
