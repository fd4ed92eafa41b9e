// SPDX-License-Identifier: Apache-2.0
// The small things under everything: epochs, the seeded generator, error codes, regions.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/prng.h"
#include "transport/base/region.h"
#include "transport/base/status.h"
#include "transport/base/types.h"

namespace redsum {
namespace {

TEST(Epoch, later_term_beats_any_count) {
  EXPECT_LT(Epoch(0, 1), Epoch(0, 2));
  EXPECT_LT(Epoch(1, 0xFFFFF), Epoch(2, 0));
  EXPECT_GT(Epoch(0xFFF, 0), Epoch(0xFFE, 0xFFFFF));
  EXPECT_EQ(Epoch(3, 5), Epoch(0x00300005));
  EXPECT_EQ(Epoch(0xFFF, 0xFFFFF).term(), 0xFFFu);
  EXPECT_EQ(Epoch(0xFFF, 0xFFFFF).count(), 0xFFFFFu);
  EXPECT_LT(Epoch(), Epoch(0, 1));
}

TEST(Prng, is_splitmix64) {
  Prng zero(0);
  EXPECT_EQ(zero.next(), 0xE220A8397B1DCDAFull);
  EXPECT_EQ(zero.next(), 0x6E789E6AA1B965F4ull);
  EXPECT_EQ(zero.next(), 0x06C45D188009454Full);
  Prng other(1234567);
  EXPECT_EQ(other.next(), 6457827717110365317ull);
  EXPECT_EQ(other.next(), 3203168211198807973ull);
  EXPECT_EQ(other.next(), 9817491932198370423ull);
}

TEST(Prng, stays_in_its_bounds) {
  Prng random(3);
  EXPECT_EQ(random.below(0), 0u);
  bool low = false, high = false;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(random.below(7), 7u);
    const std::uint64_t value = random.between(10, 12);
    EXPECT_TRUE(value >= 10 && value <= 12);
    low |= value == 10;
    high |= value == 12;
    EXPECT_FALSE(random.chance(0));
    EXPECT_TRUE(random.chance(100));
  }
  EXPECT_TRUE(low && high);
}

TEST(Status, codes_have_stable_numbers_and_names) {
  EXPECT_EQ(static_cast<int>(Code::internal), 13);
  EXPECT_EQ(code_name(Code::reducer_lost), "reducer_lost");
  EXPECT_EQ(code_name(static_cast<Code>(14)), "?");
  EXPECT_EQ(code_from_number(10), Code::protocol_error);
  EXPECT_EQ(code_from_number(14), std::nullopt);
  EXPECT_EQ(Status().to_string(), "ok");
  EXPECT_EQ(Status(Code::timeout, "no answer").to_string(), "timeout: no answer");
}

TEST(CheckDeathTest, names_the_broken_rule) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(REDSUM_CHECK(1 + 1 == 3), "internal error: 1 \\+ 1 == 3 does not hold at .*base_test.cc");
}

std::size_t page_bytes() {
  return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t pages_in_memory(const Region& region) {
  std::vector<unsigned char> state(region.bytes() / page_bytes());
  if (::mincore(region.data(), region.bytes(), state.data()) != 0) return ~std::size_t{0};
  return static_cast<std::size_t>(std::count_if(state.begin(), state.end(), [](unsigned char s) { return s & 1; }));
}

TEST(Region, costs_memory_only_where_it_was_touched) {
  Result<Region> region = Region::reserve(std::size_t{64} << 20);
  ASSERT_TRUE(region);
  EXPECT_EQ(pages_in_memory(*region), 0u);
  for (int i = 0; i < 3; ++i) region->data()[std::size_t(i) * (16 << 20)] = std::byte{7};
  const std::size_t touched = pages_in_memory(*region);
  EXPECT_GE(touched, 3u);
  EXPECT_LE(touched, 3 * (std::size_t{2} << 20) / page_bytes());  // three pages, huge ones at most
  region->give_back();
  EXPECT_EQ(pages_in_memory(*region), 0u);
  EXPECT_EQ(region->data()[16 << 20], std::byte{0});
}

TEST(Region, rounds_up_to_pages_and_moves) {
  Result<Region> one = Region::reserve(1);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->bytes(), page_bytes());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one->data()) % page_bytes(), 0u);
  std::byte* const at = one->data();
  Region moved = std::move(*one);
  EXPECT_EQ(moved.data(), at);
  EXPECT_EQ(one->data(), nullptr);
  moved.slice(page_bytes() - 1, 1)[0] = std::byte{1};
  Region target;
  target = std::move(moved);
  EXPECT_EQ(target.data()[page_bytes() - 1], std::byte{1});
}

TEST(Region, nothing_and_too_much) {
  const Result<Region> none = Region::reserve(0);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->bytes(), 0u);
  for (const std::size_t bytes : {~std::size_t{0}, std::size_t{1} << 62}) {
    const Result<Region> huge = Region::reserve(bytes);
    ASSERT_FALSE(huge);
    EXPECT_EQ(huge.error().code(), Code::resource_exhausted);
  }
}

}  // namespace
}  // namespace redsum
