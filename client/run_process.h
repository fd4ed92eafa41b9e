// SPDX-License-Identifier: Apache-2.0
// One child process of the launcher, in a process group of its own so that whatever it starts can be ended with it. It
// dies with the launcher (PR_SET_PDEATHSIG). Not thread safe.
#pragma once
#include <sys/types.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "client/run_output.h"
#include "transport/base/status.h"

namespace redsum::run {

struct SpawnSpec {
  std::string name;  // "rank 2", "reducer 0", "coordinator"; for messages
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  // on top of the launcher's own
};

struct Spawned {
  pid_t pid = -1;
  int stdout_fd = -1;  // non-blocking, owned by the caller
  int stderr_fd = -1;
};

// Starts the program; stdin is /dev/null. The error says why it could not be started: invalid_argument when there is no
// such program, else resource_exhausted.
Result<Spawned> spawn(const SpawnSpec& spec);

class Child {
 public:
  Child(std::string name, pid_t pid, LineReader stdout_reader, LineReader stderr_reader)
      : out(std::move(stdout_reader)), err(std::move(stderr_reader)), name_(std::move(name)), pid_(pid) {}
  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }
  bool ended() const { return ended_; }
  bool failed() const { return ended_ && code_ != 0; }
  int exit_code() const { return code_; }  // 128 + signal when a signal ended it
  // Learns whether it has ended; true once, when it has. It stays a zombie until reap(), so that its process group's
  // number cannot be taken by a stranger meanwhile.
  bool poll_end();
  std::string how_it_ended() const;  // "rank 2 (pid 41) exited with code 3"
  void signal_group(int signal) const;
  void reap();

  LineReader out, err;
  std::deque<std::string> last_lines;  // of a daemon

 private:
  std::string name_;
  pid_t pid_;
  bool ended_ = false;
  int code_ = 0;
  int signal_ = 0;
};

// Makes the launcher the parent of orphaned descendants, so that kill_orphans() finds those that left their process
// group.
void adopt_orphans();
void kill_orphans();

}  // namespace redsum::run
