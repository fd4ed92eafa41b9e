// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include "client/call_arguments.h"
#include "client/exchange_arguments.h"

namespace redsum::sim {
namespace {

using server::PeerId;

// Passes everything on; one contribution, chosen by the seed, goes out twice.
class RepeatingTransport final : public transport::Transport {
 public:
  RepeatingTransport(transport::Transport& inner, std::uint64_t which, bool& repeated)
      : inner_(inner), which_(which), repeated_(repeated) {}
  transport::LaneId adopt(std::unique_ptr<transport::Link> link) override { return inner_.adopt(std::move(link)); }
  void expose(transport::LaneId lane, CommunicatorId id, const transport::PlaceTable& places) override {
    inner_.expose(lane, id, places);
  }
  void hide(transport::LaneId lane, CommunicatorId id) override { inner_.hide(lane, id); }
  bool deposit(transport::LaneId lane, const wire::Header& header, ConstBytes payload) override {
    if (!inner_.deposit(lane, header, payload)) return false;
    const std::uint64_t number = of_lane_[lane]++;
    if (deposits_++ == which_) {
      repeated_ = true;
      if (inner_.deposit(lane, header, payload)) repeats_[lane] = number;
    }
    return true;
  }
  // The owner's payload is done when both frames with it are.
  std::uint64_t sent(transport::LaneId lane) const override {
    const std::uint64_t inner = inner_.sent(lane);
    const auto repeat = repeats_.find(lane);
    return inner == kAllSent || repeat == repeats_.end() || inner <= repeat->second ? inner : inner - 1;
  }
  bool drained(transport::LaneId lane) const override { return inner_.drained(lane); }
  bool landing(transport::LaneId lane) const override { return inner_.landing(lane); }
  void close(transport::LaneId lane) override { inner_.close(lane); }
  std::string peer_address(transport::LaneId lane) const override { return inner_.peer_address(lane); }
  std::size_t poll() override { return inner_.poll(); }
  bool arm() override { return inner_.arm(); }
  Counters counters() const override { return inner_.counters(); }

