// SPDX-License-Identifier: Apache-2.0
// How many CPUs and how much memory this process may use, inside a container too. In a lock-step group one thread more
// than the quota allows gets the whole group throttled, so the quota is rounded down.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace redsum::server {

struct CpuLimits {
  std::uint32_t affinity = 1;   // CPUs in the affinity mask
  std::optional<double> quota;  // CPUs' worth of time of the tightest cgroup above us; none: unlimited
  std::uint32_t allowed = 1;    // min(affinity, max(1, floor(quota)))
};

struct MemoryLimits {
  std::uint64_t physical_bytes = 0;
  std::optional<std::uint64_t> cgroup_bytes;  // the tightest limit above us; none: unlimited
  std::uint64_t allowed_bytes = 0;            // the smaller of both
};

// `root` is where /proc/self/cgroup and /sys/fs/cgroup are found; tests give a folder of their own. Reads cgroup v2 and
// v1.
CpuLimits cpus_allowed(const std::string& root = "/");
CpuLimits cpus_allowed(std::uint32_t affinity, const std::string& root);
MemoryLimits memory_allowed(const std::string& root = "/");

}  // namespace redsum::server
