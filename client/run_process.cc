// SPDX-License-Identifier: Apache-2.0
#include "client/run_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace redsum::run {
namespace {

struct Pipes {
  int fds[6] = {-1, -1, -1, -1, -1, -1};  // stdout, stderr, and the one that tells why exec failed: read, write each
  bool open() {
    for (int i = 0; i < 6; i += 2) {
      if (::pipe2(fds + i, O_CLOEXEC) != 0) return false;
    }
    return true;
  }
  void close(int first, int step) {
    for (int i = first; i < 6; i += step) {
      if (fds[i] >= 0) ::close(fds[i]);
      fds[i] = -1;
    }
  }
};

// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const SpawnSpec& spec, char* const* arguments, const Pipes& pipes, pid_t launcher) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = ::open("/dev/null", O_RDONLY);
  if (::getppid() != launcher || null < 0 || ::dup2(null, 0) < 0 || ::dup2(pipes.fds[1], 1) < 0 ||
      ::dup2(pipes.fds[3], 2) < 0) {
    ::_exit(127);
  }
  ::close(null);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  for (const auto& [name, value] : spec.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(pipes.fds[5], &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<Spawned> spawn(const SpawnSpec& spec) {
  std::vector<char*> arguments;
  for (const std::string& argument : spec.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  Pipes pipes;
  const pid_t launcher = ::getpid();
  const bool opened = pipes.open();
  const pid_t pid = opened ? ::fork() : -1;
  if (pid == 0) become(spec, arguments.data(), pipes, launcher);
  if (pid < 0) {
    const std::string why = std::strerror(errno);
    pipes.close(0, 1);
    return failure(Code::resource_exhausted, "cannot start " + spec.name + ": " + why);
  }
  ::setpgid(pid, pid);  // the child does it too; whoever comes first
  pipes.close(1, 2);
  int error = 0;
  ssize_t got = 0;
  while ((got = ::read(pipes.fds[4], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  ::close(pipes.fds[4]);
  pipes.fds[4] = -1;
  if (got == sizeof error) {
    pipes.close(0, 2);
    ::waitpid(pid, nullptr, 0);
    return failure(Code::invalid_argument,
                   "cannot start " + spec.arguments[0] + " as " + spec.name + ": " + std::strerror(error));
  }
  for (const int fd : {pipes.fds[0], pipes.fds[2]}) ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  return Spawned{pid, pipes.fds[0], pipes.fds[2]};
}

bool Child::poll_end() {
  if (ended_) return false;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return false;
  ended_ = true;
  signal_ = info.si_code == CLD_EXITED ? 0 : info.si_status;
  code_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  return true;
}

std::string Child::how_it_ended() const {
  const std::string who = name_ + " (pid " + std::to_string(pid_) + ") ";
  if (signal_ == 0) return who + "exited with code " + std::to_string(code_);
  const char* abbreviation = ::sigabbrev_np(signal_);
  return who + "was ended by signal " + std::to_string(signal_) + " (SIG" + (abbreviation ? abbreviation : "?") + ")";
}

void Child::signal_group(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

void Child::reap() {
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void adopt_orphans() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void kill_orphans() {
  const std::string self = std::to_string(::getpid());
  for (int round = 0; round < 100; ++round) {  // an orphan may have children that become ours when it dies
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0) return;
    std::ifstream children("/proc/self/task/" + self + "/children");
    bool any = false;
    for (pid_t pid = 0; children >> pid;) any = ::kill(pid, SIGKILL) == 0 || any;
    if (!any) return;  // this kernel does not list them
    ::waitpid(-1, nullptr, 0);
  }
}

}  // namespace redsum::run
