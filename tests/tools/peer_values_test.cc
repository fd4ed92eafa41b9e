// SPDX-License-Identifier: Apache-2.0
// The values that other libraries' sums are checked with: the exact result holds in any order, and nothing else does.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "bench/peers/peer.h"
#include "bench/repeated.h"

namespace {

using peers::kMaxRanks;
using peers::Values;

constexpr std::uint32_t kRanks = 4;
constexpr std::size_t kCount = 3 * perf::kPatternPeriod + 17;

std::vector<float> input_of(std::uint32_t rank) {
  std::vector<float> input(kCount);
  Values(rank, kRanks).fill_input(input);
  return input;
}

std::vector<float> sum_of(const std::vector<std::uint32_t>& ranks) {
  std::vector<float> sum(kCount);
  for (const std::uint32_t rank : ranks) {
    const std::vector<float> input = input_of(rank);
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += input[i];
  }
  return sum;
}

std::size_t wrong_in(const std::vector<float>& result) {
  return Values(0, kRanks).count_wrong(result);
}

TEST(PeerValues, TheSumIsExactInAnyOrder) {
  EXPECT_EQ(wrong_in(sum_of({0, 1, 2, 3})), 0u);
  EXPECT_EQ(wrong_in(sum_of({3, 1, 0, 2})), 0u);
  for (std::size_t i = 0; i < perf::kPatternPeriod; ++i) {  // the largest sums
    float up = 0;
    float down = 0;
    for (std::uint32_t r = 0; r < kMaxRanks; ++r) {
      up += peers::contribution(r, i);
      down += peers::contribution(kMaxRanks - 1 - r, i);
    }
    ASSERT_EQ(up, down) << i;
    ASSERT_LE(up, 0x1p24f) << i;
  }
}

TEST(PeerValues, AMissingOrDoubledRankIsWrongInEveryElement) {
  EXPECT_EQ(wrong_in(sum_of({0, 1, 3})), kCount);
  EXPECT_EQ(wrong_in(sum_of({0, 1, 2, 3, 3})), kCount);
  EXPECT_EQ(wrong_in(input_of(0)), kCount);  // what the buffer holds before the call
}

TEST(PeerValues, AnotherRankInsteadIsNoticed) {
  EXPECT_GT(wrong_in(sum_of({0, 1, 2, 2})), kCount - kCount / 1000);
}

TEST(PeerValues, APieceThatLandsElsewhereIsNoticed) {
  const std::vector<float> sum = sum_of({0, 1, 2, 3});
  for (const std::size_t distance : {std::size_t{1}, std::size_t{4096}, std::size_t{65536}}) {
    std::vector<float> moved = sum;
    std::copy(sum.begin(), sum.begin() + 1000, moved.begin() + static_cast<std::ptrdiff_t>(distance));
    EXPECT_GT(wrong_in(moved), 990u) << distance;
  }
}

TEST(PeerValues, OneChangedElementCountsAsOne) {
  std::vector<float> sum = sum_of({0, 1, 2, 3});
  sum.back() += 1;
  EXPECT_EQ(wrong_in(sum), 1u);
}

}  // namespace
