// SPDX-License-Identifier: Apache-2.0
#include "transport/base/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>

namespace redsum::log {
namespace {

constexpr std::size_t kLineBytes = 4096;

Level level_from_environment() {
  const char* text = std::getenv("REDSUM_DEBUG");
  const std::string_view name = text ? text : "";
  if (name == "ERROR") return Level::error;
  if (name == "INFO") return Level::info;
  if (name == "TRACE") return Level::trace;
  return Level::warn;
}

std::FILE* open_destination() {
  const char* pattern = std::getenv("REDSUM_DEBUG_FILE");
  if (!pattern || !*pattern) return stderr;
  std::string path;
  for (const char* p = pattern; *p; ++p) {
    if (p[0] == '%' && p[1] == 'p') {
      path += std::to_string(::getpid());
      ++p;
    } else if (p[0] == '%' && p[1] == 'h') {
      char host[256] = {};
      ::gethostname(host, sizeof host - 1);
      path += host;
      ++p;
    } else {
      path += *p;
    }
  }
  std::FILE* file = std::fopen(path.c_str(), "ae");
  if (!file) std::fprintf(stderr, "redsum WARN REDSUM_DEBUG_FILE: cannot open '%s'; logging to stderr\n", path.c_str());
  return file ? file : stderr;
}

struct State {
  std::atomic<Level> level{level_from_environment()};
  std::mutex mutex;
  Sink sink = nullptr;
  void* user = nullptr;
  std::FILE* file = nullptr;
};

// Never destroyed: a thread that outlives main may still log.
State& state() {
  static State* s = new State;
  return *s;
}

}  // namespace

void set_sink(Sink sink, void* user) noexcept {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.sink = sink;
  s.user = user;
}

void set_level(Level level) noexcept {
  state().level.store(level, std::memory_order_relaxed);
}
Level level() noexcept {
  return state().level.load(std::memory_order_relaxed);
}

void write(Level at, std::string_view text) noexcept {
  if (!enabled(at)) return;
  static constexpr const char* kNames[] = {"ERROR", "WARN", "INFO", "TRACE"};
  text = text.substr(0, kLineBytes - 64);
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (s.sink) return s.sink(s.user, at, text);
  if (!s.file) s.file = open_destination();
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%H:%M:%S", &utc);
  std::fprintf(s.file, "%s.%03ld redsum[%d] %s %.*s\n", stamp, now.tv_nsec / 1'000'000, static_cast<int>(::getpid()),
               kNames[static_cast<int>(at)], static_cast<int>(text.size()), text.data());
  std::fflush(s.file);
}

}  // namespace redsum::log