 private:
  transport::Transport& inner_;
  const std::uint64_t which_;
  std::uint64_t deposits_ = 0;
  std::map<transport::LaneId, std::uint64_t> of_lane_;  // deposits on each lane
  std::map<transport::LaneId, std::uint64_t> repeats_;  // where one went out twice: its number, from 0
  bool& repeated_;
};

// One seed after another, so that a run of many has each of them often enough: see coverage.h.
constexpr Fault kFaultOfSeed[] = {
    Fault::none,          Fault::kill_reducer, Fault::slow_rank,      Fault::lose_worker,
    Fault::stalls,        Fault::kill_worker,  Fault::kill_reducer,   Fault::cut_lane,
    Fault::drain_reducer, Fault::mismatch,     Fault::refused_memory, Fault::add_reducer,
    Fault::absent_rank,   Fault::kill_reducer, Fault::duplicate,      Fault::silent_worker};

}  // namespace

const char* fault_name(Fault fault) {
  constexpr const char* kNames[kFaultCount] = {
      "none",      "slow_rank",     "stalls",         "kill_worker", "kill_reducer", "cut_lane",      "mismatch",
      "duplicate", "silent_worker", "refused_memory", "absent_rank", "add_reducer",  "drain_reducer", "lose_worker"};
  return kNames[static_cast<int>(fault)];
}

std::optional<Fault> fault_of(std::string_view name) {
  for (int fault = 0; fault < kFaultCount; ++fault)
    if (name == fault_name(static_cast<Fault>(fault))) return static_cast<Fault>(fault);
  return std::nullopt;
}

World::World(std::uint64_t seed, Coverage& coverage, bool verbose, std::optional<Fault> fault)
    : net_(seed), random_(net_.random()), coverage_(coverage), verbose_(verbose), core_(options_) {
  fault_ = fault ? *fault : kFaultOfSeed[seed % std::size(kFaultOfSeed)];
  build();
}

World::~World() = default;

void World::say(const std::string& what) const {
  if (verbose_) std::printf("%12.6f ms  %s\n", static_cast<double>(net_.now()) * 1e-6, what.c_str());
}

void World::build() {
  const bool needs_two = fault_ == Fault::lose_worker || fault_ == Fault::absent_rank || fault_ == Fault::mismatch;
  world_size_ = static_cast<std::uint32_t>(random_.between(needs_two ? 2 : 1, 5));
  settings_.chunk_bytes = 4096;
  settings_.window = static_cast<std::uint16_t>(random_.between(1, 4));
  settings_.small_window = static_cast<std::uint16_t>(random_.between(1, 4));
  settings_.small_bytes = random_.chance(50) ? 1024 : 4096;
  const bool of_pool = fault_ == Fault::kill_reducer || fault_ == Fault::add_reducer ||
                       fault_ == Fault::drain_reducer || fault_ == Fault::refused_memory;
  settings_.mode = random_.chance(of_pool ? 5 : 30) ? wire::Mode::ring : wire::Mode::server;
  settings_.ring_order = random_.chance(50) ? wire::RingOrder::ring : wire::RingOrder::rank;
  settings_.fallback = random_.chance(50) ? wire::Fallback::none : wire::Fallback::direct;
  if (fault_ == Fault::lose_worker) settings_.min_workers = 1;
  one_cannot_bring_ = random_.chance(20);
  Delay weather;
  weather.most_ns = static_cast<DurationNs>(random_.between(6, 400)) * kMicrosecond;
  weather.per_kib_ns = static_cast<DurationNs>(random_.below(3000));
  net_.set_default_delay(weather);
  const bool changes = fault_ == Fault::add_reducer || fault_ == Fault::drain_reducer;
  const bool recovers = changes || fault_ == Fault::cut_lane || (fault_ == Fault::kill_reducer && random_.chance(80));
  ring_percent_ = settings_.mode == wire::Mode::ring ? 100 : random_.chance(50) ? 0 : 40;
  Membership& first = memberships_.emplace_back();
  first.size = world_size_;
  draw_calls(first, recovers || fault_ == Fault::lose_worker || fault_ == Fault::duplicate ? random_.between(8, 30)
                                                                                           : random_.between(1, 10));
  coverage_.add(settings_.mode == wire::Mode::ring ? "jobs in ring mode"
                : rings_                           ? "jobs in both modes"
                                                   : "jobs in server mode");
  victim_ = static_cast<std::uint32_t>(random_.below(world_size_));
  bad_call_ = random_.below(first.script.size());

  const std::size_t reducers = random_.between(recovers && !changes ? 2 : 1, 3), shards = random_.between(1, 2);
  while (reducers_.size() < reducers) build_reducer(shards);
  for (std::uint32_t rank = 0; rank < world_size_; ++rank) build_worker(rank, 5000 + rank);
  // Where one lags behind, the others have completed calls that it needs them for again.
  if (recovers && random_.chance(50))
    net_.set_wake_delay(workers_[victim_]->endpoint->id(), 100 * kMicrosecond, 3 * kMillisecond);
}

// The second communicator and the calls.
void World::draw_calls(Membership& membership, std::size_t calls) {
  std::vector<std::uint32_t>& sub = membership.sub;
  if (membership.size > 1 && random_.chance(50)) {
    for (std::uint32_t rank = 0; rank < membership.size; ++rank)
      if (random_.chance(60)) sub.push_back(rank);
    if (sub.size() > 1 && random_.chance(50)) std::swap(sub.front(), sub.back());  // ranks in another order
  }
  membership.script =
      draw_script(random_, calls, membership.size, sub.empty() ? 1 : 2, sub.size(), settings_.chunk_bytes);
  for (PlannedCall& planned : membership.script)
    if (wire::is_exchange(planned.call.kind))
      peer_lanes_ = true;
    else if (random_.chance(ring_percent_))
      planned.call.via = wire::Via::ring, rings_ = peer_lanes_ = true;
}

World::Worker& World::build_worker(std::uint32_t launched_as, Incarnation incarnation) {
  auto worker = std::make_unique<Worker>();
  worker->launched_as = worker->rank = launched_as;
  worker->incarnation = incarnation;
  worker->in = &memberships_.front();
  worker->peer = PeerId(100 + workers_.size());
  worker->agent = std::make_unique<client::ProgressAgent>([this] { return net_.now(); }, reports(*worker));
  worker->endpoint = net_.make_endpoint(*worker->agent, "worker" + std::to_string(workers_.size()));
  transport::Transport* transport = worker->endpoint.get();
  if (fault_ == Fault::duplicate && launched_as == victim_) {
    worker->repeating = std::make_unique<RepeatingTransport>(*transport, random_.below(3), fault_done_);
    transport = worker->repeating.get();
  }
  worker->agent->use(*transport);
  worker->endpoint->on_wake([this, p = worker.get()] { run_agent(*p); });
  workers_.push_back(std::move(worker));
  return *workers_.back();
}

World::ReducerProcess& World::build_reducer(std::size_t shards) {
  auto reducer = std::make_unique<ReducerProcess>();
  reducer->index = reducers_.size();
  reducer->peer = PeerId(1000 + reducer->index);
  reducer->shards.resize(shards);
  for (Shard& shard : reducer->shards) {
    auto report = [this, p = reducer.get()](const wire::Mismatched& differ) {
      to_coordinator(p->to_coordinator, p->peer, differ);
    };
    shard.agent = std::make_unique<server::ShardAgent>([this] { return net_.now(); }, report, 5 * kMillisecond);
    shard.endpoint = net_.make_endpoint(*shard.agent, "reducer" + std::to_string(reducer->index));
    shard.agent->use(*shard.endpoint);
    shard.endpoint->on_wake([this, p = reducer.get(), &shard] { run_agent(*p, shard); });
  }
  reducers_.push_back(std::move(reducer));
  return *reducers_.back();
}

void World::run_agent(Worker& worker) {
  if (!worker.alive || worker.silent) return;
  do {
    while (worker.endpoint->poll() != 0) {
    }
    worker.agent->tick(net_.now());
  } while (!worker.endpoint->arm());
  const TimeNs due = worker.agent->next_deadline();
  if (due == kNever || (worker.tick_at != kNever && worker.tick_at <= due && worker.tick_at > net_.now())) return;
  worker.tick_at = due;
  net_.at(due, [this, &worker] { run_agent(worker); });
}

void World::run_agent(ReducerProcess& reducer, Shard& shard) {
  if (!reducer.alive) return;
  do {
    while (shard.endpoint->poll() + shard.agent->do_work(net_.now()) != 0) {
    }
  } while (!shard.endpoint->arm());
  const TimeNs due = shard.agent->next_deadline();
  if (due == kNever || (shard.tick_at != kNever && shard.tick_at <= due && shard.tick_at > net_.now())) return;
  shard.tick_at = due;
  net_.at(due, [this, &reducer, &shard] { run_agent(reducer, shard); });
}

void World::fill_tensors(Submitted& submitted, client::Call& call) const {
  const PlannedCall& planned = submitted.plan();
  const std::uint32_t rank = submitted.rank_in_group();
  const std::size_t element = dtype_bytes(planned.call.dtype);
  std::byte* in = submitted.input.data();
  std::byte* out = planned.in_place ? in : submitted.output.data();
  if (wire::is_exchange(planned.call.kind)) return fill_exchange(submitted, in, out, call);
  if (wire::has_parts(planned.call.kind)) {
    const std::uint32_t members = submitted.members();
    const std::size_t own = part_of(planned, members, rank).first;
    const bool scatters = planned.call.kind == wire::Kind::reduce_scatter;
    const std::vector<std::uint64_t>& parts = planned.call.parts;
    const Status status = client::fill_parts({in + (scatters ? 0 : own), out + (scatters ? own : 0),
                                              planned.call.count / members, parts.empty() ? nullptr : parts.data()},
                                             rank, members, call);
    if (!status) throw Broken("harness", "buffers are refused: " + status.to_string());
    return;
  }
  std::uint64_t first = 0;
  for (const std::uint64_t count : planned.pieces) {
    if (count != 0) call.tensors.push_back({in + first * element, out + first * element, count, first});
    first += count;
  }
}

void World::fill_exchange(const Submitted& submitted, const std::byte* in, std::byte* out, client::Call& call) const {
  const PlannedCall& planned = submitted.plan();
  const std::uint32_t rank = submitted.rank_in_group(), members = submitted.members();
  std::vector<std::uint64_t> sends, receives;
  client::ExchangeArguments given;
  given.input = in;
  given.output = out;
  for (std::uint32_t peer = 0; peer < members; ++peer) {
    sends.push_back(planned.pairs[rank * members + peer]);
    receives.push_back(planned.pairs[peer * members + rank]);
    if (planned.call.kind == wire::Kind::send && sends.back() + receives.back() != 0) given.peer = peer;
  }
  const bool sender = sends[given.peer] != 0;
  Status status;
  switch (planned.call.kind) {
    case wire::Kind::all_to_all:
      given.input_counts = sends.data();
      given.output_counts = receives.data();
      status = client::fill_all_to_all(given, rank, members, call);
      break;
    case wire::Kind::send:
      given.count = planned.call.count;
      status =
          sender ? client::fill_send(given, rank, members, call) : client::fill_receive(given, rank, members, call);
      break;
    default:
      given.count = planned.call.count / members;
      given.peer = planned.call.root;
      status = planned.call.kind == wire::Kind::gather ? client::fill_gather(given, rank, members, call)
                                                       : client::fill_scatter(given, rank, members, call);
  }
  if (!status) throw Broken("harness", "an exchange is refused: " + status.to_string());
}

// The next call of the script that is this worker's business.
std::size_t World::next_of(const Worker& worker) const {
  const Membership& in = *worker.in;
  std::size_t next = worker.next;
  for (; next < in.script.size(); ++next) {
    const std::size_t group = in.script[next].group;
    if (in.has(group, worker.rank) && in.script[next].takes_part(in.rank_in(group, worker.rank), in.members_of(group)))
      break;
  }
  return next;
}

void World::submit_next(Worker& worker) {
  worker.next = next_of(worker);
  if (fault_ == Fault::absent_rank && worker.rank == victim_ && worker.next >= bad_call_ && world_size_ > 1) {
    fault_done_ = true;
    worker.next = worker.in->script.size();
  }
  if (!worker.alive) return;
  if (worker.next == worker.in->script.size()) return admit_at_the_end(worker);
  const PlannedCall& planned = worker.in->script[worker.next];
  if (!worker.group_open[planned.group]) return;  // goes on when it is created
  auto owned = std::make_unique<Submitted>();
  Submitted& submitted = *owned;
  submitted.of = worker.in;
  submitted.rank = worker.rank;
  submitted.planned = worker.next++;
  submitted.input = input_of(planned, submitted.rank_in_group());
  const bool exchange = wire::is_exchange(planned.call.kind);
  if (exchange)
    submitted.output.resize(expected_of(planned, submitted.members(), submitted.rank_in_group(), settings_).size());
  else if (!planned.in_place)
    submitted.output.resize(submitted.input.size());
  submitted.before = submitted.input;
  auto call = std::make_shared<client::Call>();
  call->description = planned.call;
  if (fault_ == Fault::mismatch && worker.rank == victim_ && submitted.planned == bad_call_) {
    fault_done_ = true;
    if (exchange)
      call->description.key = "another";
    else if (settings_.mode != wire::Mode::ring && random_.chance(20))
      call->description.via = planned.call.via == wire::Via::ring ? wire::Via::reducers : wire::Via::ring;
    else if (planned.call.kind != wire::Kind::allreduce && !wire::has_parts(planned.call.kind))
      call->description.kind = wire::Kind::allreduce;
    else
      call->description.op = planned.call.op == Op::sum ? Op::max : Op::sum;
  }
  call->in_place = planned.in_place;
  call->sequence = planned.call.kind == wire::Kind::send ? client::kOwnSequences | worker.own_sequences[planned.group]++
                                                         : worker.sequences[planned.group]++;
  if (exchange) coverage_.add("exchanges");
  call->submitted = net_.now();
  call->timeout = (fault_ == Fault::absent_rank ? 2 : 60) * kSecond;
  call->deadline = net_.now() + call->timeout;
  fill_tensors(submitted, *call);
  call->on_complete([this, &worker, &submitted](const Status& status) { on_end(worker, submitted, status); });
  submitted.call = call;
  worker.calls.push_back(std::move(owned));
  worker.agent->submit(CommunicatorId(worker.group_ids[planned.group]), call);
  run_agent(worker);
  if (!planned.wait_for_it) submit_later(worker);
}

void World::submit_later(Worker& worker) {
  net_.at(net_.now() + static_cast<DurationNs>(random_.below(300)) * kMicrosecond, [this, &worker, in = worker.in] {
    if (worker.in == in) submit_next(worker);
  });
}

bool World::finished() const {
  for (const auto& worker : workers_) {
    if (!worker->alive || worker->silent) continue;
    if (!worker->joined && worker->join_error.ok() && worker->incarnation < 6000) return false;
    if (!worker->join_error.ok() || !worker->joined) continue;
    if (!through(*worker)) return false;
  }
  return true;
}

void World::run() {
  start_control();
  net_.at(net_.now() + static_cast<DurationNs>(random_.below(12'000)) * kMicrosecond,
          [this] { inject_when_running(); });
  constexpr DurationNs kLimit = 120 * kSecond;
  if (!net_.run_until([this] { return finished(); }, net_.now() + kLimit))
    throw Broken("end", "not finished after 120 s of virtual time");
  check();
  leave_and_check();
  coverage_.add(std::string("fault ") + fault_name(fault_));
  if (fault_done_) coverage_.add(std::string("fault hit ") + fault_name(fault_));
  if (recovered_) coverage_.add("seeds that recovered inside a call");
  coverage_.add("events", net_.events());
}

}  // namespace redsum::sim
