// SPDX-License-Identifier: Apache-2.0
// How the small measuring programs print what they measured: a part of the one JSON object on their standard output.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace perf {

// "times_us": [..], "median_us": ..}; the median is one of the times, as in redsum-perf.
inline void print_times(std::vector<double> times_us) {
  std::printf("\"times_us\": [");
  for (std::size_t i = 0; i < times_us.size(); ++i) std::printf("%s%.1f", i == 0 ? "" : ", ", times_us[i]);
  std::sort(times_us.begin(), times_us.end());
  std::printf("], \"median_us\": %.1f}\n", times_us[(times_us.size() - 1) / 2]);
}

}  // namespace perf
