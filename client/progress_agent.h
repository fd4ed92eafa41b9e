// SPDX-License-Identifier: Apache-2.0
// One worker's data path at work: carries out what CommunicatorCore decides, on one thread, over one transport. It
// copies (and converts) inputs into staging just ahead of the window, deposits chunks, copies results out (or lets the
// transport read them into the user's memory), completes calls, and puts the input back when a call fails. It starts no
// thread and reads no clock of its own, so the simulation drives the same code.
//
// When the reducers change the coordinator opens an epoch: prepare() stops and tells how far each communicator is,
// commit() goes on. What a call contributed is kept, after its end too, as long as another rank may need it again.
//
// Memory per communicator: for every shard, window + small_window places for results, and as many staging buffers.
// Staging of number c is used again for c + W, which is sent only once the result of c is held, hence after c was
// received. A call in place keeps a copy of its input (BlockPool) until it ends; where wire type = data type that copy
// is the staging.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/block_pool.h"
#include "client/call.h"
#include "client/core/communicator_core.h"
#include "client/exchange_path.h"
#include "client/finite_check.h"
#include "client/ring_path.h"
#include "transport/base/region.h"
#include "transport/transport.h"

namespace redsum::client {

// A shard of the epoch's pool, in the order that every member computes alike.
struct ShardAddress {
  std::size_t reducer = 0;  // index in EpochRecord::reducers
  std::uint16_t shard = 0;  // of that reducer
};
// First shards of all reducers, then second ones ...: the shards of one reducer are not neighbours.
std::vector<ShardAddress> shard_order(const std::vector<wire::ReducerInfo>& reducers);

class ProgressAgent final : public transport::LaneSink {
 public:
  using Clock = std::function<TimeNs()>;
  struct Reports {
    // The oldest call of a communicator has made no progress for a while; repeated once a second.
    // `awaits`: of a receive, the rank whose lane is not there yet.
    std::function<void(CommunicatorId, Sequence, const wire::CallDescription&,
                       const std::vector<std::uint32_t>& awaits)>
        on_stall;
    // A lane broke. If nothing else ends the communicators within kLaneGrace, this agent does.
    std::function<void(const wire::ReducerInfo&, const Status&)> on_lane_lost;
    // A communicator was closed by an error; all its calls have ended. `here`: the error arose in this process, so the
    // other members have to be told.
    std::function<void(CommunicatorId, const Status&, bool here)> on_closed;
    // A communicator needs a lane to this rank of the job, for its ring or an exchange: adopt_peer(), or fail_here().
    std::function<void(CommunicatorId, std::uint32_t rank, wire::Purpose)> on_peer_wanted;
    // The rank before in the ring asked for something else in this call.
    std::function<void(CommunicatorId, Sequence)> on_disagreement;
  };
  static constexpr DurationNs kStallAfter = 200 * kMillisecond;
  static constexpr DurationNs kStallAgain = kSecond;
  static constexpr DurationNs kLaneGrace = 5 * kSecond;

  ProgressAgent(Clock clock, Reports reports);
  ~ProgressAgent() override;
  // The transport calls back into this agent and must be destroyed before it.
  void use(transport::Transport& transport) { transport_ = &transport; }

  // -- membership, on the agent's thread
  void enter(const wire::EpochRecord& record);
  // The membership ends: its communicators, lanes and links go, calls still pending end with that error. enter() begins
  // the next one.
  void leave_membership(const Status& pending);
  void adopt(std::size_t shard, std::unique_ptr<transport::Link> link);  // index in shard_order()
  // members[i] = rank in the job of the communicator's rank i.
  Status open_communicator(CommunicatorId id, Rank rank, std::vector<std::uint32_t> members);
  // Lanes between workers: one that was wanted, to this rank of the job, and one that another worker dialled, whose
  // hello names the communicator (it may be opened here later).
  void adopt_peer(CommunicatorId id, std::uint32_t rank, std::unique_ptr<transport::Link> link);
  void adopt_accepted(std::unique_ptr<transport::Link> link);
  void close_communicator(CommunicatorId id, const Status& pending);  // calls still pending end with that error
  // This rank takes part in no more calls; what others may need of it in a new epoch stays until close_communicator().
  // Where calls are pending it closes at once.
  void retire(CommunicatorId id, const Status& pending);
  // Retires the world; communicators that were not retired before end.
  void leave(const Status& pending, const Status& others);
  bool may_be_needed() const;  // something is retired and not closed
  // Closes one communicator (or all) with an error: pending calls end with it, inputs intact, later ones too.
  void fail(CommunicatorId id, const Status& why);
  void fail_all(const Status& why);
  void fail_here(CommunicatorId id, const Status& why);  // as fail(), and the other members are to be told
  void on_stalled(const wire::Stalled& stalled);

