// SPDX-License-Identifier: Apache-2.0
// Rings whose ranks ask for different things: that is told apart from a neighbour that breaks the protocol.
#include <algorithm>

#include "tests/client/test_ring.h"

namespace redsum::client {
namespace {

TEST(RingCore, CallsThatDifferStop) {
  Ring ring(3);
  ring.submit(1, 0, call_of(Kind::allreduce, 10));
  ring.submit(2, 0, call_of(Kind::allreduce, 11));
  ring.deliver(1);
  ASSERT_EQ(ring.disagreements.size(), 1u);
  EXPECT_EQ(ring.disagreements[0], std::pair(2u, Sequence{0}));
  EXPECT_TRUE(ring.lanes()[2].empty());
  EXPECT_TRUE(ring.complete.empty());
}

// Call 0 is two chunks at rank 0 and one at rank 1, so from there on rank 0's numbers are one ahead: chunk 1 of call 1
// goes to the place where rank 1 has begun its chunk 2.
TEST(RingCore, ShiftedNumbersAreNoBrokenProtocol) {
  Ring ring(2, RingOrder::ring, 3);
  ring.submit(0, 0, call_of(Kind::allreduce, 1024));
  ring.submit(1, 0, call_of(Kind::broadcast, 1024));
  for (std::uint32_t rank = 0; rank < 2; ++rank) ring.submit(rank, 1, call_of(Kind::allreduce, 9000));
  Prng random(1);
  ring.run(random);
  ASSERT_FALSE(ring.disagreements.empty());
  for (const auto& [rank, sequence] : ring.disagreements) EXPECT_EQ(sequence, 0u) << "rank " << rank;
  EXPECT_TRUE(ring.complete.empty());
}

// The partial result of a number that begins here may be the echo of a call that differs, until its result comes.
TEST(RingCore, ARankThatRunsAheadIsFoundByTheResult) {
  for (const bool ahead : {false, true}) {
    Ring ring(2);  // small window: 2
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      ring.submit(rank, 0, call_of(Kind::allreduce, 10));  // it and the next one begin at rank 1
      ring.submit(rank, 1, call_of(Kind::allreduce, 10));
      ring.submit(rank, 2, call_of(Kind::broadcast, 10, 0));
    }
    ASSERT_TRUE(ring.deliver(1));
    wire::Header result = ring.lanes()[0].at(0), third = ring.lanes()[0].at(1);
    ASSERT_EQ(result.type, FrameType::result);
    ASSERT_EQ(third.sequence, 2u);
    if (ahead) std::swap(result, third);
    EXPECT_TRUE(ring.core(1).on_frame(result));
    EXPECT_EQ(ring.core(1).on_frame(third).code(), ahead ? Code::protocol_error : Code::ok);
    EXPECT_TRUE(ring.disagreements.empty());
  }
}

TEST(RingCore, ARankThatRunsAheadIsFoundByWhatItPassedOver) {
  Ring ring(2);
  for (Sequence sequence = 0; sequence < 3; ++sequence)
    for (std::uint32_t rank = 0; rank < 2; ++rank) ring.submit(rank, sequence, call_of(Kind::broadcast, 10, 0));
  const wire::Header first = ring.lanes()[0].front();
  wire::Header third = first;
  third.sequence = 2;
  EXPECT_TRUE(ring.core(1).on_frame(third));
  ring.pump(1);
  EXPECT_EQ(ring.core(1).on_frame(first).code(), Code::protocol_error);
  EXPECT_TRUE(ring.disagreements.empty());
}

// One rank asks for something else in one call, of another size or shape: the protocol holds, and whoever is said to
// disagree does so about that call.
TEST(RingCore, OneCallDiffersInAnyInterleaving) {
  std::uint64_t reported = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Prng random(seed);
    const auto n = static_cast<std::uint32_t>(random.between(2, 6));
    Ring ring(n, random.chance(50) ? RingOrder::ring : RingOrder::rank,
              static_cast<std::uint16_t>(random.between(1, 3)));
    const std::vector<wire::CallDescription> calls = draw_calls(random, n);
    const Sequence bad = random.below(calls.size());
    std::vector<wire::CallDescription> others = calls;
    others[bad].kind = others[bad].kind == Kind::allreduce ? Kind::broadcast : Kind::allreduce;
    if (random.chance(50)) others[bad].count = random.below(random.chance(50) ? 300 : 20'000);
    ring.submit_and_run(random, calls, others, static_cast<std::uint32_t>(random.below(n)));
    reported += !ring.disagreements.empty();
    for (const auto& [rank, sequence] : ring.disagreements) EXPECT_EQ(sequence, bad) << "seed " << seed;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      const std::vector<Sequence>& complete = ring.complete[rank];
      EXPECT_EQ(std::count_if(complete.begin(), complete.end(), [&](Sequence s) { return s < bad; }),
                static_cast<std::ptrdiff_t>(bad))
          << "seed " << seed << " rank " << rank;
      EXPECT_EQ(std::count(complete.begin(), complete.end(), bad), 0) << "seed " << seed << " rank " << rank;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(reported, 1000u);
}

}  // namespace
}  // namespace redsum::client
