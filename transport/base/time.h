// SPDX-License-Identifier: Apache-2.0
// Time as the cores see it: nanoseconds on a monotonic clock that somebody else reads. Never the wall clock, so that a
// clock jump fires or freezes no deadline.
#pragma once
#include <chrono>
#include <cstdint>
#include <limits>

namespace redsum {

using TimeNs = std::int64_t;      // a point in time
using DurationNs = std::int64_t;  // a length of time
inline constexpr TimeNs kNever = std::numeric_limits<TimeNs>::max();
inline constexpr DurationNs kMicrosecond = 1'000;
inline constexpr DurationNs kMillisecond = 1'000'000;
inline constexpr DurationNs kSecond = 1'000'000'000;

inline TimeNs monotonic_now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace redsum
