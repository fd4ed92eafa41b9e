// SPDX-License-Identifier: Apache-2.0
// Stands between those who ask for the daemon's status and the roles: a snapshot is collected on a thread of its own,
// so that a frozen shard holds up nobody, and its silence can be told. Idle while nobody asks.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "server/admin_status.h"

namespace redsum::server {

class StatusSampler {
 public:
  // `collect` runs on the sampler's thread, one call at a time; it may block for as long as a role does.
  explicit StatusSampler(std::function<DaemonStatus()> collect, DurationNs patience = 500 * kMillisecond);
  ~StatusSampler();  // waits for a collection under way

  // Any thread. A snapshot begun after the call, or the last one after `patience`, with DaemonStatus::silent set.
  DaemonStatus status();

 private:
  void run();

  const std::function<DaemonStatus()> collect_;
  const DurationNs patience_;
  std::mutex mutex_;
  std::condition_variable changed_;
  DaemonStatus last_;
  std::uint64_t asked_ = 0, begun_ = 0, done_ = 0;  // numbers of collections
  TimeNs begun_at_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace redsum::server