  // -- epochs, as the coordinator orders them (progress_epoch.cc)
  std::vector<wire::CommunicatorProgress> prepare();
  // A lane to a shard that was not in the epoch before, or whose lane was lost.
  struct NewLane {
    Incarnation instance = 0;
    std::uint16_t shard = 0;
    std::unique_ptr<transport::Link> link;
  };
  void commit(const wire::Commit& order, std::vector<NewLane> lanes);

  void submit(CommunicatorId id, CallPtr call);
  const wire::CallDescription* describe(CommunicatorId id, Sequence sequence) const;  // of a pending call

  void tick(TimeNs now);  // deadlines, stalls; call when next_deadline() has passed
  TimeNs next_deadline() const { return next_tick_; }
  bool busy() const;  // calls are pending
  // Elements of reductions' results that came here as NaN or infinite. Any thread.
  std::uint64_t nonfinite_results() const { return nonfinite_results_.load(std::memory_order_relaxed); }

  void on_arrival(transport::LaneId lane, const wire::Header& header, Bytes payload) override;
  void on_lane_lost(transport::LaneId lane, const Status& why) override;

 private:
  // Collectives and sends have one each: they match apart.
  struct Exchange {
    wire::Purpose lanes = wire::Purpose::exchange_lane;
    std::unique_ptr<ExchangePath> path;  // from its first use on
    TimeNs blocked_until = kNever;       // a call needs a lane that is lost, and ends then
  };
  // The payload of a contribution, as it was on the wire.
  struct KeptChunk {
    std::byte* block = nullptr;
    std::size_t block_bytes = 0, bytes = 0;
  };
  struct Communicator {
    CommunicatorId id;
    Rank rank;
    std::vector<std::uint32_t> members;      // ranks in the job
    std::unique_ptr<CommunicatorCore> core;  // none where the job has no reducers
    std::unique_ptr<RingPath> ring;          // from its first use on
    Status ring_trouble;                     // a lane of it is lost,
    TimeNs ring_trouble_until = kNever;      // and when calls that need it end
    Exchange exchange{wire::Purpose::exchange_lane, {}}, pairs{wire::Purpose::pair_lane, {}};
    Region memory;
    std::size_t stride = 0, places = 0, shards = 0;
    std::map<std::pair<Sequence, std::uint32_t>, KeptChunk> kept;  // contributions of complete calls
    std::vector<Bytes> redirects;       // by shard and place: the user's memory that awaits the place's next result
    std::map<Sequence, CallPtr> calls;  // pending
    Status closed;                      // not ok: what ended it
    bool retired = false;
    TimeNs last_progress = 0, last_stall_report = 0;
    Sequence stalled_sequence = 0;
    std::vector<std::uint32_t> missing;  // as the coordinator said of stalled_sequence
    std::uint32_t missing_count = 0;

    std::optional<Rank> rank_of(std::uint32_t of_job) const;  // none: it is no member
    std::byte* landing(std::size_t shard, std::size_t place) const;
    std::byte* staging(std::size_t shard, std::size_t place) const;
    Bytes& redirect(std::size_t shard, std::size_t place) { return redirects[shard * places + place]; }
  };
  struct LaneEnd {
    transport::LaneId id;
    bool open = false;
  };

  class RingOwner;
  class ExchangeOwner;

