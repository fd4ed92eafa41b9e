// SPDX-License-Identifier: Apache-2.0
// What redsum-perf expects of calls that move data, worked out element by element, and that it notices data of another
// rank, of another place, and what has not come.
#include "bench/perf_check.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "bench/perf_reference.h"

namespace {

using perf::Collective;

constexpr std::size_t kRanks = 4, kPart = 1001, kCount = kRanks * kPart, kRank = 2;

struct Source {  // of an element of the output
  std::size_t rank, index;
};
using Sources = std::function<Source(std::size_t at)>;

struct Moves {
  Collective collective;
  std::size_t rank;
  std::size_t first, count;  // what of the output the call writes
  Sources sources;
};

std::size_t wrong_after(const Moves& call, const Sources& sources, std::size_t first, std::size_t count) {
  const perf::PatternSpec spec{REDSUM_INT32, REDSUM_INT32, REDSUM_SUM, call.rank, kRanks};
  perf::Pattern pattern(spec, kCount);
  const perf::FoldOrder order({}, kRanks, {});
  std::vector<std::int32_t> output(kCount, -1);
  for (std::size_t at = first; at < first + count; ++at) {
    const Source from = sources(at);
    perf::make_contribution(REDSUM_INT32, REDSUM_SUM, from.rank, kRanks, from.index,
                            reinterpret_cast<std::byte*>(&output[at]));
  }
  return perf::count_wrong_of_call(call.collective, order, pattern, reinterpret_cast<const std::byte*>(output.data()),
                                   kCount);
}

const Moves kMoves[] = {
    {Collective::broadcast, kRank, 0, kCount,
     [](std::size_t at) {
       return Source{0, at};
     }},
    {Collective::all_gather, kRank, 0, kCount,
     [](std::size_t at) {
       return Source{at / kPart, at};
     }},
    {Collective::all_to_all, kRank, 0, kCount,
     [](std::size_t at) {
       return Source{at / kPart, kRank * kPart + at % kPart};
     }},
    {Collective::gather, 0, 0, kCount,
     [](std::size_t at) {
       return Source{at / kPart, at};
     }},
    {Collective::scatter, kRank, kRank* kPart, kPart,
     [](std::size_t at) {
       return Source{0, at};
     }},
    {Collective::sendrecv, kRank, 0, kCount,
     [](std::size_t at) {
       return Source{kRank - 1, at};
     }},
    {Collective::sendrecv, 0, 0, kCount,
     [](std::size_t at) {
       return Source{kRanks - 1, at};
     }},
};

TEST(Check, WhatMustComeIsRight) {
  for (const Moves& call : kMoves) {
    EXPECT_EQ(wrong_after(call, call.sources, call.first, call.count), 0u)
        << perf::kCollectiveNames[static_cast<int>(call.collective)];
  }
}

TEST(Check, EveryElementOfAnotherRankOrPlaceIsFound) {
  for (const Moves& call : kMoves) {
    const char* name = perf::kCollectiveNames[static_cast<int>(call.collective)];
    const auto another_rank = [&](std::size_t at) {
      const Source right = call.sources(at);
      return Source{(right.rank + 1) % kRanks, right.index};
    };
    const auto another_place = [&](std::size_t at) {
      const Source right = call.sources(at);
      return Source{right.rank, (right.index + kPart) % kCount};
    };
    EXPECT_EQ(wrong_after(call, another_rank, call.first, call.count), call.count) << name;
    EXPECT_EQ(wrong_after(call, another_place, call.first, call.count), call.count) << name;
  }
}

TEST(Check, WhatHasNotComeIsFound) {
  for (const Moves& call : kMoves) {
    const char* name = perf::kCollectiveNames[static_cast<int>(call.collective)];
    EXPECT_EQ(wrong_after(call, call.sources, call.first, call.count - 3), 3u) << name;
    EXPECT_EQ(wrong_after(call, call.sources, call.first + 5, call.count - 5), 5u) << name;
  }
}

TEST(Check, OnlyTheRootOfAGatherHasAResult) {
  const Moves elsewhere{Collective::gather, kRank, 0, kCount, {}};
  EXPECT_EQ(wrong_after(elsewhere, {}, 0, 0), 0u);
  EXPECT_EQ(wrong_after({Collective::gather, 0, 0, kCount, {}}, {}, 0, 0), kCount);
}

}  // namespace
