// SPDX-License-Identifier: Apache-2.0
// The end of a lane: closed by its owner, by the peer, or in the middle of a callback.
#include "tests/transport/conformance.h"

namespace redsum::test {
namespace {

TEST_P(Conformance, ALossIsReportedOnceAfterEverythingThatArrivedBefore) {
  const LanePair lane = connect();
  const LanePair other = connect();
  Places places(8, 100'000);
  expose(1, lane.ends[1], 1, places);
  std::vector<std::vector<std::byte>> payloads;
  for (std::uint16_t i = 0; i < 8; ++i) {
    payloads.push_back(bytes_from(i, 100'000u - i));
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, i, payloads[i].size(), i), payloads[i]));
  }
  until("all sent", [&] { return transport_[0]->counters().frames_sent == 8; });
  transport_[0]->close(lane.ends[0]);
  until("loss", [&] { return !sink_[1].losses.empty(); });
  turns(20);
  ASSERT_EQ(sink_[1].losses.size(), 1u);
  EXPECT_EQ(sink_[1].losses[0].first, lane.ends[1]);
  EXPECT_EQ(sink_[1].losses[0].second.code(), Code::peer_lost);
  EXPECT_EQ(sink_[1].arrivals_at_loss[0], 8u);
  for (std::size_t i = 0; i < payloads.size(); ++i) EXPECT_EQ(sink_[1].arrivals[i].payload, payloads[i]);
  EXPECT_TRUE(sink_[0].losses.empty()) << "the owner closed it";
  EXPECT_FALSE(deposit(1, lane.ends[1], frame(1, 0, 0, 0), {}));
  EXPECT_FALSE(deposit(0, lane.ends[0], frame(1, 0, 0, 0), {}));
  EXPECT_TRUE(transport_[0]->drained(lane.ends[0]));
  // Lost and unknown lanes are fine everywhere, and the other lane lives.
  for (int side = 0; side < 2; ++side) {
    transport_[side]->close(lane.ends[side]);
    transport_[side]->hide(lane.ends[side], CommunicatorId(1));
    EXPECT_TRUE(deposit(side, other.ends[side], frame(1, 0, 0, 0), {}));
  }
}

TEST_P(Conformance, LossIsNeverReportedFromInsideADeposit) {
  const LanePair lane = connect();
  transport_[1]->close(lane.ends[1]);
  const auto payload = bytes_from(1, 200'000);
  bool inside = false, reported_inside = false;
  sink_[0].lost = [&](transport::LaneId) { reported_inside |= inside; };
  for (int i = 0; i < 1000 && sink_[0].losses.empty(); ++i) {
    inside = true;
    deposit(0, lane.ends[0], frame(1, 0, payload.size(), 0), payload);
    inside = false;
    backend_->turn();
  }
  until("loss", [&] { return !sink_[0].losses.empty(); });
  turns(10);
  EXPECT_EQ(sink_[0].losses_of(lane.ends[0]), 1u);
  EXPECT_FALSE(reported_inside);
  EXPECT_FALSE(deposit(0, lane.ends[0], frame(1, 0, 0, 0), {}));
}

TEST_P(Conformance, ClosingFromInsideCallbacksIsSafe) {
  std::vector<LanePair> lanes;
  std::vector<Places> places;
  for (int i = 0; i < 8; ++i) places.emplace_back(4, 70'000);
  for (std::size_t i = 0; i < 8; ++i) {
    lanes.push_back(connect());
    expose(1, lanes[i].ends[1], 1, places[i]);
  }
  const auto payload = bytes_from(1, 70'000);
  // The first arrival closes its own lane and all the others, which may have frames under way in the same poll.
  sink_[1].arrived = [&](const Arrival& arrival) {
    transport_[1]->close(arrival.lane);
    for (const LanePair& lane : lanes) transport_[1]->close(lane.ends[1]);
  };
  for (const LanePair& lane : lanes) {
    for (std::uint16_t i = 0; i < 4; ++i)
      ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, i, payload.size(), i), payload));
  }
  // Each loss at the other side closes another lane of it.
  sink_[0].lost = [&](transport::LaneId lost) {
    for (const LanePair& lane : lanes) {
      if (lane.ends[0].value == lost.value + 1) transport_[0]->close(lane.ends[0]);
    }
  };
  until("losses", [&] { return sink_[0].losses.size() >= 4; });
  turns(50);
  EXPECT_EQ(sink_[1].arrivals.size(), 1u);
  EXPECT_TRUE(sink_[1].losses.empty());
  for (const LanePair& lane : lanes) EXPECT_LE(sink_[0].losses_of(lane.ends[0]), 1u);
  const LanePair fresh = connect();
  for (const LanePair& lane : lanes) {
    EXPECT_NE(fresh.ends[0], lane.ends[0]);
    EXPECT_NE(fresh.ends[1], lane.ends[1]);
  }
}

TEST_P(Conformance, DepositsFromInsideCallbacksLeave) {
  const LanePair lane = connect();
  std::vector<Places> places;
  for (int side = 0; side < 2; ++side) places.emplace_back(1, 3000);
  for (int side = 0; side < 2; ++side) expose(side, lane.ends[side], 1, places[static_cast<std::size_t>(side)]);
  const auto payload = bytes_from(9, 3000);
  constexpr std::uint64_t kHops = 500;
  for (int side = 0; side < 2; ++side) {
    sink_[side].arrived = [&, side](const Arrival& arrival) {
      if (arrival.header.sequence < kHops)
        deposit(side, lane.ends[side], frame(1, 0, payload.size(), arrival.header.sequence + 1), payload);
    };
  }
  ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, payload.size(), 0), payload));
  until("all hops", [&] { return sink_[0].arrivals.size() + sink_[1].arrivals.size() == kHops + 1; });
}

}  // namespace
}  // namespace redsum::test
