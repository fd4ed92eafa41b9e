// SPDX-License-Identifier: Apache-2.0
#include "server/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

namespace redsum::server {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The process's group in the v2 tree (controller "") or in a v1 controller's tree, as /proc/self/cgroup tells it.
std::optional<std::string> group_of(const std::string& root, std::string_view controller) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool found =
        controller.empty() ? names == ",," : names.find("," + std::string(controller) + ",") != std::string::npos;
    if (found) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Calls `visit` with the folder of the group and of each group above it. In a container /proc/self/cgroup may name the
// path as the host sees it, which does not exist below the mount; what exists of it is visited, the mount's root in any
// case.
void visit_groups(const std::string& mount, std::string group, const std::function<void(const std::string&)>& visit) {
  while (!group.empty() && group.back() == '/') group.pop_back();
  while (!group.empty()) {
    visit(mount + group);
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  visit(mount);
}

// Every place where a limit of `controller` may stand, whichever way the trees are mounted.
void visit_controller(const std::string& root, std::string_view controller,
                      const std::function<void(const std::string&)>& v1,
                      const std::function<void(const std::string&)>& v2) {
  const std::string base = root + "/sys/fs/cgroup";
  const std::string unified = group_of(root, "").value_or("/");
  visit_groups(base, unified, v2);
  visit_groups(base + "/unified", unified, v2);
  const std::string own = group_of(root, controller).value_or("/");
  visit_groups(base + "/" + std::string(controller), own, v1);
  if (controller == "cpu") visit_groups(base + "/cpu,cpuacct", own, v1);
}

}  // namespace

CpuLimits cpus_allowed(std::uint32_t affinity, const std::string& root) {
  CpuLimits limits;
  limits.affinity = std::max(1u, affinity);
  const auto take = [&](std::optional<std::int64_t> quota, std::optional<std::int64_t> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0) return;
    const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
    limits.quota = limits.quota ? std::min(*limits.quota, cpus) : cpus;
  };
  visit_controller(
      root, "cpu",
      [&](const std::string& folder) {
        const auto quota = first_line(folder + "/cpu.cfs_quota_us"), period = first_line(folder + "/cpu.cfs_period_us");
        if (quota && period) take(number(*quota), number(*period));
      },
      [&](const std::string& folder) {
        std::istringstream line(first_line(folder + "/cpu.max").value_or(""));
        std::string quota, period;
        if (line >> quota >> period) take(number(quota), number(period));
      });
  limits.allowed = limits.affinity;
  if (limits.quota && *limits.quota < limits.allowed)
    limits.allowed = std::max(1u, static_cast<std::uint32_t>(std::floor(*limits.quota)));
  return limits;
}

CpuLimits cpus_allowed(const std::string& root) {
  // More CPUs than a cpu_set_t holds: the call asks for a larger mask.
  for (int capacity = CPU_SETSIZE; capacity <= 1 << 20; capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(capacity));
    if (!set) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    const bool known = ::sched_getaffinity(0, bytes, set) == 0;
    const bool too_small = !known && errno == EINVAL;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return cpus_allowed(static_cast<std::uint32_t>(count), root);
    if (!too_small) break;
  }
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cpus_allowed(online > 0 ? static_cast<std::uint32_t>(online) : 1u, root);
}

MemoryLimits memory_allowed(const std::string& root) {
  MemoryLimits limits;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0)
    limits.physical_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  const auto take = [&](const std::string& path) {
    const auto line = first_line(path);
    const auto bytes = line ? number(*line) : std::nullopt;  // "max" is no number: no limit
    if (!bytes || *bytes <= 0) return;
    const auto limit = static_cast<std::uint64_t>(*bytes);
    limits.cgroup_bytes = limits.cgroup_bytes ? std::min(*limits.cgroup_bytes, limit) : limit;
  };
  visit_controller(
      root, "memory", [&](const std::string& folder) { take(folder + "/memory.limit_in_bytes"); },
      [&](const std::string& folder) { take(folder + "/memory.max"); });
  // v1 writes "unlimited" as a number near 2^63.
  if (limits.cgroup_bytes && *limits.cgroup_bytes >= 1ull << 60) limits.cgroup_bytes.reset();
  limits.allowed_bytes = std::min(limits.physical_bytes, limits.cgroup_bytes.value_or(limits.physical_bytes));
  return limits;
}

}  // namespace redsum::server
