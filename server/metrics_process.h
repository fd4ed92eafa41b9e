// SPDX-License-Identifier: Apache-2.0
// What the system says about this process, for the process_* metrics.
#pragma once
#include <cstdint>

namespace redsum::server {

struct ProcessNumbers {
  double cpu_seconds = 0;
  std::uint64_t resident_bytes = 0, virtual_bytes = 0;
  std::uint64_t open_fds = 0, threads = 0;
  double max_fds = 0;             // infinity: no limit
  double start_time_seconds = 0;  // since 1970
};
ProcessNumbers process_numbers();

}  // namespace redsum::server
