// SPDX-License-Identifier: Apache-2.0
#include "server/metrics_process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace redsum::server {
namespace {

std::uint64_t count_descriptors() {
  DIR* folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  std::uint64_t count = 0;
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(folder);
  return count > 0 ? count - 1 : 0;  // without the one that looked
}

double boot_time_seconds() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    if (double seconds = 0; word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

}  // namespace

ProcessNumbers process_numbers() {
  ProcessNumbers numbers;
  std::string text;
  std::getline(std::ifstream("/proc/self/stat"), text);
  // The command's name stands in parentheses and may hold anything; the fields after it are numbers (proc(5), from
  // field 3).
  const std::size_t name_end = text.rfind(')');
  std::istringstream fields(name_end == std::string::npos ? std::string() : text.substr(name_end + 1));
  std::string state;
  fields >> state;
  std::uint64_t field[25] = {};
  for (int i = 4; i <= 24; ++i) {
    std::string word;
    fields >> word;
    field[i] = std::strtoull(word.c_str(), nullptr, 10);
  }
  const double ticks = static_cast<double>(std::max(1l, ::sysconf(_SC_CLK_TCK)));
  numbers.cpu_seconds = static_cast<double>(field[14] + field[15]) / ticks;
  numbers.threads = field[20];
  numbers.start_time_seconds = boot_time_seconds() + static_cast<double>(field[22]) / ticks;
  numbers.virtual_bytes = field[23];
  numbers.resident_bytes = field[24] * static_cast<std::uint64_t>(std::max(1l, ::sysconf(_SC_PAGESIZE)));
  numbers.open_fds = count_descriptors();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    numbers.max_fds =
        limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<double>::infinity() : static_cast<double>(limit.rlim_cur);
  return numbers;
}

}  // namespace redsum::server
