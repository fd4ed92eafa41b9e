// SPDX-License-Identifier: Apache-2.0
// After hide() the transport touches no memory of that communicator, the others on the lane go on.
#include <algorithm>
#include <cstring>

#include "tests/transport/conformance.h"

namespace redsum::test {
namespace {

constexpr std::size_t kBig = 1u << 20;

TEST_P(Conformance, HidingAtTheReceiverInTheMiddleOfAFrame) {
  for (int turns_before = 0; turns_before < 6; ++turns_before) {
    const LanePair lane = connect();
    Places hidden(2, kBig), kept(2, kBig);
    expose(1, lane.ends[1], 1, hidden);
    expose(1, lane.ends[1], 2, kept);
    const auto payload = bytes_from(1, kBig);
    const std::size_t before = sink_[1].arrivals.size();
    for (std::uint16_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, i, kBig, i), payload));
      ASSERT_TRUE(deposit(0, lane.ends[0], frame(2, i, kBig, i), payload));
    }
    turns(turns_before);
    transport_[1]->hide(lane.ends[1], CommunicatorId(1));
    const auto as_left = hidden.snapshot();
    const auto arrivals_of = [&](std::uint16_t communicator) {
      std::size_t count = 0;
      for (std::size_t i = before; i < sink_[1].arrivals.size(); ++i)
        count += sink_[1].arrivals[i].header.communicator == communicator;
      return count;
    };
    const std::size_t delivered = arrivals_of(1);
    until("the other communicator's frames", [&] { return arrivals_of(2) == 2; });
    EXPECT_EQ(arrivals_of(1), delivered);
    EXPECT_EQ(hidden.snapshot(), as_left) << "written after hide()";
    EXPECT_EQ(std::memcmp(kept.place(1), payload.data(), kBig), 0);
    // Exposed again, it works again.
    expose(1, lane.ends[1], 1, hidden);
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 1, 100, 9), ConstBytes(payload).first(100)));
    until("a frame after exposing again", [&] { return arrivals_of(1) == delivered + 1; });
  }
  EXPECT_TRUE(sink_[1].losses.empty());
}

TEST_P(Conformance, HidingEndsTheWritingOfRedirectedMemoryToo) {
  for (int turns_before = 0; turns_before < 6; ++turns_before) {
    const LanePair lane = connect();
    Places places(1, kBig);
    std::vector<std::byte> other(kBig);
    const Bytes redirect(other);
    transport::PlaceTable table = places.table();
    table.redirects = &redirect;
    transport_[1]->expose(lane.ends[1], CommunicatorId(1), table);
    const auto payload = bytes_from(1, kBig);
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, kBig, 0), payload));
    turns(turns_before);
    transport_[1]->hide(lane.ends[1], CommunicatorId(1));
    std::fill(other.begin(), other.end(), Places::kFill);  // ours again
    until("the frame's end", [&] { return transport_[0]->drained(lane.ends[0]); });
    turns(20);
    EXPECT_TRUE(std::all_of(other.begin(), other.end(), [](std::byte b) { return b == Places::kFill; }));
  }
  EXPECT_TRUE(sink_[1].losses.empty());
}

TEST_P(Conformance, HidingAtTheSenderForgetsWhatHasNotBegun) {
  for (int turns_before = 0; turns_before < 6; ++turns_before) {
    const LanePair lane = connect();
    Places first(8, kBig), second(1, kBig);
    expose(1, lane.ends[1], 1, first);
    expose(1, lane.ends[1], 2, second);
    auto payload = bytes_from(1, kBig);
    const auto original = payload;
    const std::size_t before = sink_[1].arrivals.size();
    for (std::uint16_t i = 0; i < 8; ++i) ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, i, kBig, i), payload));
    turns(turns_before);
    transport_[0]->hide(lane.ends[0], CommunicatorId(1));
    EXPECT_TRUE(transport_[0]->drained(lane.ends[0]));
    std::fill(payload.begin(), payload.end(), std::byte{0});  // ours again
    const auto other = bytes_from(2, kBig);
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(2, 0, kBig, 77), other));
    until("the other communicator's frame",
          [&] { return sink_[1].arrivals.size() > before && sink_[1].arrivals.back().header.communicator == 2; });
    EXPECT_EQ(sink_[1].arrivals.back().payload, other);
    for (std::size_t i = before; i + 1 < sink_[1].arrivals.size(); ++i) {
      EXPECT_EQ(sink_[1].arrivals[i].header.sequence, i - before);
      EXPECT_EQ(sink_[1].arrivals[i].payload, original) << "a frame that was begun ends with the bytes it began with";
    }
  }
  EXPECT_TRUE(sink_[1].losses.empty());
}

TEST_P(Conformance, DroppedFramesAreCounted) {
  const LanePair lane = connect();
  Places places(1, 100), other(1, 100);
  expose(1, lane.ends[1], 1, places);
  expose(1, lane.ends[1], 2, other);
  transport_[1]->hide(lane.ends[1], CommunicatorId(1));
  const auto payload = bytes_from(1, 100);
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, 100, i), payload));
  ASSERT_TRUE(deposit(0, lane.ends[0], frame(2, 0, 100, 5), payload));
  until("frame", [&] { return sink_[1].arrivals.size() == 1; });
  EXPECT_EQ(sink_[1].arrivals[0].header.sequence, 5u);
  EXPECT_EQ(transport_[1]->counters().frames_dropped, 5u);
}

TEST_P(Conformance, HidingFromInsideAnArrival) {
  const LanePair lane = connect();
  Places places(4, 60'000);
  expose(1, lane.ends[1], 1, places);
  const auto payload = bytes_from(1, 60'000);
  sink_[1].arrived = [&](const Arrival& arrival) { transport_[1]->hide(arrival.lane, CommunicatorId(1)); };
  for (std::uint16_t i = 0; i < 4; ++i) ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, i, payload.size(), i), payload));
  until("all dropped", [&] { return transport_[1]->counters().frames_dropped == 3; });
  EXPECT_EQ(sink_[1].arrivals.size(), 1u);
  EXPECT_EQ(places.place(1)[0], Places::kFill);
}

}  // namespace
}  // namespace redsum::test
