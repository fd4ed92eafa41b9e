// SPDX-License-Identifier: Apache-2.0
// The life of redsumd: starts the roles and the admin port, tells who started it, waits for a signal, drains, ends.
#pragma once
#include <functional>
#include <memory>

#include "server/config.h"
#include "server/coordinator.h"
#include "server/reducer.h"

namespace redsum::server {

// How the roles are started; the program gives the real ones, tests give others.
struct Starters {
  std::function<Result<std::unique_ptr<Coordinator>>(const CoordinatorConfig&)> coordinator;
  std::function<Result<std::unique_ptr<Reducer>>(const ReducerConfig&)> reducer;
};

// Waits for the next signal at most so long (kNever: for ever); 0 when the time is up.
using SignalSource = std::function<int(DurationNs at_most)>;

// Blocks SIGTERM, SIGINT and SIGHUP in the calling thread and those that it starts, and ignores SIGPIPE. The source
// returned belongs to that thread.
SignalSource take_signals();

// Runs until a signal came and the jobs have ended or drain.timeout is over, or with one_shot until the last job has
// ended. Exit code: 0, or 1 when something could not be started (logged). A second signal ends the process on the spot
// with 128 + its number. The log has been started.
int run_daemon(const DaemonConfig& config, const Starters& starters, const SignalSource& next_signal);

}  // namespace redsum::server
