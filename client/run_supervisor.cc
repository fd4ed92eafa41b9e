// SPDX-License-Identifier: Apache-2.0
#include "client/run_supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "transport/base/time.h"

namespace redsum::run {
namespace {

constexpr DurationNs kReadyLimitNs = 30 * kSecond;          // until every daemon is ready
constexpr DurationNs kWorkerGraceNs = 3 * kSecond;          // from SIGTERM to SIGKILL
constexpr DurationNs kPoolGraceNs = kSecond + kSecond / 2;  // the same for daemons: together under 5 s
constexpr std::size_t kLastLines = 20;

}  // namespace

Supervisor::Supervisor(const Options& options) : options_(options), pool_(options) {}

Supervisor::~Supervisor() {
  for (const int fd : {signal_fd_, folder_watch_}) {
    if (fd >= 0) ::close(fd);
  }
}

void Supervisor::say(const std::string& text) {
  output_.push(STDERR_FILENO, "redsumrun: " + text + "\n");
}

bool Supervisor::set_up_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  signal_fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  return signal_fd_ >= 0;
}

int Supervisor::run() {
  if (!set_up_signals()) {
    std::perror("redsumrun: signalfd");
    return 1;
  }
  adopt_orphans();
  run_deadline_ns_ =
      options_.timeout_s > 0 ? monotonic_now() + static_cast<std::int64_t>(options_.timeout_s * 1e9) : kNever;
  start();
  while (stage_ != Stage::done) step();
  finish();
  return exit_code_.value_or(0);
}

void Supervisor::start() {
  const char* job = std::getenv("REDSUM_JOB_ID");
  if (job != nullptr && *job == '\0') job = nullptr;  // empty counts as not set, as everywhere
  job_id_ = !options_.job_id.empty() ? options_.job_id : job != nullptr ? job : "run-" + random_hex(12);
  if (!options_.has_coordinator) return start_workers();
  if (const Status status = pool_.prepare(); !status) return fail(1, status.text());
  folder_watch_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (folder_watch_ < 0 ||
      ::inotify_add_watch(folder_watch_, pool_.folder().c_str(), IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
    return fail(1, "cannot watch " + pool_.folder() + " (inotify)");
  }
  stage_deadline_ns_ = monotonic_now() + kReadyLimitNs;
  (void)start_child(pool_.coordinator(), true, "[coordinator] ");
}

void Supervisor::start_reducers() {
  stage_ = Stage::reducers;
  for (int i = 0; i < options_.reducers; ++i) {
    if (!start_child(pool_.reducer(i, coordinator_address_), true, "[reducer " + std::to_string(i) + "] ")) return;
  }
}

void Supervisor::start_workers() {
  stage_ = Stage::workers;
  for (int rank = 0; rank < options_.workers; ++rank) {
    const std::string prefix = options_.prefix ? "[" + std::to_string(rank) + "] " : "";
    if (!start_child(worker_spec(rank), false, prefix)) return;
  }
}

SpawnSpec Supervisor::worker_spec(int rank) const {
  const std::string number = std::to_string(rank);
  const std::string size = std::to_string(options_.workers);
  SpawnSpec spec{"rank " + number, options_.command, {}};
  for (const char* name : {"RANK", "LOCAL_RANK", "REDSUM_RANK"}) spec.environment.emplace_back(name, number);
  for (const char* name : {"WORLD_SIZE", "LOCAL_WORLD_SIZE", "REDSUM_WORLD_SIZE"})
    spec.environment.emplace_back(name, size);
  spec.environment.emplace_back("REDSUM_JOB_ID", job_id_);
  if (!coordinator_address_.empty()) spec.environment.emplace_back("REDSUM_COORDINATOR", coordinator_address_);
  if (!options_.mode.empty()) spec.environment.emplace_back("REDSUM_MODE", options_.mode);
  const std::string& secret = options_.has_coordinator ? pool_.secret_file() : options_.secret_file;
  if (!secret.empty()) spec.environment.emplace_back("REDSUM_SECRET_FILE", secret);
  if (!options_.chunk_bytes.empty()) spec.environment.emplace_back("REDSUM_CHUNK_BYTES", options_.chunk_bytes);
  if (std::getenv("PYTHONUNBUFFERED") == nullptr) spec.environment.emplace_back("PYTHONUNBUFFERED", "1");
  const char* path = std::getenv("PATH");
  // Last, so that `redsumrun ... redsum-perf` works from a build folder and nothing of the user's is hidden.
  spec.environment.emplace_back("PATH", std::string(path != nullptr ? path : "/usr/bin:/bin") + ":" + own_folder());
  return spec;
}

bool Supervisor::start_child(const SpawnSpec& spec, bool daemon, const std::string& prefix) {
  const Result<Spawned> spawned = spawn(spec);
  if (!spawned) {
    fail(spawned.error().code() == Code::invalid_argument ? 127 : 1, spawned.error().text());
    return false;
  }
  auto& list = daemon ? daemons_ : workers_;
  const auto reader = [&](int from, int to) {
    if (!daemon)
      return LineReader(from,
                        [=, this](std::string_view line) { output_.push(to, prefix + std::string(line) + "\n"); });
    return LineReader(from, [=, this, &list, index = list.size()](std::string_view line) {
      if (options_.verbose) output_.push(STDERR_FILENO, prefix + std::string(line) + "\n");
      std::deque<std::string>& lines = list[index]->last_lines;
      lines.emplace_back(line);
      if (lines.size() > kLastLines) lines.pop_front();
    });
  };
  list.push_back(std::make_unique<Child>(spec.name, spawned->pid, reader(spawned->stdout_fd, STDOUT_FILENO),
                                         reader(spawned->stderr_fd, STDERR_FILENO)));
  return true;
}

void Supervisor::fail(int exit_code, const std::string& text) {
  say(text);
  if (!exit_code_) exit_code_ = exit_code;
  end_workers(SIGTERM);
}

void Supervisor::end_workers(int signal) {
  if (stage_ >= Stage::ending) return;
  stage_ = Stage::ending;
  killed_ = false;
  stage_deadline_ns_ = monotonic_now() + kWorkerGraceNs;
  for (const auto& worker : workers_) {
    if (!worker->ended()) worker->signal_group(signal);
  }
}

void Supervisor::end_pool() {
  stage_ = Stage::pool;
  killed_ = false;
  stage_deadline_ns_ = monotonic_now() + kPoolGraceNs;
  for (const auto& worker : workers_) worker->signal_group(SIGKILL);            // what a worker left behind
  for (auto daemon = daemons_.rbegin(); daemon != daemons_.rend(); ++daemon) {  // the coordinator last
    if (!(*daemon)->ended()) (*daemon)->signal_group(SIGTERM);
  }
}

// Everything has ended; what is left are zombies, strays and unwritten output.
void Supervisor::finish() {
  for (auto* list : {&workers_, &daemons_}) {
    for (const auto& child : *list) {
      child->signal_group(SIGKILL);
      child->out.drain();
      child->err.drain();
      child->reap();
    }
  }
  kill_orphans();
  const int seen = signals_;
  while (!output_.empty() && (signals_ == seen || signals_ < 2)) {  // a reader that sleeps: a second Ctrl-C gives up
    flush();
    on_signals();
  }
}

void Supervisor::flush() {
  pollfd polled[2] = {{output_.blocked_fd(), POLLOUT, 0}, {signal_fd_, POLLIN, 0}};
  if (::poll(polled, 2, -1) > 0 && polled[0].revents != 0) (void)output_.write_some();
}

}  // namespace redsum::run
