// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "bench/peers/peer.h"
#include "bench/repeated.h"

namespace peers {

float contribution(std::uint32_t rank, std::size_t index) {
  auto bits = static_cast<std::uint32_t>(index) * kMaxRanks + rank;
  bits = (bits ^ (bits >> 16)) * 0x85ebca6bu;  // the finish of MurmurHash3: neighbours get unrelated values
  bits = (bits ^ (bits >> 13)) * 0xc2b2ae35u;
  return static_cast<float>(((bits ^ (bits >> 16)) >> 12) + 1);
}

Values::Values(std::uint32_t rank, std::uint32_t ranks)
    : input_(perf::kPatternPeriod * sizeof(float)), sum_(input_.size()) {
  for (std::size_t i = 0; i < perf::kPatternPeriod; ++i) {
    const float own = contribution(rank, i);
    float sum = 0;
    for (std::uint32_t r = 0; r < ranks; ++r) sum += contribution(r, i);
    std::memcpy(input_.data() + i * sizeof own, &own, sizeof own);
    std::memcpy(sum_.data() + i * sizeof sum, &sum, sizeof sum);
  }
}

void Values::fill_input(std::vector<float>& buffer) const {
  perf::fill_repeated(input_, buffer.data(), buffer.size() * sizeof(float));
}

std::size_t Values::count_wrong(const std::vector<float>& result) const {
  return perf::count_differing(sum_, sizeof(float), result.data(), 0, result.size());
}

}  // namespace peers
