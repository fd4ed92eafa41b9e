// SPDX-License-Identifier: Apache-2.0
// Where redsum-perf expects the folds of a ring to begin, worked out by hand, and that it notices any other beginning.
#include "bench/perf_order.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "bench/perf_reference.h"

namespace {

using perf::FoldOrder;
using perf::FoldRun;
using perf::Pattern;
using perf::PatternSpec;

FoldOrder order_of(const char* mode, const char* ring_order, std::size_t ranks, std::uint32_t small_bytes = 16384) {
  perf::PerfOptions options;
  options.mode = mode;
  options.ring_order = ring_order;
  redsum_statistics agreed{};
  agreed.chunk_bytes = 65536;
  agreed.small_bytes = small_bytes;
  return FoldOrder(options, ranks, agreed);
}

PatternSpec spec_of(redsum_dtype dtype, redsum_op op, std::size_t ranks) {
  return {dtype, dtype, op, 0, ranks};
}

TEST(FoldOrder, ChunksOfAnAllreduceBeginOneRankFurtherEach) {
  const FoldOrder order = order_of("ring", "ring", 4);
  // 600 KiB of fp32: three chunks for each rank, of 12,800 elements each.
  const std::vector<FoldRun> runs = order.of_allreduce(spec_of(REDSUM_FP32, REDSUM_SUM, 4), 153600);
  ASSERT_EQ(runs.size(), 12u);
  for (std::size_t k = 0; k < runs.size(); ++k) EXPECT_EQ(runs[k], (FoldRun{k * 12800, 12800, (k + 1) % 4})) << k;
  // One small chunk, and, of 4,097 fp32, four of whole cache lines: the last is the shortest.
  EXPECT_EQ(order.of_allreduce(spec_of(REDSUM_FP32, REDSUM_SUM, 4), 4096), (std::vector<FoldRun>{{0, 4096, 1}}));
  EXPECT_EQ(order.of_allreduce(spec_of(REDSUM_FP32, REDSUM_SUM, 4), 4097),
            (std::vector<FoldRun>{{0, 1088, 1}, {1088, 1088, 2}, {2176, 1088, 3}, {3264, 833, 0}}));
  // Sums of fp8 travel as fp32, so a chunk has no more than 16,384 elements.
  EXPECT_EQ(order.of_allreduce(spec_of(REDSUM_FP8_E4M3, REDSUM_SUM, 4), 65536).front(), (FoldRun{0, 16384, 1}));
}

TEST(FoldOrder, TheAgreedLimitOfSmallCallsCounts) {
  EXPECT_EQ(order_of("ring", "ring", 4, 64).of_allreduce(spec_of(REDSUM_FP32, REDSUM_SUM, 4), 256).size(), 4u);
  EXPECT_EQ(order_of("ring", "ring", 4).of_allreduce(spec_of(REDSUM_FP32, REDSUM_SUM, 4), 256).size(), 1u);
}

TEST(FoldOrder, TheResultForOneRankBeginsBehindIt) {
  const FoldOrder order = order_of("ring", "ring", 4);
  EXPECT_EQ(order.start_for(0), 1u);
  EXPECT_EQ(order.start_for(3), 0u);
}

TEST(FoldOrder, IsRankOrderElsewhere) {
  for (const FoldOrder& order : {order_of("server", "ring", 4), order_of("direct", "ring", 4),
                                 order_of("ring", "rank", 4), order_of("ring", "ring", 1)}) {
    EXPECT_EQ(order.of_allreduce(spec_of(REDSUM_FP32, REDSUM_SUM, 4), 153600), (std::vector<FoldRun>{{0, 153600, 0}}));
    EXPECT_EQ(order.start_for(2), 0u);
  }
}

// What a ring makes of the crafted inputs of `count` elements, were chunk k to begin at rank k + `ahead`.
std::vector<float> ring_result(const std::vector<FoldRun>& runs, std::size_t ranks, std::size_t count,
                               std::size_t ahead) {
  std::vector<float> result(count), contributions(ranks);
  for (std::size_t k = 0; k < runs.size(); ++k) {
    for (std::uint64_t i = runs[k].first; i < runs[k].first + runs[k].count; ++i) {
      for (std::size_t place = 0; place < ranks; ++place) {
        perf::make_contribution(REDSUM_FP32, REDSUM_SUM, (k + ahead + place) % ranks, ranks, i % perf::kPatternPeriod,
                                reinterpret_cast<std::byte*>(&contributions[place]));
      }
      perf::reference_fold(REDSUM_FP32, REDSUM_FP32, REDSUM_SUM,
                           reinterpret_cast<const std::byte*>(contributions.data()), ranks,
                           reinterpret_cast<std::byte*>(&result[i]));
    }
  }
  return result;
}

TEST(FoldOrder, AWrongRotationIsFound) {
  constexpr std::size_t kRanks = 4, kCount = 153600;
  const PatternSpec spec = spec_of(REDSUM_FP32, REDSUM_SUM, kRanks);
  const FoldOrder order = order_of("ring", "ring", kRanks);
  const std::vector<FoldRun> runs = order.of_allreduce(spec, kCount);
  Pattern pattern(spec, kCount);
  const auto wrong = [&](const FoldOrder& expected, const std::vector<float>& result) {
    return perf::count_wrong_of_allreduce(expected, pattern, reinterpret_cast<const std::byte*>(result.data()), kCount);
  };
  const std::vector<float> right = ring_result(runs, kRanks, kCount, 1);
  EXPECT_EQ(wrong(order, right), 0u);
  EXPECT_GT(wrong(order_of("server", "", kRanks), right), kCount / 20);
  for (const std::size_t ahead : {0u, 2u, 3u}) {
    EXPECT_GT(wrong(order, ring_result(runs, kRanks, kCount, ahead)), kCount / 20) << ahead;
  }
}

}  // namespace
