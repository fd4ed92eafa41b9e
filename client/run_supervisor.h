// SPDX-License-Identifier: Apache-2.0
// The launcher's one loop: starts the pool, then the workers, passes their output on, and ends everything when the run
// is over, a worker fails, a limit passes or a signal comes. One thread; sleeps in poll(2) whenever nothing happens.
#pragma once
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/run_options.h"
#include "client/run_output.h"
#include "client/run_pool.h"
#include "client/run_process.h"
#include "transport/base/status.h"
#include "transport/base/time.h"

namespace redsum::run {

class Supervisor {
 public:
  explicit Supervisor(const Options& options);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  ~Supervisor();
  int run();  // the exit code of redsumrun

 private:
  enum class Stage {
    coordinator,  // waits for the coordinator's address
    reducers,     // waits until every daemon is ready
    workers,      // the run itself
    ending,       // the workers have been told to end
    pool,         // no worker is left; the daemons have been told to end
    done,
  };

  bool set_up_signals();
  void start();
  void start_reducers();
  void start_workers();
  bool start_child(const SpawnSpec& spec, bool daemon, const std::string& prefix);
  SpawnSpec worker_spec(int rank) const;

  void step();  // one poll and what follows from it
  void on_signals();
  void on_ports();
  void on_children(pid_t first);
  void on_worker_end(Child& worker);
  void on_daemon_end(Child& daemon);
  void on_deadline();
  void fail(int exit_code, const std::string& text);
  void end_workers(int signal);
  void end_pool();
  void finish();
  void flush();
  void say(const std::string& text);
  TimeNs next_deadline() const;

  const Options& options_;
  Pool pool_;
  OutputQueue output_;
  std::vector<std::unique_ptr<Child>> daemons_;
  std::vector<std::unique_ptr<Child>> workers_;
  Stage stage_ = Stage::coordinator;
  std::string coordinator_address_;
  std::string job_id_;
  std::optional<int> exit_code_;  // once something went wrong
  int signals_ = 0;               // how many SIGINT, SIGTERM or SIGHUP came
  bool killed_ = false;           // the stage's SIGKILL has been sent
  TimeNs stage_deadline_ns_ = 0;
  TimeNs run_deadline_ns_ = 0;
  int signal_fd_ = -1;
  int folder_watch_ = -1;
};

}  // namespace redsum::run
