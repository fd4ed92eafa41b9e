// SPDX-License-Identifier: Apache-2.0
#include "server/reducer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "server/shard_agent.h"
#include "transport/agent.h"
#include "transport/base/incarnation.h"
#include "transport/base/log.h"
#include "transport/base/thread.h"
#include "transport/control/connection.h"
#include "transport/tcp/address.h"
#include "transport/tcp/tcp.h"

namespace redsum::server {
namespace {

constexpr DurationNs kDialFor = 10 * kSecond;     // one round of attempts to reach a coordinator; then again
constexpr DurationNs kStuckAfter = 10 * kSecond;  // an awake shard that has not turned for so long

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB";
}

// A shard with its thread. Tear-down order: the thread stops, the transport goes, then the agent it called back.
struct Shard {
  Shard(std::size_t index, ShardAgent::OnDisagreement on_disagreement, DurationNs idle_release)
      : agent(monotonic_now, std::move(on_disagreement), idle_release),
        thread("redsum-shard" + std::to_string(index)) {}
  ShardAgent agent;
  AgentThread thread;
  std::unique_ptr<transport::Transport> transport;
  ~Shard() { thread.stop(); }
};

class ReducerRole final : public Reducer {
 public:
  explicit ReducerRole(const ReducerConfig& config) : config_(config) {}
  ~ReducerRole() override;
  Status start();

  ReducerSnapshot snapshot() const override;
  void drain() override;
  bool drained() const override;
  void wait_until_idle(DurationNs limit) override {
    std::unique_lock lock(mutex_);
    idle_.wait_for(lock, std::chrono::nanoseconds(limit), [this] { return job_count_ == 0; });
  }
  std::string data_address() const override { return listener_->address(); }

 private:
  // What the control thread knows of a job.
  struct Job {
    wire::EpochRecord record;
    wire::Key lane_key{};
    std::map<std::uint16_t, std::uint64_t> reserved;  // by communicator
  };

  // -- control thread
  void dial();
  void on_connected(std::shared_ptr<control::Connection> connection);
  void on_lost(const Status& why);
  void on_message(const wire::Message& message);
  void beat();
  void handle(const wire::OpenJob& message);
  void handle(const wire::OpenCommunicator& message);
  void handle(const wire::CloseCommunicator& message);
  void handle(const wire::CloseJob& message);
  void handle(const wire::Enter& message);
  void close_job(const std::string& name);
  Result<wire::Key> key_for(const wire::Hello& hello) const;
  void hand_over(std::unique_ptr<transport::Link> link);
  void send(const wire::Message& message) {
    if (connection_) connection_->send(message);
  }

  const ReducerConfig config_;
  const Incarnation instance_ = new_incarnation();
  std::vector<std::unique_ptr<Shard>> shards_;
  Loop loop_;
  std::unique_ptr<transport::Listener> listener_;
  std::shared_ptr<control::Connection> connection_;
  std::shared_ptr<void> dialing_;
  std::unique_ptr<Timer> timer_;
  TimeNs last_heard_ = 0;
  std::uint64_t beats_ = 0;
  std::string name_;
  std::map<std::string, Job> jobs_;
  std::thread thread_;

