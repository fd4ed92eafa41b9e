// SPDX-License-Identifier: Apache-2.0
// The coordinator role of a daemon: one thread that knows who is there, forms jobs, opens communicators and tells
// everybody when somebody is lost. Off the data path. All functions may be called from any thread.
#pragma once
#include <memory>
#include <string>

#include "server/snapshot.h"
#include "transport/base/status.h"
#include "transport/wire/control.h"
#include "transport/wire/handshake.h"

namespace redsum::server {

struct CoordinatorConfig {
  std::string address = "127.0.0.1:7400";
  wire::Key pool_key{};
  DurationNs heartbeat_timeout = 3 * kSecond;
  DurationNs formation_timeout = 60 * kSecond;  // from a job's first join until every rank has joined
  std::uint32_t min_reducers = 1;               // a job is formed once so many are registered
  wire::JobSettings defaults;                   // zero fields: chosen from the world size
};

class Coordinator {
 public:
  virtual ~Coordinator() = default;  // closes every connection
  virtual CoordinatorSnapshot snapshot() const = 0;
  virtual std::string address() const = 0;  // as bound, with the real port
};

// resource_exhausted when the address is in use, naming it.
Result<std::unique_ptr<Coordinator>> start_coordinator(const CoordinatorConfig& config);

}  // namespace redsum::server
