// SPDX-License-Identifier: Apache-2.0
// The library's own small logger: a trainer process must not meet a logging framework of ours. Level and destination
// follow REDSUM_DEBUG=ERROR|WARN|INFO|TRACE (default WARN) and REDSUM_DEBUG_FILE (%h host, %p pid), as NCCL's users
// type them; a callback takes the lines instead where the host program sets one. The daemon sets a callback that feeds
// its own log.
#pragma once
#include <cstdint>
#include <string_view>

namespace redsum::log {

enum class Level : std::uint8_t { error = 0, warn = 1, info = 2, trace = 3 };

// `line` has no newline and at most 4 KiB; called from any of the library's threads, one at a time.
using Sink = void (*)(void* user, Level level, std::string_view line);
void set_sink(Sink sink, void* user) noexcept;  // nullptr: back to stderr or REDSUM_DEBUG_FILE
void set_level(Level level) noexcept;
Level level() noexcept;
inline bool enabled(Level at) noexcept {
  return at <= level();
}

void write(Level at, std::string_view text) noexcept;
inline void error(std::string_view text) noexcept {
  write(Level::error, text);
}
inline void warn(std::string_view text) noexcept {
  write(Level::warn, text);
}
inline void info(std::string_view text) noexcept {
  write(Level::info, text);
}
inline void trace(std::string_view text) noexcept {
  if (enabled(Level::trace)) write(Level::trace, text);
}

}  // namespace redsum::log
