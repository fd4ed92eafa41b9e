// SPDX-License-Identifier: Apache-2.0
// What the seeds of a run have reached, and what a long run must have reached: a simulation that does not get there
// proves nothing.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace redsum::sim {

struct Coverage {
  std::map<std::string, std::uint64_t> counts;
  void add(const std::string& what, std::uint64_t by = 1) { counts[what] += by; }
  std::uint64_t of(const std::string& what) const {
    const auto found = counts.find(what);
    return found == counts.end() ? 0 : found->second;
  }
};

inline constexpr std::uint64_t kGateSeeds = 2000;  // from so many on, with faults as they are drawn

// One line for each gate that a run of so many seeds has missed.
std::vector<std::string> missed_gates(const Coverage& coverage, std::uint64_t seeds);

}  // namespace redsum::sim
