// SPDX-License-Identifier: Apache-2.0
// What the admin port tells, from one copy of the roles' snapshots. Pure functions.
#pragma once
#include <optional>
#include <string>

#include "server/snapshot.h"
#include "transport/base/time.h"

namespace redsum::server {

struct DaemonStatus {
  std::optional<ReducerSnapshot> reducer;
  std::optional<CoordinatorSnapshot> coordinator;
  bool starting = false;  // a role has not been started yet
  bool draining = false;  // SIGTERM came
  TimeNs now = 0, started = 0;
  DurationNs silent = 0;  // how long the roles have not answered the sampler
};

struct Verdict {
  bool ok = true;
  std::string text;  // why not
};
Verdict readiness(const DaemonStatus& status);  // jobs are taken: everything listens, registered, not draining
// Fails only when work is pending and nothing moves: a busy or an idle daemon is alive, and so is one without
// coordinator.
Verdict liveness(const DaemonStatus& status);
inline constexpr DurationNs kStuckAfter = 10 * kSecond;

std::string status_json(const DaemonStatus& status);  // ends with a newline; invalid UTF-8 is replaced
std::string status_page(const DaemonStatus& status);  // one HTML file without scripts or outside parts; escaped
std::string version_json();

}  // namespace redsum::server
