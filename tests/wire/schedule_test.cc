// SPDX-License-Identifier: Apache-2.0
// The smooth weighted round-robin: golden lists, and what holds for any weights.
#include "transport/wire/schedule.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "transport/base/prng.h"

namespace redsum::wire {
namespace {

using Weights = std::vector<std::uint32_t>;
using Shards = std::vector<std::uint16_t>;

TEST(Schedule, golden_lists) {
  EXPECT_EQ(make_schedule(Weights{}), Shards{});
  EXPECT_EQ(make_schedule(Weights{1}), Shards{0});
  EXPECT_EQ(make_schedule(Weights{1, 1, 1, 1}), (Shards{0, 1, 2, 3}));
  EXPECT_EQ(make_schedule(Weights{5, 1, 1}), (Shards{0, 0, 1, 0, 2, 0, 0}));  // the textbook example
  EXPECT_EQ(make_schedule(Weights{2, 1}), (Shards{0, 1, 0}));
  EXPECT_EQ(make_schedule(Weights{1, 2}), (Shards{1, 0, 1}));
  EXPECT_EQ(make_schedule(Weights{3, 2, 1}), (Shards{0, 1, 0, 2, 1, 0}));
}

TEST(Schedule, common_factors_do_not_matter) {
  EXPECT_EQ(make_schedule(Weights{64, 64, 64}), (Shards{0, 1, 2}));
  EXPECT_EQ(make_schedule(Weights{6, 4, 2}), make_schedule(Weights{3, 2, 1}));
}

TEST(Schedule, every_shard_has_its_share_and_is_spread) {
  Prng random(7);
  for (int round = 0; round < 300; ++round) {
    Weights weights(random.between(1, 12));
    for (std::uint32_t& weight : weights) weight = static_cast<std::uint32_t>(random.between(1, kMaxWeight));
    const Shards schedule = make_schedule(weights);
    std::uint32_t divisor = 0;
    for (const std::uint32_t weight : weights) divisor = std::gcd(divisor, weight);
    const auto total = std::accumulate(weights.begin(), weights.end(), 0u) / divisor;
    ASSERT_EQ(schedule.size(), total);
    // After k turns a shard was taken within one turn per other shard of its exact share.
    std::vector<double> taken(weights.size(), 0);
    for (std::size_t k = 0; k < schedule.size(); ++k) {
      taken[schedule[k]] += 1;
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double share = static_cast<double>(weights[i] / divisor) * static_cast<double>(k + 1) / total;
        ASSERT_LT(std::abs(taken[i] - share), static_cast<double>(weights.size()))
            << "round " << round << " turn " << k;
      }
    }
    for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(taken[i], weights[i] / divisor) << round;
  }
}

TEST(Schedule, neighbours_of_equal_weight_alternate) {
  for (std::uint32_t shards = 2; shards <= 9; ++shards) {
    const Shards schedule = make_schedule(Weights(shards, 5));
    for (std::size_t i = 0; i < 2 * schedule.size(); ++i)
      EXPECT_NE(schedule[i % schedule.size()], schedule[(i + 1) % schedule.size()]);
  }
  // A heavy shard does not keep two light ones of equal weight from alternating.
  const Shards schedule = make_schedule(Weights{6, 3, 3});
  std::uint16_t last = 2;
  for (const std::uint16_t shard : schedule) {
    if (shard == 0) continue;
    EXPECT_NE(shard, last);
    last = shard;
  }
}

TEST(Schedule, is_the_same_for_every_member) {
  const Weights weights{7, 3, 3, 1, 64, 2};
  EXPECT_EQ(make_schedule(weights), make_schedule(weights));
}

}  // namespace
}  // namespace redsum::wire
