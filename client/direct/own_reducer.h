// SPDX-License-Identifier: Apache-2.0
// Direct mode: a worker brings a reducer that serves its job alone, inside its own process. The n workers' reducers are
// the job's pool, so everything else (windows, folds, bits, errors) is as in server mode. Any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/transport.h"
#include "transport/wire/handshake.h"

namespace redsum::client {

struct OwnReducerSpec {
  std::string job;
  std::uint32_t rank = 0;  // that the worker was started with, for its name
  Incarnation worker = 0;
  std::vector<std::string> coordinators;  // host:port
  std::string data_address;               // host[:port] to listen on; empty: where the coordinator is reached from
  wire::Key pool_key{};
  bool guarded = false;  // there is a secret, or its absence is wanted: required for any address but loopback
  DurationNs heartbeat_timeout = 3 * kSecond;
  std::string advertise;  // host by which others reach it; empty: this end of the connection to the coordinator
};

class OwnReducer {
 public:
  virtual ~OwnReducer() = default;  // stops; peers that still need it lose the job
  // The other workers may need it after this one has all its results. Returns when the coordinator has ended the job
  // here, at the latest after `limit`.
  virtual void wait_until_idle(DurationNs limit) = 0;
  virtual transport::Transport::Counters counters() const = 0;  // of its lanes
};

// Registers in the background. Errors: invalid_argument, auth_failed (a port for everybody, and no secret),
// resource_exhausted (the address is in use).
Result<std::unique_ptr<OwnReducer>> start_own_reducer(const OwnReducerSpec& spec);

}  // namespace redsum::client
