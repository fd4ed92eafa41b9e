// SPDX-License-Identifier: Apache-2.0
// The daemon's log: takes every line of redsum::log (transport/base/log.h), so the whole daemon logs through that one.
// Text for a person, one JSON object per line for a machine; lines of at most 4 KiB; lines that only differ in their
// numbers are limited in rate. Written by a thread of its own, which drops the oldest lines rather than hold up the
// caller.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "transport/base/log.h"
#include "transport/base/status.h"
#include "transport/base/time.h"

namespace redsum::server {

enum class LogFormat : std::uint8_t { automatic, text, json };

struct LogConfig {
  log::Level level = log::Level::info;
  LogFormat format = LogFormat::automatic;  // automatic: text where standard error is a terminal, else json
  std::string file;                         // empty: standard error
};

// Once per process, and again after stop_log(). Sets the sink of redsum::log, and the check hook, which writes the last
// lines, left out ones too, to standard error. invalid_argument when the file cannot be opened, with the reason.
Status start_log(const LogConfig& config);
void stop_log() noexcept;  // writes what is queued; redsum::log goes to standard error again

// -- the parts, for tests
inline constexpr std::size_t kMaxLogLineBytes = 4096;  // with the newline

struct LogLine {
  log::Level level = log::Level::info;
  std::string_view text;
  std::int64_t wall_ms = 0;      // since 1970
  std::uint64_t suppressed = 0;  // lines like it that were left out since the last one
};
std::string format_text(const LogLine& line);  // one line without the newline; control characters are escaped
std::string format_json(const LogLine& line);  // {"time":..,"level":..,"msg":..}; invalid UTF-8 becomes U+FFFD

// Lets a burst of like lines through, then one per interval. Lines are alike when they differ in digits only. One
// thread at a time; holds at most kKinds kinds of line, and forgets the one not seen for longest.
class RepeatLimit {
 public:
  static constexpr std::uint32_t kBurst = 5;
  static constexpr DurationNs kInterval = 10 * kSecond;
  static constexpr std::size_t kKinds = 256;

  // True: write the line, and say that `suppressed` like it were left out.
  bool pass(log::Level level, std::string_view text, TimeNs now, std::uint64_t& suppressed);

 private:
  struct Kind {
    TimeNs window_start = 0, last_seen = 0;
    std::uint32_t passed = 0;  // in this window
    std::uint64_t suppressed = 0;
  };
  std::unordered_map<std::uint64_t, Kind> kinds_;  // by the hash of the level and the text without its digits
};

}  // namespace redsum::server
