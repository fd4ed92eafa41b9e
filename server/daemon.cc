// SPDX-License-Identifier: Apache-2.0
#include "server/daemon.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "server/admin.h"
#include "server/human.h"
#include "server/launch.h"
#include "server/status_sampler.h"

namespace redsum::server {
namespace {

constexpr DurationNs kEagerPoll = 5 * kMillisecond;  // until ready: a launcher waits for it
constexpr DurationNs kEagerTime = 2 * kSecond;
constexpr DurationNs kPoll = 200 * kMillisecond;

std::string or_auto(std::uint64_t value, const std::string& text) {
  return value == 0 ? "auto" : text;
}

std::string list_text(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, signal);
  return set;
}

// Once drained, ending is all there is to do: a signal now has its default effect and cuts that short.
void give_signals_back() {
  const sigset_t set = ending_signals();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

class Daemon {
 public:
  Daemon(const DaemonConfig& config, const Starters& starters, const SignalSource& next_signal)
      : config_(config), starters_(starters), next_signal_(next_signal), started_(monotonic_now()) {}

  int run() {
    for (const std::string& warning : config_.warnings) log::warn(warning);
    if (const Status started = start(); !started) {
      log::error(started.to_string());
      return 1;
    }
    warn_if(notify_service_manager("READY=1\nSTATUS=listening"));
    const int signal = serve();
    if (signal != 0) drain(signal);
    warn_if(notify_service_manager("STOPPING=1"));
    give_signals_back();
    return 0;
  }

 private:
  Status start() {
    forget_ports_file(config_.ports_file);
    if (config_.has_coordinator) REDSUM_RETURN_IF_ERROR(start_coordinator());
    if (config_.has_reducer) REDSUM_RETURN_IF_ERROR(start_reducer());
    starting_ = false;
    if (!config_.admin_address.empty()) {
      AdminConfig admin;
      admin.address = config_.admin_address;
      auto started = start_admin(admin, [this] { return sampler_.status(); });
      if (!started) return started.error();
      admin_ = std::move(*started);
      addresses_.admin = admin_->address();
      log::info("admin: http://" + addresses_.admin + "/ with /metrics /status /livez /readyz");
    }
    return write_ports(false);
  }

  Status start_coordinator() {
    const CoordinatorConfig& own = config_.coordinator;
    auto started = starters_.coordinator(own);
    if (!started) return started.error();
    coordinator_ = std::move(*started);
    addresses_.control = coordinator_->address();
    const wire::JobSettings& job = own.defaults;
    log::info("coordinator: control " + addresses_.control + ", a silent member is lost after " +
              duration_text(own.heartbeat_timeout) + ", jobs form within " + duration_text(own.formation_timeout) +
              " with at least " + std::to_string(own.min_reducers) + " reducers, chunk " +
              or_auto(job.chunk_bytes, bytes_text(job.chunk_bytes)) + ", window " +
              or_auto(job.window, std::to_string(job.window)));
    return {};
  }

  Status start_reducer() {
    ReducerConfig own = config_.reducer;
    if (own.coordinators.empty()) own.coordinators = {reachable_address(addresses_.control)};
    auto started = starters_.reducer(own);
    if (!started) return started.error();
    reducer_ = std::move(*started);
    addresses_.data = reducer_->data_address();
    char quota[32] = "none";
    if (config_.cpus.quota) std::snprintf(quota, sizeof quota, "%.2f", *config_.cpus.quota);
    log::info("reducer: data " + addresses_.data + ", " + std::to_string(own.shards) + " shards (CPUs allowed: " +
              std::to_string(config_.cpus.allowed) + ", affinity " + std::to_string(config_.cpus.affinity) +
              ", cgroup quota " + quota + "), memory budget " + human_bytes(own.budget_bytes) + " of " +
              human_bytes(config_.memory.allowed_bytes) + " allowed, idle memory is released after " +
              duration_text(own.idle_release) + ", coordinators " + list_text(own.coordinators));
    return {};
  }

  // On the sampler's thread.
  DaemonStatus collect() const {
    DaemonStatus status;
    status.started = started_;
    status.starting = starting_;
    status.draining = draining_;
    if (!status.starting && reducer_) status.reducer = reducer_->snapshot();
    if (!status.starting && coordinator_) status.coordinator = coordinator_->snapshot();
    status.now = monotonic_now();
    return status;
  }

  // Until a signal comes (returned) or the last job of a one-shot daemon has ended (0).
  int serve() {
    const TimeNs begin = monotonic_now();
    bool ready = false;
    for (;;) {
      if (!ready && readiness(sampler_.status()).ok) {
        ready = true;
        log::info("ready");
        warn_if(write_ports(true));
      }
      if (config_.one_shot && jobs_are_over()) {
        log::info("the last job has ended (one_shot)");
        return 0;
      }
      const bool eager = !ready && monotonic_now() - begin < kEagerTime;
      const DurationNs patience = eager ? kEagerPoll : !ready || config_.one_shot ? kPoll : kNever;
      if (const int signal = next_signal_(patience); signal != 0) return signal;
    }
  }

  bool jobs_are_over() {
    const DaemonStatus status = sampler_.status();
    std::uint64_t over = 0;
    std::size_t jobs = 0;
    if (status.reducer) {
      over = status.reducer->jobs_ended;
      jobs = status.reducer->jobs.size();
    }
    if (status.coordinator) {  // it knows best
      over = status.coordinator->jobs_ended + status.coordinator->jobs_failed;
      jobs += status.coordinator->jobs.size();
    }
    return over > 0 && jobs == 0;
  }

  void drain(int signal) {
    log::info("signal " + std::to_string(signal) + ": draining, at most " + duration_text(config_.drain_timeout) +
              "; another signal ends this at once");
    draining_ = true;
    if (reducer_) reducer_->drain();
    const TimeNs deadline = monotonic_now() + config_.drain_timeout;
    for (;;) {
      const bool reducer_done = !reducer_ || reducer_->drained();
      const bool coordinator_done = !coordinator_ || coordinator_->snapshot().jobs.empty();
      if (reducer_done && coordinator_done) {
        log::info("drained");
        break;
      }
      const DurationNs left = deadline - monotonic_now();
      if (left <= 0) {
        log::warn("drain.timeout is over; the jobs that are left lose this daemon");
        break;
      }
      if (const int second = next_signal_(std::min(left, kPoll / 4)); second != 0) {
        std::fprintf(stderr, "redsumd: second signal, ending at once\n");
        std::_Exit(128 + second);
      }
    }
  }

  Status write_ports(bool ready) const {
    return config_.ports_file.empty() ? Status() : write_ports_file(config_.ports_file, addresses_, ready);
  }

  static void warn_if(const Status& status) {
    if (!status) log::warn(status.to_string());
  }

  const DaemonConfig& config_;
  const Starters& starters_;
  const SignalSource& next_signal_;
  const TimeNs started_;
  std::atomic<bool> starting_{true}, draining_{false};
  BoundAddresses addresses_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<Reducer> reducer_;  // leaves the coordinator before that ends
  StatusSampler sampler_{[this] { return collect(); }};
  std::unique_ptr<AdminServer> admin_;  // ends first, then the sampler, then the roles
};

}  // namespace

SignalSource take_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t set = ending_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return [set](DurationNs at_most) {
    const std::timespec time{static_cast<std::time_t>(at_most / kSecond), static_cast<long>(at_most % kSecond)};
    const int signal = at_most == kNever ? ::sigwaitinfo(&set, nullptr) : ::sigtimedwait(&set, nullptr, &time);
    return signal > 0 ? signal : 0;  // EINTR and EAGAIN alike: the caller looks around and waits again
  };
}

int run_daemon(const DaemonConfig& config, const Starters& starters, const SignalSource& next_signal) {
  return Daemon(config, starters, next_signal).run();
}

}  // namespace redsum::server
