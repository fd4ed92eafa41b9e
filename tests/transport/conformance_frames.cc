// SPDX-License-Identifier: Apache-2.0
// Frames arrive once, in order, byte for byte, in their places and nowhere else.
#include <algorithm>
#include <cstring>

#include "tests/transport/conformance.h"

namespace redsum::test {
namespace {

constexpr std::size_t kMiB = 1u << 20;
const std::size_t kSizes[] = {0, 1, 63, 64, 65, 4096, 65537, kMiB};

TEST_P(Conformance, EverySizeArrivesByteForByteInItsPlace) {
  const LanePair lane = connect();
  Places places(3, kMiB);
  expose(1, lane.ends[1], 7, places);
  std::vector<std::vector<std::byte>> sent;
  std::size_t total = 0;
  for (const std::size_t size : kSizes) {
    const auto number = static_cast<std::uint16_t>(sent.size());
    sent.push_back(bytes_from(number, size));
    total += size + wire::kHeaderBytes;
    wire::Header header = frame(7, number % 3, size, number);
    header.flags = wire::kFlagPayloadCrc;
    header.payload_crc = wire::crc32c(sent.back());
    header.magic = 0;  // filled in by the transport
    ASSERT_TRUE(deposit(0, lane.ends[0], header, sent.back()));
    until("frame", [&] { return sink_[1].arrivals.size() == sent.size(); });
    const Arrival& arrival = sink_[1].arrivals.back();
    EXPECT_EQ(arrival.lane, lane.ends[1]);
    EXPECT_EQ(arrival.header.sequence, number);
    EXPECT_EQ(wire::check_header(arrival.header), nullptr);
    EXPECT_EQ(arrival.at, places.place(number % 3));
    EXPECT_EQ(arrival.payload, sent.back()) << size;
  }
  EXPECT_TRUE(places.gaps_untouched());
  until("sent", [&] { return transport_[0]->counters().frames_sent == sent.size(); });
  EXPECT_TRUE(transport_[0]->drained(lane.ends[0]));
  EXPECT_EQ(transport_[0]->counters().bytes_sent, total);
  EXPECT_EQ(transport_[1]->counters().bytes_received, total);
  EXPECT_EQ(transport_[1]->counters().frames_received, sent.size());
  EXPECT_EQ(transport_[1]->counters().frames_dropped, 0u);
  EXPECT_TRUE(sink_[0].losses.empty() && sink_[1].losses.empty());
}

// A backend may use a redirect or not; either way the bytes lie where it says and nowhere else.
TEST_P(Conformance, ARedirectedFrameLiesWhereItIsReported) {
  const LanePair lane = connect();
  Places places(2, kMiB);
  std::vector<std::byte> other(kMiB, Places::kFill);
  Bytes redirects[2];
  transport::PlaceTable table = places.table();
  table.redirects = redirects;
  transport_[1]->expose(lane.ends[1], CommunicatorId(7), table);
  std::uint64_t sequence = 0;
  for (const std::size_t size : kSizes) {
    for (const std::size_t wanted : {size, size + 1, std::size_t{0}}) {  // only the exact size is redirected
      if (wanted > other.size()) continue;
      const auto payload = bytes_from(++sequence, size);
      const auto before = places.snapshot();
      std::fill(other.begin(), other.end(), Places::kFill);
      redirects[1] = Bytes(other).first(wanted);
      wire::Header header = frame(7, 1, size, sequence);
      header.flags = wire::kFlagPayloadCrc;
      header.payload_crc = wire::crc32c(payload);
      ASSERT_TRUE(deposit(0, lane.ends[0], header, payload));
      until("frame", [&] { return sink_[1].arrivals.size() == sequence; });
      redirects[1] = {};
      const Arrival& arrival = sink_[1].arrivals.back();
      EXPECT_EQ(arrival.payload, payload) << size;
      const bool redirected = arrival.at == other.data();
      EXPECT_EQ(redirected ? wanted : size, size);
      EXPECT_TRUE(redirected || arrival.at == places.place(1));
      const std::size_t written = redirected ? size : 0;
      EXPECT_TRUE(std::all_of(other.begin() + static_cast<std::ptrdiff_t>(written), other.end(),
                              [](std::byte b) { return b == Places::kFill; }));
      if (redirected) {
        const auto after = places.snapshot();
        EXPECT_EQ(std::memcmp(after.data() + (places.place(1) - places.first()),
                              before.data() + (places.place(1) - places.first()), kMiB),
                  0);
      }
    }
  }
  EXPECT_TRUE(sink_[1].losses.empty());
}

TEST_P(Conformance, BothDirectionsAtOnceKeepTheirOrder) {
  const LanePair lane = connect();
  constexpr std::uint16_t kFrames = 200;
  std::vector<Places> places;
  std::vector<std::vector<std::byte>> payloads;
  for (std::uint16_t i = 0; i < kFrames; ++i) payloads.push_back(bytes_from(i, (i * 977u) % 9000));
  for (int side = 0; side < 2; ++side) places.emplace_back(kFrames, 9000);
  for (int side = 0; side < 2; ++side) expose(side, lane.ends[side], 1, places[static_cast<std::size_t>(side)]);
  for (std::uint16_t i = 0; i < kFrames; ++i) {
    for (int side = 0; side < 2; ++side) {
      ASSERT_TRUE(deposit(side, lane.ends[side], frame(1, i, payloads[i].size(), i), payloads[i]));
    }
    if (i % 7 == 0) backend_->turn();
  }
  until("all frames", [&] { return sink_[0].arrivals.size() == kFrames && sink_[1].arrivals.size() == kFrames; });
  for (const Recorder& sink : sink_) {
    for (std::uint16_t i = 0; i < kFrames; ++i) {
      ASSERT_EQ(sink.arrivals[i].header.sequence, i);
      ASSERT_EQ(sink.arrivals[i].payload, payloads[i]);
    }
  }
}

TEST_P(Conformance, ManyLanesWithSeveralCommunicatorsDoNotMix) {
  constexpr std::uint16_t kLanes = 24, kCommunicators = 3, kRounds = 10;
  const std::size_t place_bytes[kCommunicators] = {100, 5000, 40000};
  std::vector<LanePair> lanes;
  std::vector<Places> places;
  for (std::uint16_t i = 0; i < kLanes; ++i) {
    lanes.push_back(connect());
    for (std::uint16_t c = 0; c < kCommunicators; ++c) places.emplace_back(2, place_bytes[c], 64u * c);
  }
  std::vector<std::vector<std::byte>> payloads(std::size_t{kLanes} * kCommunicators * kRounds);
  const auto index = [&](std::size_t lane, std::size_t c, std::size_t round) {
    return (lane * kCommunicators + c) * kRounds + round;
  };
  for (std::uint16_t i = 0; i < kLanes; ++i) {
    for (std::uint16_t c = 0; c < kCommunicators; ++c) expose(1, lanes[i].ends[1], c, places[i * kCommunicators + c]);
  }
  for (std::uint16_t round = 0; round < kRounds; ++round) {
    for (std::uint16_t i = 0; i < kLanes; ++i) {
      for (std::uint16_t c = 0; c < kCommunicators; ++c) {
        auto& payload = payloads[index(i, c, round)];
        payload = bytes_from(index(i, c, round), place_bytes[c] - round);
        ASSERT_TRUE(deposit(0, lanes[i].ends[0], frame(c, round % 2, payload.size(), round), payload));
      }
    }
  }
  until("all frames", [&] { return sink_[1].arrivals.size() == payloads.size(); });
  std::vector<std::uint64_t> next(std::size_t{kLanes} * kCommunicators);
  for (const Arrival& arrival : sink_[1].arrivals) {
    const auto lane =
        std::find_if(lanes.begin(), lanes.end(), [&](const LanePair& l) { return l.ends[1] == arrival.lane; });
    ASSERT_NE(lane, lanes.end());
    const auto i = static_cast<std::size_t>(lane - lanes.begin());
    const std::size_t c = arrival.header.communicator;
    ASSERT_EQ(arrival.header.sequence, next[i * kCommunicators + c]++);
    ASSERT_EQ(arrival.payload, payloads[index(i, c, arrival.header.sequence)]);
  }
  for (const Places& p : places) EXPECT_TRUE(p.gaps_untouched());
}

TEST_P(Conformance, AFloodOfSmallFramesArrivesInOrder) {
  const LanePair lane = connect();
  Places places(4, 64);
  expose(1, lane.ends[1], 1, places);
  constexpr std::uint64_t kFrames = 20'000;
  const auto payload = bytes_from(1, 48);
  sink_[1].keep_payload = false;
  for (std::uint64_t i = 0; i < kFrames; ++i) {
    const std::size_t size = i % 3 == 0 ? 0 : i % 49;
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, i % 4, size, i), ConstBytes(payload).first(size)));
  }
  until("all frames", [&] { return sink_[1].arrivals.size() == kFrames; });
  for (std::uint64_t i = 0; i < kFrames; ++i) ASSERT_EQ(sink_[1].arrivals[i].header.sequence, i);
}

