// SPDX-License-Identifier: Apache-2.0
// The thread around CoordinatorCore: connections and time in, effects out.
#include "server/coordinator.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "server/core/coordinator_core.h"
#include "transport/base/log.h"
#include "transport/control/connection.h"
#include "transport/loop/loop.h"

namespace redsum::server {
namespace {

constexpr DurationNs kPulse = kSecond;  // an idle coordinator shows so often that it is alive

CoordinatorOptions options_of(const CoordinatorConfig& config) {
  CoordinatorOptions options;
  options.heartbeat_timeout = config.heartbeat_timeout;
  options.formation_timeout = config.formation_timeout;
  options.min_reducers = config.min_reducers;
  options.defaults = config.defaults;
  options.seed = wire::random_nonce();
  return options;
}

class CoordinatorThread final : public Coordinator {
 public:
  explicit CoordinatorThread(const CoordinatorConfig& config) : core_(options_of(config)), timer_(loop_) {}

  ~CoordinatorThread() override {
    if (!thread_.joinable()) return;
    loop_.stop();
    thread_.join();
  }

  Status start(const CoordinatorConfig& config) {
    auto acceptor = control::listen(loop_, config.address, config.pool_key,
                                    [this](std::shared_ptr<control::Connection> c) { on_connection(std::move(c)); });
    if (!acceptor) return acceptor.error();
    acceptor_ = std::move(*acceptor);
    address_ = acceptor_->address();
    publish();
    arm();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "redsum-coord");
      loop_.run();
    });
    return {};
  }

  std::string address() const override { return address_; }

  CoordinatorSnapshot snapshot() const override {
    const std::lock_guard lock(mutex_);
    CoordinatorSnapshot copy = snapshot_;
    copy.last_progress = last_progress_.load(std::memory_order_relaxed);
    return copy;
  }

 private:
  void on_connection(std::shared_ptr<control::Connection> connection) {
    const PeerId id(++last_peer_);
    control::Connection& peer = *connection;
    connections_.emplace(id, std::move(connection));
    core_.on_connected(id, peer.hello(), peer.peer_address(), monotonic_now(), effects_);
    carry_out();
    if (!connections_.contains(id)) return;
    peer.start(
        [this, id](const wire::Message& message) {
          core_.on_message(id, message, monotonic_now(), effects_);
          carry_out();
        },
        [this, id](const Status& why) {
          connections_.erase(id);
          core_.on_lost(id, why, monotonic_now(), effects_);
          carry_out();
        });
  }

  void on_timer() {
    core_.tick(monotonic_now(), effects_);
    stale_ = true;  // the acceptor's count is not the core's
    carry_out();
  }

  void carry_out() {
    for (const CoordinatorEffects::Send& send : effects_.sends) deliver(send);
    for (const PeerId id : effects_.closes) {
      const auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      found->second->close();
      connections_.erase(found);
    }
    for (const CoordinatorEffects::Note& note : effects_.notes) log::write(note.level, note.text);
    effects_.clear();
    last_progress_.store(monotonic_now(), std::memory_order_relaxed);
    if (std::exchange(seen_changes_, core_.changes()) != core_.changes()) stale_ = true;
    if (stale_ && !publishing_) {  // once for all that is ready now
      publishing_ = true;
      loop_.post([this] {
        publishing_ = false;
        publish();
      });
    }
    arm();
  }

  void deliver(const CoordinatorEffects::Send& send) {
    std::shared_ptr<const std::string> text;
    for (const PeerId id : send.to) {
      const auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      if (!text) text = std::make_shared<const std::string>(wire::encode(send.message));
      found->second->send_encoded(text);
    }
  }

  void arm() {
    const TimeNs when = std::min(core_.next_deadline(), monotonic_now() + kPulse);
    if (armed_until_ <= when) return;  // it comes early enough
    armed_until_ = when;
    timer_.at(when, [this] {
      armed_until_ = kNever;
      on_timer();
    });
  }

  void publish() {
    stale_ = false;
    CoordinatorSnapshot now;
    now.address = address_;
    now.reducers = core_.reducers();
    for (JobStatus& job : core_.jobs())
      now.jobs.push_back({std::move(job.job), std::string(job_state_name(job.state)), job.world_size, job.joined,
                          job.communicators, job.epoch, std::move(job.workers), std::move(job.missing),
                          std::move(job.last_error), job.since});
    const CoordinatorCounters& counters = core_.counters();
    now.jobs_formed = counters.jobs_formed;
    now.epochs_opened = counters.epochs_opened;
    now.jobs_ended = counters.jobs_ended;
    now.jobs_failed = counters.jobs_failed;
    now.rejected_handshakes = acceptor_->rejected();
    for (std::size_t code = 0; code < counters.failures.size(); ++code)
      if (counters.failures[code] > 0)
        now.failures.emplace_back(code_name(static_cast<Code>(code)), counters.failures[code]);
    const std::lock_guard lock(mutex_);
    snapshot_ = std::move(now);
  }

  Loop loop_;  // outlives what lives on it
  CoordinatorCore core_;
  Timer timer_;
  CoordinatorEffects effects_;
  std::map<PeerId, std::shared_ptr<control::Connection>> connections_;
  std::unique_ptr<control::Acceptor> acceptor_;
  std::string address_;
  std::uint64_t last_peer_ = 0;
  std::uint64_t seen_changes_ = 0;
  TimeNs armed_until_ = kNever;
  bool stale_ = false, publishing_ = false;

  mutable std::mutex mutex_;  // of snapshot_
  CoordinatorSnapshot snapshot_;
  std::atomic<TimeNs> last_progress_{monotonic_now()};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Coordinator>> start_coordinator(const CoordinatorConfig& config) {
  auto coordinator = std::make_unique<CoordinatorThread>(config);
  if (Status started = coordinator->start(config); !started) return failure(std::move(started));
  return coordinator;
}

}  // namespace redsum::server
