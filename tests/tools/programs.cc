// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/programs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace programs {
namespace {

std::string in_build(const std::string& name) {
  const char* folder = std::getenv("REDSUM_TEST_BIN");
  return name.find('/') != std::string::npos || folder == nullptr ? name : std::string(folder) + "/" + name;
}

bool names_a_pool(const char* variable) {
  for (const char* prefix : {"REDSUM_", "RANK=", "WORLD_SIZE=", "LOCAL_", "OMPI_", "PMI_", "SLURM_"}) {
    if (std::strncmp(variable, prefix, std::strlen(prefix)) == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string> Result::sorted_lines() const {
  std::vector<std::string> lines;
  std::istringstream stream(out);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

Running::Running(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  arguments[0] = in_build(arguments[0]);
  std::vector<std::string> variables = environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!names_a_pool(*variable)) variables.emplace_back(*variable);
  }
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  for (std::string& variable : variables) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  int out[2];
  int err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) std::abort();
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(126);
  }
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Running::~Running() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ::close(out_);
  ::close(err_);
}

std::string Running::read_line() {
  char buffer[4096];
  while (buffered_.find('\n') == std::string::npos) {
    const ssize_t got = ::read(out_, buffer, sizeof buffer);
    if (got <= 0) break;
    buffered_.append(buffer, static_cast<std::size_t>(got));
  }
  const std::size_t end = std::min(buffered_.find('\n'), buffered_.size());
  std::string line = buffered_.substr(0, end);
  buffered_.erase(0, end + 1);
  return line;
}

Result Running::finish() {
  Result result;
  result.out = std::move(buffered_);
  pollfd polled[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    if (::poll(polled, 2, -1) <= 0) continue;
    for (pollfd& one : polled) {
      if (one.fd < 0 || one.revents == 0) continue;
      char buffer[65536];
      const ssize_t got = ::read(one.fd, buffer, sizeof buffer);
      if (got > 0)
        (one.fd == out_ ? result.out : result.err).append(buffer, static_cast<std::size_t>(got));
      else
        one.fd = -1;
    }
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

Result run(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
  return Running(std::move(arguments), environment).finish();
}

std::string source(const std::string& path) {
  const char* root = std::getenv("REDSUM_TEST_SOURCE");
  return std::string(root != nullptr ? root : ".") + "/" + path;
}

bool process_runs(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text.compare(name_end, 3, ") Z") != 0;
}

}  // namespace programs