  mutable std::mutex mutex_;  // what snapshot() and drained() read
  std::condition_variable idle_;
  bool registered_ = false, draining_ = false;
  std::size_t job_count_ = 0;
  std::uint64_t reserved_bytes_ = 0, jobs_ended_ = 0, rejected_reservations_ = 0;
};

Status ReducerRole::start() {
  for (std::uint32_t index = 0; index < config_.shards; ++index) {
    auto shard = std::make_unique<Shard>(
        index, [this](const wire::Mismatched& report) { loop_.post([=, this] { send(report); }); },
        config_.idle_release);
    auto transport = tcp::make_transport(shard->thread.loop(), shard->agent);
    if (!transport) return transport.error();
    shard->transport = std::move(*transport);
    shard->agent.use(*shard->transport);
    shards_.push_back(std::move(shard));
  }
  auto listener = tcp::make_listener(
      loop_, config_.data_address, instance_, [this](const wire::Hello& hello) { return key_for(hello); },
      [this](std::unique_ptr<transport::Link> link) { hand_over(std::move(link)); });
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  timer_ = std::make_unique<Timer>(loop_);
  name_ = config_.name;
  for (auto& shard : shards_) shard->thread.start(*shard->transport, shard->agent);
  thread_ = start_thread("redsum-reducer", [this] {
    dial();
    beat();
    loop_.run();
  });
  return {};
}

ReducerRole::~ReducerRole() {
  if (thread_.joinable()) {
    loop_.post([this] {
      dialing_.reset();
      timer_.reset();
      if (connection_) connection_->close();
      connection_.reset();
    });
    loop_.stop();
    thread_.join();
  }
  listener_.reset();
  for (auto& shard : shards_) shard->thread.stop();
}

void ReducerRole::dial() {
  control::DialSpec spec;
  spec.addresses = config_.coordinators;
  spec.hello.purpose = wire::Purpose::control_reducer;
  spec.hello.incarnation = instance_;
  spec.key = config_.pool_key;
  spec.deadline = monotonic_now() + kDialFor;
  dialing_ = control::dial(loop_, std::move(spec), [this](Result<std::shared_ptr<control::Connection>> connection) {
    if (connection) return on_connected(std::move(*connection));
    // A wrong secret or version does not mend itself quickly: say so, and try again slowly all the same.
    log::warn("cannot register: " + connection.error().to_string());
    const bool refused = connection.error().code() != Code::timeout;
    timer_->at(monotonic_now() + (refused ? 2 * kSecond : 10 * kMillisecond), [this] {
      dial();
      beat();
    });
  });
}

void ReducerRole::on_connected(std::shared_ptr<control::Connection> connection) {
  connection_ = std::move(connection);
  last_heard_ = monotonic_now();
  connection_->start([this](wire::Message message) { on_message(message); },
                     [this](const Status& why) { on_lost(why); });
  // Workers reach us at the data port, under the name that was configured or the address that the coordinator sees.
  const auto bound = tcp::parse_host_port(listener_->address());
  const auto local = tcp::parse_host_port(connection_->local_address());
  std::string address = config_.advertise;
  if (address.empty() && bound && local) address = tcp::format_host_port(local->host, bound->port);
  if (!address.empty() && bound && !tcp::parse_host_port(address))
    address = tcp::format_host_port(address, bound->port);
  if (name_.empty()) {
    std::lock_guard lock(mutex_);
    name_ = address;
  }
  send(wire::Register{name_, address, static_cast<std::uint16_t>(shards_.size()), config_.budget_bytes, REDSUM_VERSION,
                      config_.job, config_.worker});
  beat();
}

void ReducerRole::on_lost(const Status& why) {
  log::warn("the connection to the coordinator is lost: " + why.to_string() + "; jobs here end, registering again");
  connection_.reset();
  {
    std::lock_guard lock(mutex_);
    registered_ = false;
  }
  while (!jobs_.empty()) close_job(jobs_.begin()->first);
  dial();
}

void ReducerRole::beat() {
  const TimeNs now = monotonic_now();
  if (connection_) {
    if (now - last_heard_ > config_.heartbeat_timeout) {
      const auto silent = std::move(connection_);
      silent->close();
      on_lost({Code::peer_lost, "no heartbeat from the coordinator at " + silent->peer_address() +
                                    " for longer than heartbeat_timeout"});
    } else {
      send(wire::Heartbeat{++beats_});
    }
  }
  timer_->at(now + config_.heartbeat_timeout / 3, [this] { beat(); });
}

void ReducerRole::on_message(const wire::Message& message) {
  last_heard_ = monotonic_now();
  if (const auto* m = std::get_if<wire::OpenJob>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::OpenCommunicator>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::CloseCommunicator>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::CloseJob>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Enter>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Fail>(&message))
    return log::error("the coordinator refused this reducer: " + m->text);
  if (std::holds_alternative<wire::Registered>(message)) {
    log::info("registered as '" + name_ + "' with the coordinator at " + connection_->peer_address());
    std::lock_guard lock(mutex_);
    registered_ = true;
    if (draining_) send(wire::Draining{});
  }
}

void ReducerRole::handle(const wire::OpenJob& message) {
  close_job(message.job);
  Job& job = jobs_[message.job];
  job.record = message.record;
  job.lane_key = wire::lane_key(config_.pool_key, message.job, message.record.lane_nonce);
  for (auto& shard : shards_)
    shard->thread.loop().post([agent = &shard->agent, message] { agent->open_job(message.job, message.record); });
  std::lock_guard lock(mutex_);
  job_count_ = jobs_.size();
}

// Reserves against the budget here, once for all shards, then lets every shard make its places before it says so: a
// worker hears of the communicator only after that.
void ReducerRole::handle(const wire::OpenCommunicator& message) {
  const auto found = jobs_.find(message.job);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  const auto members = static_cast<std::uint32_t>(message.members.size());
  const std::uint64_t need = shards_.size() * reservation_bytes(members, job.record.settings);
  wire::Reserved answer{message.job, message.communicator, need, Code::ok, "", job.record.epoch};
  const std::string what = "communicator " + std::to_string(message.communicator) + " of job '" + message.job + "' (" +
                           std::to_string(members) + " ranks, chunk " +
                           std::to_string(job.record.settings.chunk_bytes) + ", window " +
                           std::to_string(job.record.settings.window) + ")";
  std::unique_lock lock(mutex_);
  if (reserved_bytes_ + need > config_.budget_bytes) {
    ++rejected_reservations_;
    answer.code = Code::resource_exhausted;
    answer.text = "reducer " + name_ + " cannot reserve " + mebibytes(need) + " for " + what + ": " +
                  mebibytes(config_.budget_bytes - std::min(reserved_bytes_, config_.budget_bytes)) + " of its " +
                  mebibytes(config_.budget_bytes) +
                  " are free; raise reducer.memory_budget, or use a smaller chunk or window";
    lock.unlock();
    log::warn(answer.text);
    return send(answer);
  }
  reserved_bytes_ += need;
  lock.unlock();
  job.reserved[message.communicator] = need;
  log::info("reserved " + std::to_string(need) + " bytes (" + mebibytes(need) + ") for " + what);
  auto waiting = std::make_shared<std::size_t>(shards_.size());
  auto result = std::make_shared<wire::Reserved>(answer);
  for (auto& shard : shards_) {
    shard->thread.loop().post([this, agent = &shard->agent, message, waiting, result] {
      const Status status =
          agent->open_communicator(message.job, CommunicatorId(message.communicator), message.members);
      loop_.post([this, waiting, result, status] {
        if (!status) {
          result->code = status.code();
          result->text = status.text();
        }
        if (--*waiting == 0) send(*result);
      });
    });
  }
}

void ReducerRole::handle(const wire::CloseCommunicator& message) {
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end()) return;
  const auto reserved = job->second.reserved.find(message.communicator);
  if (reserved == job->second.reserved.end()) return;
  for (auto& shard : shards_)
    shard->thread.loop().post([agent = &shard->agent, message] {
      agent->close_communicator(message.job, CommunicatorId(message.communicator));
    });
  std::lock_guard lock(mutex_);
  reserved_bytes_ -= reserved->second;
  job->second.reserved.erase(reserved);
}

