// SPDX-License-Identifier: Apache-2.0
// The reducer role of a daemon: T shard threads that sum, and one control thread that registers with the coordinator,
// takes lanes in and hands them to their shard. All functions may be called from any thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "server/snapshot.h"
#include "transport/base/status.h"
#include "transport/wire/handshake.h"

namespace redsum::server {

struct ReducerConfig {
  std::string name;  // unique in the pool; empty: host:port
  std::string data_address = "127.0.0.1:7401";
  std::string advertise;     // host[:port] by which workers reach us; empty: our end of the control connection
  std::uint32_t shards = 1;  // threads
  std::uint64_t budget_bytes = 1ull << 30;  // for all jobs' slots
  std::vector<std::string> coordinators;    // host:port
  wire::Key pool_key{};
  DurationNs heartbeat_timeout = 3 * kSecond;
  DurationNs idle_release = 60 * kSecond;  // pages of a communicator idle for so long are given back
  std::string job;                         // not empty: for this job alone,
  Incarnation worker = 0;                  // as the reducer of this worker of it
};

class Reducer {
 public:
  virtual ~Reducer() = default;  // stops, closes every lane
  virtual ReducerSnapshot snapshot() const = 0;
  virtual void drain() = 0;          // no new job here; running jobs go on
  virtual bool drained() const = 0;  // draining, and no job left
  // Returns when no job is left here, or after `limit`.
  virtual void wait_until_idle(DurationNs limit) = 0;
  virtual std::string data_address() const = 0;
};

// resource_exhausted when the data address is in use. Registers in the background, again and again.
Result<std::unique_ptr<Reducer>> start_reducer(const ReducerConfig& config);

}  // namespace redsum::server
