// SPDX-License-Identifier: Apache-2.0
// The queue into an agent: bounded, in order for each producer, nothing lost or doubled.
#include "transport/base/ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace redsum {
namespace {

TEST(Ring, is_first_in_first_out_and_bounded) {
  Ring<int> ring(3);  // rounded up to 4
  int item = 0;
  EXPECT_FALSE(ring.pop(item));
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(int{i}));
    EXPECT_FALSE(ring.push(4));
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ring.pop(item));
      EXPECT_EQ(item, i);
    }
    EXPECT_FALSE(ring.pop(item));
  }
}

TEST(Ring, a_full_ring_leaves_the_item_alone) {
  Ring<std::unique_ptr<int>> ring(2);
  EXPECT_TRUE(ring.push(std::make_unique<int>(1)));
  EXPECT_TRUE(ring.push(std::make_unique<int>(2)));
  auto third = std::make_unique<int>(3);
  EXPECT_FALSE(ring.push(std::move(third)));
  ASSERT_NE(third, nullptr);
  EXPECT_EQ(*third, 3);
}

TEST(Ring, a_taken_item_is_gone_from_the_ring) {
  Ring<std::shared_ptr<int>> ring(2);
  auto item = std::make_shared<int>(1);
  EXPECT_TRUE(ring.push(std::shared_ptr<int>(item)));
  std::shared_ptr<int> taken;
  EXPECT_TRUE(ring.pop(taken));
  taken.reset();
  EXPECT_EQ(item.use_count(), 1);
}

TEST(Ring, many_producers_lose_nothing_and_keep_their_order) {
  constexpr std::uint64_t kProducers = 4, kItems = 20'000;
  Ring<std::uint64_t> ring(64);
  std::vector<std::thread> producers;
  for (std::uint64_t p = 0; p < kProducers; ++p)
    producers.emplace_back([&ring, p] {
      for (std::uint64_t i = 0; i < kItems; ++i)
        while (!ring.push(p << 32 | i)) std::this_thread::yield();
    });
  std::vector<std::uint64_t> next(kProducers, 0);
  std::uint64_t disorder = 0;
  for (std::uint64_t taken = 0; taken < kProducers * kItems;) {
    std::uint64_t item = 0;
    if (!ring.pop(item)) {
      std::this_thread::yield();
      continue;
    }
    ++taken;
    disorder += next[item >> 32]++ != (item & 0xFFFFFFFF);
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_EQ(disorder, 0u);
  std::uint64_t item = 0;
  EXPECT_FALSE(ring.pop(item));
}

}  // namespace
}  // namespace redsum
