// SPDX-License-Identifier: Apache-2.0
// The only user of spdlog, which carries finished lines to a file on its own thread.
#include "server/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <mutex>
#include <vector>

#include "transport/base/check.h"

namespace redsum::server {
namespace {

constexpr std::size_t kQueueLines = 8192;
constexpr std::size_t kKeptLines = 64;

struct State {
  std::shared_ptr<spdlog::details::thread_pool> thread;
  std::shared_ptr<spdlog::async_logger> logger;
  bool json = false;
  RepeatLimit repeats;
  std::mutex kept_mutex;
  std::vector<std::string> kept;  // the last lines, also those left out by the limit; a ring
  std::size_t kept_next = 0;
};

// Never destroyed: a thread that outlives main may still log.
State& state() {
  static State* s = new State;
  return *s;
}

spdlog::level::level_enum level_of(log::Level level) {
  switch (level) {
    case log::Level::error:
      return spdlog::level::err;
    case log::Level::warn:
      return spdlog::level::warn;
    case log::Level::info:
      return spdlog::level::info;
    case log::Level::trace:
      return spdlog::level::trace;
  }
  return spdlog::level::info;
}

void keep(State& s, const std::string& line) {
  std::lock_guard lock(s.kept_mutex);
  if (s.kept.size() < kKeptLines) {
    s.kept.push_back(line);
    return;
  }
  s.kept[s.kept_next] = line;
  s.kept_next = (s.kept_next + 1) % kKeptLines;
}

// Called by redsum::log, one thread at a time.
void on_line(void* user, log::Level level, std::string_view text) {
  State& s = *static_cast<State*>(user);
  LogLine line;
  line.level = level;
  line.text = text;
  line.wall_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  const bool pass = s.repeats.pass(level, text, monotonic_now(), line.suppressed);
  const std::string written = s.json ? format_json(line) : format_text(line);
  keep(s, written);
  if (pass) s.logger->log(level_of(level), spdlog::string_view_t(written.data(), written.size()));
}

void write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// The process is about to abort: no lock that another thread may hold is waited for.
void on_check_failed(std::string_view what) noexcept {
  State& s = state();
  if (!s.kept_mutex.try_lock()) return;
  write_all("redsumd: the last lines before this:\n");
  for (std::size_t i = 0; i < s.kept.size(); ++i) {
    write_all("  ");
    write_all(s.kept[(s.kept_next + i) % s.kept.size()]);
    write_all("\n");
  }
  write_all(what);
  write_all("\n");
}

}  // namespace

Status start_log(const LogConfig& config) {
  State& s = state();
  try {
    std::shared_ptr<spdlog::sinks::sink> sink;
    if (config.file.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(config.file, false);
    }
    s.thread = std::make_shared<spdlog::details::thread_pool>(kQueueLines, 1);
    s.logger = std::make_shared<spdlog::async_logger>("redsumd", std::move(sink), s.thread,
                                                      spdlog::async_overflow_policy::overrun_oldest);
  } catch (const spdlog::spdlog_ex& error) {
    return {Code::invalid_argument, "log.file = '" + config.file + "': " + error.what()};
  }
  s.logger->set_pattern("%v");
  s.logger->set_level(spdlog::level::trace);  // redsum::log has decided already
  s.logger->flush_on(spdlog::level::trace);   // by the log's thread, so at no cost for the caller
  s.json = config.format == LogFormat::json ||
           (config.format == LogFormat::automatic && (!config.file.empty() || ::isatty(STDERR_FILENO) == 0));
  log::set_level(config.level);
  log::set_sink(&on_line, &s);
  set_check_hook(&on_check_failed);
  return {};
}

void stop_log() noexcept {
  log::set_sink(nullptr, nullptr);  // waits for a line under way
  set_check_hook(nullptr);
  State& s = state();
  s.thread.reset();  // its thread writes what is queued, then ends; only then may the file go
  s.logger.reset();
}

}  // namespace redsum::server
