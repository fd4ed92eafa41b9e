// SPDX-License-Identifier: Apache-2.0
// sent() gives payloads back in order, and never one that is still to be read: the tests write over every payload as
// soon as it is theirs again, so that a count that runs ahead shows up as wrong bytes at the peer.
#include <algorithm>

#include "tests/transport/conformance.h"

namespace redsum::test {
namespace {

constexpr std::size_t kBig = 1u << 20;

// The payloads that an owner has deposited on one lane, in order.
struct Owned {
  const std::vector<std::byte>& add(std::uint64_t seed, std::size_t bytes) {
    original.push_back(bytes_from(seed, bytes));
    return memory.emplace_back(original.back());
  }
  void overwrite(std::size_t i) { std::fill(memory[i].begin(), memory[i].end(), std::byte{0xEE}); }
  void overwrite_until(std::uint64_t count) {
    for (; free < std::min<std::uint64_t>(count, memory.size()); ++free) overwrite(free);
  }
  std::vector<std::vector<std::byte>> original, memory;  // moving a vector leaves its bytes where they are
  std::size_t free = 0;
};

TEST_P(Conformance, SentGrowsInOrderToTheNumberOfDeposits) {
  const LanePair lane = connect();
  constexpr std::uint16_t kFrames = 40;
  Places places(kFrames, 300'000);
  expose(1, lane.ends[1], 1, places);
  EXPECT_EQ(transport_[0]->sent(lane.ends[0]), 0u);
  Owned owned;
  std::uint64_t last = 0;
  const auto look = [&] {
    const std::uint64_t now = transport_[0]->sent(lane.ends[0]);
    EXPECT_GE(now, last);
    EXPECT_LE(now, owned.memory.size());
    EXPECT_EQ(transport_[0]->drained(lane.ends[0]), now == owned.memory.size());
    last = now;
    owned.overwrite_until(now);
  };
  for (std::uint16_t i = 0; i < kFrames; ++i) {
    const std::size_t size = i % 5 == 0 ? 0 : (i * 7919u) % 300'000;
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, i, size, i), owned.add(i, size)));
    look();
    if (i % 4 == 0) backend_->turn();
    look();
  }
  until("all frames", [&] {
    look();
    return sink_[1].arrivals.size() == kFrames;
  });
  for (std::uint16_t i = 0; i < kFrames; ++i) EXPECT_EQ(sink_[1].arrivals[i].payload, owned.original[i]) << i;
  EXPECT_EQ(transport_[0]->sent(lane.ends[0]), kFrames) << "the peer has everything";
  EXPECT_EQ(transport_[1]->sent(lane.ends[1]), 0u) << "each end counts its own";
}

TEST_P(Conformance, WhatIsSentArrivesThoughTheLaneIsClosedAtOnce) {
  for (const std::size_t bytes : {0u, 100u, 200'000u}) {
    const LanePair lane = connect();
    Places places(1, 200'000);
    expose(1, lane.ends[1], 1, places);
    const auto payload = bytes_from(1, bytes);
    const std::size_t before = sink_[1].arrivals.size();
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, bytes, 1), payload));
    if (transport_[0]->sent(lane.ends[0]) == 0)  // small ones wait for the end of the turn
      until("sent", [&] { return transport_[0]->sent(lane.ends[0]) == 1; });
    transport_[0]->hide(lane.ends[0], CommunicatorId(1));
    transport_[0]->close(lane.ends[0]);
    until("arrival", [&] { return sink_[1].arrivals.size() == before + 1; });
  }
}

// A socket that is closed over bytes it has not read tells the peer to forget what it has not read either.
TEST_P(Conformance, WhatIsSentArrivesThoughTheLaneIsClosedOverUnreadFrames) {
  const LanePair lane = connect();
  Places places(1, 200'000), back(1, 200'000);
  expose(1, lane.ends[1], 1, places);
  expose(0, lane.ends[0], 1, back);
  const auto payload = bytes_from(1, 200'000), unread = bytes_from(2, 200'000);
  ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, 200'000, 1), payload));
  ASSERT_TRUE(deposit(1, lane.ends[1], frame(1, 0, 200'000, 2), unread));
  if (transport_[0]->sent(lane.ends[0]) == 0) until("sent", [&] { return transport_[0]->sent(lane.ends[0]) == 1; });
  transport_[0]->hide(lane.ends[0], CommunicatorId(1));
  transport_[0]->close(lane.ends[0]);
  until("arrival", [&] { return sink_[1].arrivals.size() == 1; });
  EXPECT_EQ(sink_[1].arrivals[0].payload, payload);
  until("the end of the lane", [&] { return !sink_[1].losses.empty(); });
}

TEST_P(Conformance, SentStaysBelowTheDepositsWhileThePeerTakesNothing) {
  const LanePair lane = connect();
  Places places(1, kBig);
  expose(1, lane.ends[1], 1, places);
  const auto payload = bytes_from(1, kBig);
  constexpr std::uint64_t kFrames = 64;  // more than the buffers of a connection hold
  sink_[1].keep_payload = false;
  for (std::uint64_t i = 0; i < kFrames; ++i) ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, kBig, i), payload));
  for (int i = 0; i < 100; ++i) transport_[0]->poll();
  EXPECT_LT(transport_[0]->sent(lane.ends[0]), kFrames);
  EXPECT_FALSE(transport_[0]->drained(lane.ends[0]));
  until("all sent", [&] { return transport_[0]->sent(lane.ends[0]) == kFrames; });
  EXPECT_TRUE(transport_[0]->drained(lane.ends[0]));
}