void ReducerRole::handle(const wire::Enter& message) {
  const auto job = jobs_.find(message.job);
  if (job == jobs_.end()) return;
  job->second.record.epoch = message.epoch;
  auto waiting = std::make_shared<std::size_t>(shards_.size());
  for (auto& shard : shards_)
    shard->thread.loop().post([this, agent = &shard->agent, message, waiting] {
      agent->enter(message.job, message.epoch);
      loop_.post([this, message, waiting] {
        if (--*waiting == 0) send(wire::Entered{message.job, message.epoch});
      });
    });
}

void ReducerRole::handle(const wire::CloseJob& message) {
  log::info("job '" + message.job + "' ended" + (message.reason.empty() ? "" : ": " + message.reason));
  close_job(message.job);
}

void ReducerRole::close_job(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  for (auto& shard : shards_) shard->thread.loop().post([agent = &shard->agent, name] { agent->close_job(name); });
  std::lock_guard lock(mutex_);
  for (const auto& [communicator, bytes] : found->second.reserved) reserved_bytes_ -= bytes;
  jobs_.erase(found);
  job_count_ = jobs_.size();
  ++jobs_ended_;
  idle_.notify_all();
}

Result<wire::Key> ReducerRole::key_for(const wire::Hello& hello) const {
  const auto job = jobs_.find(hello.job);
  if (hello.purpose != wire::Purpose::lane || job == jobs_.end())
    return failure(Code::auth_failed, "reducer " + name_ + " knows no job of that name");
  if (hello.shard >= shards_.size())
    return failure(Code::invalid_argument, "reducer " + name_ + " has " + std::to_string(shards_.size()) +
                                               " shards, asked for " + std::to_string(hello.shard));
  return job->second.lane_key;
}

