// SPDX-License-Identifier: Apache-2.0
// Starts the built programs from tests.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace programs {

struct Result {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
  std::vector<std::string> sorted_lines() const;  // of stdout
};

class Running {
 public:
  // `arguments[0]` without a slash is a program of the build. `environment`: NAME=value, on top of the test's own, from
  // which everything that names a rank or a pool has been taken.
  explicit Running(std::vector<std::string> arguments, const std::vector<std::string>& environment = {});
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running();  // kills it if it still runs
  pid_t pid() const { return pid_; }
  std::string read_line();  // the next line of stdout; waits for it
  Result finish();          // waits for its end

 private:
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  std::string buffered_;
};

Result run(std::vector<std::string> arguments, const std::vector<std::string>& environment = {});

std::string source(const std::string& path);  // a file of the source tree
bool process_runs(pid_t pid);                 // exists and is no zombie

}  // namespace programs