TEST_P(Conformance, WhatHideForgetsIsSentButOvertakesNothing) {
  for (int turns_before = 0; turns_before < 6; ++turns_before) {
    const LanePair lane = connect();
    constexpr std::uint16_t kFrames = 8;
    Places hidden(kFrames, kBig), kept(kFrames, kBig), fresh(1, 100);
    expose(1, lane.ends[1], 1, hidden);
    expose(1, lane.ends[1], 2, kept);
    expose(1, lane.ends[1], 3, fresh);
    Owned owned;
    const std::size_t before = sink_[1].arrivals.size();
    for (std::uint16_t i = 0; i < kFrames; ++i)
      ASSERT_TRUE(deposit(0, lane.ends[0], frame(i % 2 ? 1 : 2, i, kBig, i), owned.add(i, kBig)));
    turns(turns_before);
    const std::uint64_t sent_before = transport_[0]->sent(lane.ends[0]);
    transport_[0]->hide(lane.ends[0], CommunicatorId(1));
    EXPECT_GE(transport_[0]->sent(lane.ends[0]), sent_before);
    for (std::size_t i = 1; i < kFrames; i += 2) owned.overwrite(i);  // ours, whatever sent() says
    const auto kept_arrivals = [&] {
      return std::count_if(sink_[1].arrivals.begin() + static_cast<std::ptrdiff_t>(before), sink_[1].arrivals.end(),
                           [](const Arrival& arrival) { return arrival.header.communicator == 2; });
    };
    until("the kept frames", [&] {
      owned.overwrite_until(transport_[0]->sent(lane.ends[0]));
      return kept_arrivals() == kFrames / 2;
    });
    for (std::size_t i = before; i < sink_[1].arrivals.size(); ++i)
      EXPECT_EQ(sink_[1].arrivals[i].payload, owned.original[sink_[1].arrivals[i].header.sequence]);
    EXPECT_EQ(transport_[0]->sent(lane.ends[0]), kFrames) << "with those that never left";
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(3, 0, 100, kFrames), owned.add(kFrames, 100)));
    until("one more", [&] { return sink_[1].arrivals.back().header.sequence == kFrames; });
    EXPECT_EQ(transport_[0]->sent(lane.ends[0]), kFrames + 1u);
  }
  EXPECT_TRUE(sink_[1].losses.empty());
}

TEST_P(Conformance, HidingAllThatIsQueuedSendsItAtOnce) {
  for (int turns_before = 0; turns_before < 6; ++turns_before) {
    const LanePair lane = connect();
    Places places(4, kBig);
    expose(1, lane.ends[1], 1, places);
    expose(1, lane.ends[1], 2, places);
    const auto payload = bytes_from(1, kBig);
    for (std::uint16_t i = 0; i < 8; ++i)
      ASSERT_TRUE(deposit(0, lane.ends[0], frame(1 + i / 4, i % 4, kBig, i), payload));
    turns(turns_before);
    transport_[0]->hide(lane.ends[0], CommunicatorId(2));
    transport_[0]->hide(lane.ends[0], CommunicatorId(1));
    EXPECT_EQ(transport_[0]->sent(lane.ends[0]), 8u);
    transport_[1]->close(lane.ends[1]);  // the places go
  }
}

TEST_P(Conformance, OfALaneThatIsGoneAllIsSent) {
  constexpr std::uint64_t kAll = transport::Transport::kAllSent;
  const LanePair lane = connect(), other = connect();
  const auto payload = bytes_from(1, kBig);
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, kBig, 0), payload));
  EXPECT_LT(transport_[0]->sent(lane.ends[0]), 64u);
  transport_[1]->close(lane.ends[1]);
  EXPECT_EQ(transport_[1]->sent(lane.ends[1]), kAll);
  until("loss", [&] { return !sink_[0].losses.empty(); });
  EXPECT_EQ(transport_[0]->sent(lane.ends[0]), kAll);
  EXPECT_EQ(transport_[0]->sent(transport::LaneId(~std::uint64_t{0})), kAll);
  EXPECT_EQ(transport_[0]->sent(other.ends[0]), 0u) << "the other lane lives";
}

}  // namespace
}  // namespace redsum::test