void ReducerRole::hand_over(std::unique_ptr<transport::Link> link) {
  Shard& shard = *shards_[link->hello().shard];
  auto shared = std::make_shared<std::unique_ptr<transport::Link>>(std::move(link));
  shard.thread.loop().post([agent = &shard.agent, shared] { agent->adopt(std::move(*shared)); });
}

void ReducerRole::drain() {
  loop_.post([this] {
    {
      std::lock_guard lock(mutex_);
      draining_ = true;
    }
    send(wire::Draining{});
  });
}

bool ReducerRole::drained() const {
  std::lock_guard lock(mutex_);
  return draining_ && job_count_ == 0;
}

ReducerSnapshot ReducerRole::snapshot() const {
  ReducerSnapshot result;
  const TimeNs now = monotonic_now();
  for (const auto& shard : shards_) {
    // A shard that does not turn must not hold up the admin plane: its numbers are left out until it does.
    const bool stuck = !shard->thread.asleep() && now - shard->thread.last_turn() > kStuckAfter;
    result.stuck = result.stuck || stuck;
    result.last_progress = std::max(result.last_progress, shard->thread.last_turn());
    ShardCounters counters;
    if (!stuck)
      shard->thread.call([&] {
        counters = shard->agent.counters();
        const transport::Transport::Counters moved = shard->transport->counters();
        counters.bytes_received = moved.bytes_received;
        counters.bytes_sent = moved.bytes_sent;
        counters.frames_received = moved.frames_received;
        counters.frames_sent = moved.frames_sent;
        counters.frames_dropped = moved.frames_dropped;
        for (JobOnReducer& job : shard->agent.jobs()) merge(result.jobs, std::move(job));
      });
    counters.busy_ns = shard->thread.busy_ns();
    result.shards.push_back(counters);
  }
  result.data_address = listener_->address();
  result.instance = instance_;
  result.budget_bytes = config_.budget_bytes;
  std::lock_guard lock(mutex_);
  result.name = name_.empty() ? result.data_address : name_;
  result.registered = registered_;
  result.draining = draining_;
  result.reserved_bytes = reserved_bytes_;
  result.jobs_ended = jobs_ended_;
  result.rejected_reservations = rejected_reservations_;
  return result;
}

}  // namespace

Result<std::unique_ptr<Reducer>> start_reducer(const ReducerConfig& config) {
  if (config.shards == 0) return failure(Code::invalid_argument, "a reducer needs at least one shard");
  auto role = std::make_unique<ReducerRole>(config);
  if (Status status = role->start(); !status) return failure(std::move(status));
  return std::unique_ptr<Reducer>(std::move(role));
}

}  // namespace redsum::server
