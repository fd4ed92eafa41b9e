// SPDX-License-Identifier: Apache-2.0
#include "server/status_sampler.h"

#include <pthread.h>

#include <utility>

namespace redsum::server {

StatusSampler::StatusSampler(std::function<DaemonStatus()> collect, DurationNs patience)
    : collect_(std::move(collect)), patience_(patience) {
  last_.starting = true;
  thread_ = std::thread([this] {
    ::pthread_setname_np(::pthread_self(), "redsum-status");
    run();
  });
}

StatusSampler::~StatusSampler() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

DaemonStatus StatusSampler::status() {
  std::unique_lock lock(mutex_);
  const std::uint64_t mine = begun_ + 1;  // one under way may be older than the question
  asked_ = mine;
  changed_.notify_all();
  const bool fresh = changed_.wait_for(lock, std::chrono::nanoseconds(patience_), [&] { return done_ >= mine; });
  DaemonStatus status = last_;
  if (!fresh) {
    status.now = monotonic_now();
    status.silent = begun_ > done_ ? status.now - begun_at_ : 0;
  }
  return status;
}

void StatusSampler::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || asked_ > begun_; });
    if (stopping_) return;
    const std::uint64_t number = ++begun_;
    begun_at_ = monotonic_now();
    lock.unlock();
    DaemonStatus status = collect_();
    lock.lock();
    last_ = std::move(status);
    done_ = number;
    changed_.notify_all();
  }
}

}  // namespace redsum::server
