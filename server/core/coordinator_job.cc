// SPDX-License-Identifier: Apache-2.0
#include "server/core/coordinator_job.h"

#include <algorithm>
#include <cstdio>

namespace redsum::server {

std::optional<std::uint32_t> roster::Communicator::rank_of(std::uint32_t world_rank) const {
  const auto found = std::find(members.begin(), members.end(), world_rank);
  if (found == members.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - members.begin());
}

std::string ranks_text(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kListed = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size() && i < kListed; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ranks[i]);
  }
  if (ranks.size() > kListed) text += " ... (" + std::to_string(ranks.size()) + " in all)";
  return text;
}

std::string seconds_text(DurationNs ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3g s", static_cast<double>(ns) / static_cast<double>(kSecond));
  return text;
}

}  // namespace redsum::server
