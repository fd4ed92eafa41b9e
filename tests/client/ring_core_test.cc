// SPDX-License-Identifier: Apache-2.0
// Rings whose ranks agree, and frames that cannot be.
#include "tests/client/test_ring.h"

namespace redsum::client {
namespace {

TEST(RingCore, FoldsBeginBehindTheRankThatEndsThem) {
  Ring ring(3);
  Prng random(1);
  for (std::uint32_t rank = 0; rank < 3; ++rank) ring.submit(rank, 0, call_of(Kind::allreduce, 3000));
  ring.run(random);
  ASSERT_EQ(ring.order.size(), 3u);
  EXPECT_EQ((ring.order[{0, 0}]), (std::vector<std::uint32_t>{1, 2, 0}));
  EXPECT_EQ((ring.order[{0, 1}]), (std::vector<std::uint32_t>{2, 0, 1}));
  EXPECT_EQ((ring.order[{0, 2}]), (std::vector<std::uint32_t>{0, 1, 2}));
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(ring.complete[rank], std::vector<Sequence>{0});
}

TEST(RingCore, OrderRankFoldsFromRankZero) {
  Ring ring(4, RingOrder::rank);
  Prng random(1);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ring.submit(rank, 0, call_of(Kind::allreduce, 9000));
    ring.submit(rank, 1, call_of(Kind::reduce, 700, 2));
    ring.submit(rank, 2, call_of(Kind::reduce_scatter, 400));
  }
  ring.run(random);
  for (const auto& [key, order] : ring.order) EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ((ring.got[{1, 0}]), std::set<std::uint32_t>{2});
  EXPECT_EQ((ring.got[{2, 3}]), std::set<std::uint32_t>{3});
}

TEST(RingCore, MovesNoMorePayloadThanARingMust) {
  for (const std::uint32_t n : {2u, 3u, 5u, 8u}) {
    const std::uint64_t count = 4096 * n, bytes = count * 4;
    const auto moved = [&](Kind kind) {
      Ring ring(n);
      Prng random(n);
      for (std::uint32_t rank = 0; rank < n; ++rank)
        ring.submit(rank, 0, call_of(kind, kind == Kind::barrier ? 0 : count, 1));
      ring.run(random);
      for (std::uint32_t rank = 0; rank < n; ++rank) EXPECT_EQ(ring.complete[rank].size(), 1u);
      return ring.payload_bytes;
    };
    EXPECT_EQ(moved(Kind::allreduce), 2 * (n - 1) * bytes);
    EXPECT_EQ(moved(Kind::reduce), (n - 1) * bytes);
    EXPECT_EQ(moved(Kind::broadcast), (n - 1) * bytes);
    EXPECT_EQ(moved(Kind::reduce_scatter), (n - 1) * bytes);
    EXPECT_EQ(moved(Kind::all_gather), (n - 1) * bytes);
    EXPECT_EQ(moved(Kind::barrier), 0u);
  }
}

// Four orders of one event: a partial result before the call is submitted, in order, behind its window, and again.
TEST(RingCore, APartialResultWaitsForTheCall) {
  Ring ring(2);
  ring.submit(1, 0, call_of(Kind::allreduce, 10));  // the only chunk begins at rank 1
  ASSERT_TRUE(ring.deliver(1));
  EXPECT_TRUE(ring.complete[0].empty());
  ring.submit(0, 0, call_of(Kind::allreduce, 10));
  EXPECT_EQ(ring.complete[0], std::vector<Sequence>{0});
  ASSERT_TRUE(ring.deliver(0));
  EXPECT_EQ(ring.complete[1], std::vector<Sequence>{0});
}

TEST(RingCore, NeverBeginsBeyondItsWindow) {
  Ring ring(2);  // bulk window: 2
  ring.submit(0, 0, call_of(Kind::allreduce, 100'000));
  EXPECT_EQ(ring.lanes()[0].size(), 1u);  // of numbers 0 and 1 it begins one
  ring.submit(0, 1, call_of(Kind::allreduce, 10));
  EXPECT_EQ(ring.lanes()[0].size(), 1u);  // small ones begin at rank 1
  Prng random(3);
  ring.submit(1, 0, call_of(Kind::allreduce, 100'000));
  ring.submit(1, 1, call_of(Kind::allreduce, 10));
  ring.run(random);
  EXPECT_EQ(ring.complete[0].size(), 2u);
  EXPECT_EQ(ring.complete[1].size(), 2u);
}

TEST(RingCore, AFrameThatComesAgainIsRefused) {
  Ring ring(3);
  ring.submit(1, 0, call_of(Kind::allreduce, 10));
  const wire::Header frame = ring.lanes()[1].front();
  ASSERT_TRUE(ring.deliver(1));
  EXPECT_EQ(ring.core(2).on_frame(frame).code(), Code::protocol_error);
  ring.submit(2, 0, call_of(Kind::allreduce, 10));
  EXPECT_EQ(ring.core(2).on_frame(frame).code(), Code::protocol_error);
}

TEST(RingCore, RefusesWhatCannotBe) {
  Ring ring(3);
  ring.submit(1, 0, call_of(Kind::allreduce, 10));
  ring.submit(2, 0, call_of(Kind::allreduce, 10));
  const wire::Header good = ring.lanes()[1].front();
  const auto refused = [&](auto change) {
    wire::Header frame = good;
    change(frame);
    const Status status = ring.core(2).on_frame(frame);
    return status.code() == Code::protocol_error ? status.text() : "accepted";
  };
  EXPECT_NE(refused([](wire::Header& h) { h.type = FrameType::contribution; }).find("frame type"), std::string::npos);
  EXPECT_NE(refused([](wire::Header& h) { h.rank = 0; }).find("rank"), std::string::npos);
  EXPECT_NE(refused([](wire::Header& h) { h.epoch = 9; }).find("epoch"), std::string::npos);
  EXPECT_NE(refused([](wire::Header& h) { h.place = 1; }).find("place"), std::string::npos);
  EXPECT_NE(refused([](wire::Header& h) {
              h.type = FrameType::result;
              h.rank = 2;
              h.place = 99;
            }).find("place"),
            std::string::npos);
  // A result for which nothing was contributed.
  EXPECT_NE(refused([&](wire::Header& h) {
              h.type = FrameType::result;
              h.rank = 2;
              h.place = static_cast<std::uint16_t>(h.place + ring.core(2).places() / 2);
            }).find("no contribution"),
            std::string::npos);
}

// A chunk of a call of one: its fold begins at rank 1 and ends at rank 0, whose result goes by rank 1 to rank 2.
TEST(RingCore, PassesOnThatAResultIsNotFinite) {
  for (const bool flagged : {false, true}) {
    Ring ring(3);
    for (std::uint32_t rank = 0; rank < 3; ++rank) ring.submit(rank, 0, call_of(Kind::allreduce, 1));
    ASSERT_TRUE(ring.deliver(1));
    ASSERT_TRUE(ring.deliver(2));
    wire::Header result = ring.lanes()[0].front();
    ASSERT_EQ(result.type, FrameType::result);
    EXPECT_FALSE(result.has(wire::kFlagNonFinite)) << "that is for whoever has the numbers to say";
    if (flagged) result.flags |= wire::kFlagNonFinite;
    ASSERT_TRUE(ring.core(1).on_frame(result));
    RingStep step;
    ASSERT_TRUE(*ring.core(1).next(step));
    EXPECT_EQ(step.nonfinite, flagged);
    EXPECT_EQ(step.header.has(wire::kFlagNonFinite), flagged);
  }
}

TEST(RingCore, RefusesThatABarrierIsNotFinite) {
  Ring ring(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) ring.submit(rank, 0, call_of(Kind::barrier, 0));
  std::uint32_t maker = 3;
  for (int turn = 0; turn < 9 && maker == 3; ++turn) {
    for (std::uint32_t lane = 0; lane < 3; ++lane)
      if (!ring.lanes()[lane].empty() && ring.lanes()[lane].front().type == FrameType::result) maker = lane;
    if (maker == 3) ring.deliver(static_cast<std::uint32_t>(turn) % 3);
  }
  ASSERT_NE(maker, 3u);
  wire::Header result = ring.lanes()[maker].front();
  result.flags |= wire::kFlagNonFinite;
  EXPECT_NE(ring.core((maker + 1) % 3).on_frame(result).text().find("nonfinite flag"), std::string::npos);
}

TEST(RingCore, WrongSizesAreFoundWhenTheFoldMayGoOn) {
  const auto verdict = [](auto change) {
    Ring ring(3);
    ring.submit(1, 0, call_of(Kind::allreduce, 10));
    wire::Header frame = ring.lanes()[1].front();
    change(frame);
    EXPECT_TRUE(ring.core(2).on_frame(frame));
    ring.core(2).submit(0, call_of(Kind::allreduce, 10));
    RingStep step;
    const auto more = ring.core(2).next(step);
    return more ? "accepted" : more.error().text();
  };
  EXPECT_NE(verdict([](wire::Header& h) { h.payload_bytes += 4; }).find("payload"), std::string::npos);
  EXPECT_NE(verdict([](wire::Header& h) { h.contributors = 2; }).find("contributors"), std::string::npos);
  EXPECT_NE(verdict([](wire::Header& h) { h.element_offset = 1; }).find("offset"), std::string::npos);
  EXPECT_EQ(verdict([](wire::Header&) {}), "accepted");
}

TEST(RingCore, ABarrierWaitsForEverythingBefore) {
  Ring ring(2);
  Prng random(5);
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    ring.submit(rank, 0, call_of(Kind::allreduce, 50'000));
    ring.submit(rank, 1, call_of(Kind::barrier, 0));
  }
  ring.run(random);
  for (std::uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(ring.complete[rank], (std::vector<Sequence>{0, 1}));
}

// Everything ends everywhere, whatever the sizes, windows and the order in which lanes move.
TEST(RingCore, ManyCallsInAnyInterleaving) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    Prng random(seed);
    const auto n = static_cast<std::uint32_t>(random.between(1, 6));
    Ring ring(n, random.chance(50) ? RingOrder::ring : RingOrder::rank,
              static_cast<std::uint16_t>(random.between(1, 3)));
    const std::vector<wire::CallDescription> calls = draw_calls(random, n);
    ring.submit_and_run(random, calls, calls, 0);
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      EXPECT_EQ(ring.complete[rank].size(), calls.size()) << "seed " << seed << " rank " << rank;
      EXPECT_TRUE(ring.core(rank).calls().empty());
    }
    for (const auto& [key, order] : ring.order) EXPECT_EQ(order.size(), n) << "seed " << seed;
  }
}

// Whatever a neighbour sends, valid or not: an error or a stop, nothing else.
TEST(RingCore, SurvivesAnyHeader) {
  const wire::JobSettings settings{4096, 2, 2, 1024, wire::Mode::ring, RingOrder::ring};
  std::uint64_t accepted = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    Prng random(seed);
    RingCore core(CommunicatorId(0), Rank(1), 3, Epoch(1), settings);
    Sequence next = 0;
    RingStep step;
    std::vector<wire::Header> sent;
    bool alive = true;
    for (int i = 0; i < 60 && alive; ++i) {
      if (random.chance(20)) core.submit(next++, call_of(Kind::allreduce, random.below(3000)));
      while (alive) {
        const auto more = core.next(step);
        alive = more.has_value();
        if (!more || !*more) break;
        if (step.passes && step.kind != RingStep::Kind::disagree) sent.push_back(step.header);
      }
      wire::Header header = sent.empty() ? wire::Header{} : sent[random.below(sent.size())];
      header.type = random.chance(50) ? FrameType::partial : FrameType::result;
      header.rank = header.type == FrameType::partial ? 0 : 1;
      header.epoch = 1u;
      if (random.chance(50)) header.place = static_cast<std::uint16_t>(random.below(core.places() + 2u));
      if (random.chance(30)) header.sequence = random.below(next + 2);
      if (random.chance(30)) header.chunk = static_cast<std::uint32_t>(random.below(5));
      if (random.chance(30)) header.contributors = static_cast<std::uint32_t>(random.below(5));
      if (random.chance(10)) header.payload_bytes = static_cast<std::uint32_t>(random.below(5000));
      if (random.chance(10)) header.signature = random.next();
      const Status status = core.on_frame(header);
      ++(status ? accepted : refused);
      EXPECT_TRUE(status || status.code() == Code::protocol_error) << status.to_string();
    }
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(RingLayout, EveryRankEndsAsManyChunks) {
  const wire::JobSettings settings{126976, 4, 4, 16384, wire::Mode::ring, RingOrder::ring};
  for (const std::uint32_t n : {2u, 3u, 4u, 7u}) {
    for (const std::uint64_t count : {8192ull, 100'000ull, 4'194'304ull, 12'345'678ull}) {
      const ChunkLayout layout = ring_layout(call_of(Kind::allreduce, count), n, settings, 4);
      EXPECT_LE(layout.most_elements() * 4, settings.chunk_bytes);
      EXPECT_EQ(layout.chunks() % n, 0u) << n << " ranks, " << count;
    }
  }
  // Partial results of bf16 are fp32 and have to fit.
  wire::CallDescription narrow = call_of(Kind::allreduce, 1'000'000);
  narrow.dtype = narrow.wire_dtype = DType::bf16;
  EXPECT_LE(ring_layout(narrow, 2, settings, 4).most_elements() * 4, settings.chunk_bytes);
  // Small calls stay in one chunk.
  EXPECT_EQ(ring_layout(call_of(Kind::allreduce, 4096), 4, settings, 4).chunks(), 1u);
}

}  // namespace
}  // namespace redsum::client