  Communicator* find(CommunicatorId id) const;
  Status open_shards(Communicator& communicator);
  void pump(Communicator& communicator);
  ConstBytes payload_of(Communicator& communicator, Call& call, const ChunkSend& send);
  static Status no_backup(Sequence sequence);
  static bool as_on_wire(const Call& call, const wire::Header& header);
  struct Backup {
    std::uint64_t offset = 0, elements = 0;  // 0: none
  };
  static Backup backup_of(const Communicator& communicator, const Call& call, const ChunkSend& send);
  bool keep_backup(Call& call, std::uint32_t chunk, const Backup& backup);
  void redirect(Communicator& communicator, const Call& call, const ChunkSend& send);
  static void compose(const Call& call, const wire::Header& header, std::uint64_t elements, std::byte* to);
  void deliver(Communicator& communicator, const ChunkResult& result, const std::byte* payload);
  enum class Origin { here, told };
  void end(Communicator& communicator, const Status& why, Origin origin);
  void finish(Communicator& communicator, Sequence sequence);
  void roll_back(Call& call);
  void drop_backups(Call& call);
  Status timeout_error(const Communicator& communicator, const Call& call, TimeNs now) const;
  void check_deadlines(Communicator& communicator, TimeNs now);
  // -- progress_epoch.cc
  void expose(Communicator& communicator);
  bool keep(Communicator& communicator, Call& call);  // what of it may be needed again; false: no memory
  void on_known(Communicator& communicator, const ChunkResult::Known& known);
  void drop_kept(Communicator& communicator);
  void adopt_pool(const wire::Commit& order, std::vector<NewLane> lanes);
  Status place(Communicator& communicator);                // memory for as many shards as there are now
  void expect_loss(std::size_t shard, const Status& why);  // unless the coordinator decides, calls end with it
  // -- progress_ring.cc
  Status open_ring(Communicator& communicator);
  void submit_to_ring(Communicator& communicator, Call& call);
  // False: the lane is none of its ring.
  bool ring_arrival(Communicator& communicator, transport::LaneId lane, const wire::Header& header, Bytes payload);
  bool ring_lane_lost(transport::LaneId lane, const Status& why);
  void after_ring(Communicator& communicator, const Status& status, const RingOwner& owner);
  void pump_ring(Communicator& communicator);
  void settle_rings();
  void check_ring(Communicator& communicator, TimeNs now);
  // -- progress_exchange.cc
  template <typename C>
  static auto& exchange_of(C& communicator, wire::Kind kind) {
    return kind == wire::Kind::send ? communicator.pairs : communicator.exchange;
  }
  template <typename C>
  static auto& exchange_of(C& communicator, wire::Purpose lanes) {
    return lanes == wire::Purpose::pair_lane ? communicator.pairs : communicator.exchange;
  }
  ExchangePath& open_exchange(Communicator& communicator, Exchange& exchange);
  void submit_to_exchange(Communicator& communicator, Call& call);
  void adopt_exchange(Communicator& communicator, Rank peer, bool dialled, std::unique_ptr<transport::Link> link);
  bool exchange_arrival(Communicator& communicator, transport::LaneId lane, const wire::Header& header, Bytes payload);
  bool exchange_lane_lost(transport::LaneId lane, const Status& why);
  void after_exchange(Communicator& communicator, const Status& status, const ExchangeOwner& owner);
  void pump_exchange(Communicator& communicator, Exchange& exchange);
  void settle_exchanges();
  void check_exchanges(Communicator& communicator, TimeNs now);
  static std::vector<std::uint32_t> awaited_lanes(const Communicator& communicator, const Call& call);
  void wake_at(TimeNs when) { next_tick_ = std::min(next_tick_, when); }

  const Clock clock_;
  const Reports reports_;
  transport::Transport* transport_ = nullptr;
  wire::EpochRecord record_;  // of the job's first epoch
  Epoch epoch_;               // now
  bool stopped_ = false;      // from prepare() to commit()
  std::vector<wire::ReducerInfo> reducers_;
  std::vector<ShardAddress> shards_;
  std::vector<std::uint16_t> schedule_;
  std::vector<LaneEnd> lanes_;  // by shard
  std::vector<std::unique_ptr<Communicator>> communicators_;
  BlockPool blocks_;
  FiniteCheck finite_check_;
  std::atomic<std::uint64_t> nonfinite_results_{0};
  std::vector<std::unique_ptr<transport::Link>> early_;  // dialled by others before the communicator is open here
  bool rings_ = false, exchanges_ = false;               // some communicator has one
  TimeNs next_tick_ = kNever;
  TimeNs grace_until_ = kNever;
  Status grace_error_;
  TimeNs last_call_ = 0;
};

}  // namespace redsum::client
