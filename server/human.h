// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

#include "transport/base/time.h"

namespace redsum::server {

inline std::string human_bytes(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

inline std::string human_duration(DurationNs ns) {
  const std::int64_t seconds = ns < 0 ? 0 : ns / kSecond;
  char text[48];
  if (seconds < 60)
    std::snprintf(text, sizeof text, "%lld s", static_cast<long long>(seconds));
  else if (seconds < 3600)
    std::snprintf(text, sizeof text, "%lld m %02lld s", static_cast<long long>(seconds / 60),
                  static_cast<long long>(seconds % 60));
  else
    std::snprintf(text, sizeof text, "%lld h %02lld m", static_cast<long long>(seconds / 3600),
                  static_cast<long long>(seconds / 60 % 60));
  return text;
}

}  // namespace redsum::server