TEST_P(Conformance, TheHeaderIsCopiedAtOnceThePayloadIsReadLater) {
  const LanePair lane = connect();
  Places places(1, 4096);
  expose(1, lane.ends[1], 1, places);
  const auto payload = bytes_from(3, 4096);
  {
    auto header = std::make_unique<wire::Header>(frame(1, 0, payload.size(), 5));
    ASSERT_TRUE(deposit(0, lane.ends[0], *header, payload));
    std::memset(static_cast<void*>(header.get()), 0xFF, sizeof *header);
  }
  until("frame", [&] { return sink_[1].arrivals.size() == 1; });
  EXPECT_EQ(sink_[1].arrivals[0].header.sequence, 5u);
  EXPECT_EQ(sink_[1].arrivals[0].payload, payload);
}

TEST_P(Conformance, AnArmedSleeperIsWokenByAnArrival) {
  const LanePair lane = connect();
  Places places(1, 4096);
  expose(1, lane.ends[1], 1, places);
  turns(10);
  const auto payload = bytes_from(3, 4096);
  for (std::size_t round = 1; round <= 20; ++round) {
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, payload.size(), round), payload));
    transport_[0]->poll();
    // The sleeper alone: if its wake-up were lost it would sleep for the whole limit each time, and run out of tries.
    for (int tries = 0; tries < 50 && sink_[1].arrivals.size() < round; ++tries) backend_->sleep(1, 10 * kSecond);
    ASSERT_EQ(sink_[1].arrivals.size(), round);
  }
}

}  // namespace
INSTANTIATE_TEST_SUITE_P(Over, Conformance, ::testing::ValuesIn(backends()),
                         [](const auto& backend) { return backend.param.name; });
}  // namespace redsum::test
