// SPDX-License-Identifier: Apache-2.0
// How a process joins a job: the C struct's values, owned, checked, with what the environment says.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "client/redsum.h"
#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/tcp/interfaces.h"
#include "transport/wire/control.h"
#include "transport/wire/handshake.h"

namespace redsum::client {

struct Options {
  std::vector<std::string> coordinators;
  std::string job_id;
  wire::Key pool_key{};
  std::uint32_t rank = 0, world_size = 1;
  std::uint32_t chunk_bytes = 0;
  std::uint16_t window = 0;
  wire::Mode mode = wire::Mode::server;
  wire::RingOrder ring_order = wire::RingOrder::unset;
  wire::Fallback fallback = wire::Fallback::unset;
  std::uint32_t min_workers = 0, max_workers = 0;
  bool guarded = false;       // there is a secret, or REDSUM_INSECURE=1 says that none is wanted
  std::string data_address;   // where this worker listens for others; empty: found by itself
  std::string interfaces;     // as given; then data_address is on `local`
  tcp::LocalInterface local;  // where lanes come from; empty: left to the system
  DurationNs connect_timeout = 60 * kSecond;
  DurationNs operation_timeout = 300 * kSecond;
  DurationNs heartbeat_timeout = 3 * kSecond;
};

// Defaults, then the environment. Values that do not parse are left for check_options() to name.
void options_from_environment(redsum_options& options);

// invalid_argument naming the field, its value and what is expected; also reads the secret file and
// looks at the interfaces of this host, and at the address of a data_address that is a name.
Result<Options> check_options(const redsum_options& options);

}  // namespace redsum::client
