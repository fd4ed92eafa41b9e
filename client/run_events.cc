// SPDX-License-Identifier: Apache-2.0
// What happens to the launcher, event by event.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "client/run_supervisor.h"
#include "transport/base/time.h"

namespace redsum::run {
namespace {

constexpr int kExitTimeout = 124;
constexpr int kMaxPollMs = 60'000;

int poll_timeout_ms(TimeNs deadline_ns) {
  if (deadline_ns == kNever) return -1;
  const DurationNs left_ms = (deadline_ns - monotonic_now() + kMillisecond - 1) / kMillisecond;
  return static_cast<int>(std::clamp<DurationNs>(left_ms, 0, kMaxPollMs));
}

bool all_ended(const std::vector<std::unique_ptr<Child>>& children) {
  return std::all_of(children.begin(), children.end(), [](const auto& child) { return child->ended(); });
}

std::string last_lines(const Child& daemon) {
  if (daemon.last_lines.empty()) return "; it printed nothing";
  std::string text = "; its last lines:";
  for (const std::string& line : daemon.last_lines) text += "\n  [" + daemon.name() + "] " + line;
  return text;
}

}  // namespace

void Supervisor::step() {
  std::vector<pollfd> polled = {
      {signal_fd_, POLLIN, 0}, {folder_watch_, POLLIN, 0}, {output_.blocked_fd(), POLLOUT, 0}};
  const std::size_t fixed = polled.size();
  std::vector<LineReader*> readers;
  for (const auto* list : {&workers_, &daemons_}) {
    for (const auto& child : *list) {
      for (LineReader* reader : {&child->out, &child->err}) {
        if (reader->fd() < 0 || output_.full()) continue;
        readers.push_back(reader);
        polled.push_back({reader->fd(), POLLIN, 0});
      }
    }
  }
  if (::poll(polled.data(), polled.size(), poll_timeout_ms(next_deadline())) > 0) {
    if (polled[2].revents != 0 && !output_.write_some() && stage_ < Stage::ending)
      fail(128 + SIGPIPE, "output is closed");
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (polled[fixed + i].revents != 0) readers[i]->read_some();
    }
    if (polled[0].revents != 0) on_signals();
    if (polled[1].revents != 0) on_ports();
  }
  on_deadline();
  const bool runs = stage_ == Stage::workers || stage_ == Stage::ending;
  if (runs && all_ended(workers_)) end_pool();
  if (stage_ == Stage::pool && all_ended(daemons_)) stage_ = Stage::done;
}

void Supervisor::on_signals() {
  signalfd_siginfo info{};
  bool child_ended = false;
  pid_t first = -1;
  while (::read(signal_fd_, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      if (!child_ended) first = static_cast<pid_t>(info.ssi_pid);
      child_ended = true;
      continue;
    }
    ++signals_;
    if (!exit_code_) exit_code_ = 128 + signal;
    if (signals_ == 1 && stage_ < Stage::ending) {
      say("SIG" + std::string(::sigabbrev_np(signal)) + ": ending everything; once more to kill it at once");
      end_workers(signal);
    } else {
      for (const auto* list : {&workers_, &daemons_}) {
        for (const auto& child : *list) child->signal_group(SIGKILL);
      }
    }
  }
  if (child_ended) on_children(first);
}

// `first` died first where several have: what it ended with is the cause, the others' ends may be consequences.
void Supervisor::on_children(pid_t first) {
  for (const bool only_first : {true, false}) {
    for (const auto& worker : workers_) {
      if ((!only_first || worker->pid() == first) && worker->poll_end()) on_worker_end(*worker);
    }
    for (const auto& daemon : daemons_) {
      if ((!only_first || daemon->pid() == first) && daemon->poll_end()) on_daemon_end(*daemon);
    }
  }
}

void Supervisor::on_worker_end(Child& worker) {
  worker.out.drain();
  worker.err.drain();
  if (!worker.failed() || exit_code_) return;
  fail(worker.exit_code(), worker.how_it_ended() + (workers_.size() > 1 ? "; ending the other ranks" : ""));
}

// A reducer's end is not the run's: what the workers make of it counts. Before and after the run it is a failure.
void Supervisor::on_daemon_end(Child& daemon) {
  daemon.out.drain();
  daemon.err.drain();
  if (stage_ < Stage::workers) return fail(1, daemon.how_it_ended() + " before the run" + last_lines(daemon));
  if (stage_ < Stage::pool) return say(daemon.how_it_ended() + " during the run" + last_lines(daemon));
  if (!daemon.failed() || killed_ || signals_ > 0) return;
  say(daemon.how_it_ended() + " after the run" + last_lines(daemon));
  if (!exit_code_) exit_code_ = 1;
}

void Supervisor::on_ports() {
  char events[4096];
  while (::read(folder_watch_, events, sizeof events) > 0) {
  }
  if (stage_ == Stage::coordinator) {
    coordinator_address_ = pool_.coordinator_report().control_address;
    if (!coordinator_address_.empty()) start_reducers();
  }
  if (stage_ != Stage::reducers) return;
  if (options_.reducers > 0 && !pool_.coordinator_report().ready) return;  // ready: it has all its reducers
  for (int i = 0; i < options_.reducers; ++i) {
    if (!pool_.reducer_report(i).ready) return;
  }
  start_workers();
}

TimeNs Supervisor::next_deadline() const {
  const bool waits = stage_ != Stage::workers && !killed_;
  const TimeNs stage = waits ? stage_deadline_ns_ : kNever;
  return stage_ < Stage::ending ? std::min(stage, run_deadline_ns_) : stage;
}

void Supervisor::on_deadline() {
  const TimeNs now = monotonic_now();
  if (now < next_deadline()) return;
  if (stage_ == Stage::ending || stage_ == Stage::pool) {
    killed_ = true;
    for (const auto& child : stage_ == Stage::ending ? workers_ : daemons_) {
      if (child->ended()) continue;
      if (stage_ == Stage::pool) say(child->name() + " did not end in time and is killed" + last_lines(*child));
      child->signal_group(SIGKILL);
    }
    return;
  }
  if (now >= run_deadline_ns_) {
    std::string running;
    for (const auto& worker : workers_) {
      if (!worker->ended()) running += (running.empty() ? "" : ", ") + worker->name();
    }
    return fail(kExitTimeout,
                "the time limit (--timeout) is over; still running: " + (running.empty() ? "the start" : running));
  }
  std::string text = "the pool was not ready in time";
  for (const auto& daemon : daemons_) text += "\n" + daemon->name() + last_lines(*daemon);
  fail(1, text);
}

}  // namespace redsum::run
