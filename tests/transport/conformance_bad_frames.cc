// SPDX-License-Identifier: Apache-2.0
// A frame that breaks the protocol costs its sender the lane, with a text that names the field, and nobody else
// anything.
#include <cstddef>

#include "tests/transport/conformance.h"

namespace redsum::test {
namespace {

struct Bad {
  const char* field;  // as the text names it
  std::function<void(wire::Header&)> spoil;
};

const std::vector<Bad>& bad_frames() {
  static const std::vector<Bad> bad = {
      {"type", [](wire::Header& h) { h.type = static_cast<wire::FrameType>(0); }},
      {"type 5", [](wire::Header& h) { h.type = static_cast<wire::FrameType>(5); }},
      {"dtype", [](wire::Header& h) { h.dtype = static_cast<DType>(kDTypeCount); }},
      {"op", [](wire::Header& h) { h.op = static_cast<Op>(kOpCount); }},
      {"op for this dtype 3", [](wire::Header& h) { h.dtype = DType::complex64, h.op = Op::max; }},
      {"flags", [](wire::Header& h) { h.flags |= 1u << 7; }},
      {"kind", [](wire::Header& h) { h.set_kind(static_cast<wire::Kind>(wire::kKindCount)); }},
      {"rank 65536", [](wire::Header& h) { h.rank = wire::kMaxRanks; }},
      {"contributors", [](wire::Header& h) { h.contributors = wire::kMaxRanks + 1; }},
      {"payload bytes", [](wire::Header& h) { h.flags |= wire::kFlagHeaderOnly; }},
      {"payload bytes", [](wire::Header& h) { h.dtype = DType::complex128; }},
      {"communicator 9", [](wire::Header& h) { h.communicator = 9; }},
      {"place 2, limit 2", [](wire::Header& h) { h.place = 2; }},
      {"place 65535", [](wire::Header& h) { h.place = 65535; }},
      {"payload CRC",
       [](wire::Header& h) {
         h.flags |= wire::kFlagPayloadCrc;
         h.payload_crc = 1;
       }},
  };
  return bad;
}

TEST_P(Conformance, SEC_05_ABadFrameEndsItsLaneAndNoOther) {
  const LanePair healthy = connect();
  Places healthy_places(1, 100);
  expose(1, healthy.ends[1], 1, healthy_places);
  const auto payload = bytes_from(1, 100);
  std::uint64_t good = 0;
  for (const Bad& bad : bad_frames()) {
    const LanePair lane = connect();
    Places places(2, 100);
    expose(1, lane.ends[1], 1, places);
    ASSERT_TRUE(deposit(0, lane.ends[0], frame(1, 0, 100, 1000), payload));
    wire::Header header = frame(1, 1, 100, 0);
    bad.spoil(header);
    const std::size_t losses = sink_[1].losses.size();
    deposit(0, lane.ends[0], header, payload);
    deposit(0, lane.ends[0], frame(1, 0, 100, 2000), payload);
    until(bad.field, [&] { return sink_[1].losses.size() == losses + 1; });
    EXPECT_EQ(sink_[1].losses.back().first, lane.ends[1]);
    EXPECT_EQ(sink_[1].losses.back().second.code(), Code::protocol_error) << bad.field;
    EXPECT_NE(sink_[1].losses.back().second.text().find(bad.field), std::string::npos)
        << sink_[1].losses.back().second.text();
    EXPECT_EQ(sink_[1].arrivals.back().header.sequence, 1000u) << "what came before was delivered, nothing after";
    ASSERT_TRUE(deposit(0, healthy.ends[0], frame(1, 0, 100, ++good), payload));
    until("a frame on the healthy lane", [&] { return sink_[1].arrivals.back().header.sequence == good; });
  }
  EXPECT_EQ(sink_[1].losses_of(healthy.ends[1]), 0u);
}

TEST_P(Conformance, SEC_02_APayloadLargerThanThePlaceIsRefusedBeforeAByteIsWritten) {
  const LanePair lane = connect();
  Places places(2, 100);
  expose(1, lane.ends[1], 1, places);
  const auto payload = bytes_from(1, 101);
  deposit(0, lane.ends[0], frame(1, 0, 101, 0), payload);
  until("loss", [&] { return sink_[1].losses.size() == 1; });
  EXPECT_EQ(sink_[1].losses[0].second.code(), Code::protocol_error);
  EXPECT_NE(sink_[1].losses[0].second.text().find("payload bytes 101, limit 100"), std::string::npos)
      << sink_[1].losses[0].second.text();
  EXPECT_TRUE(sink_[1].arrivals.empty());
  EXPECT_TRUE(places.gaps_untouched());
  EXPECT_EQ(places.place(0)[0], Places::kFill);
}

TEST_P(Conformance, AFrameBeforeExposeBreaksTheProtocol) {
  const LanePair lane = connect();
  const auto payload = bytes_from(1, 10);
  deposit(0, lane.ends[0], frame(3, 0, 10, 0), payload);
  until("loss", [&] { return sink_[1].losses.size() == 1; });
  EXPECT_EQ(sink_[1].losses[0].second.code(), Code::protocol_error);
  EXPECT_NE(sink_[1].losses[0].second.text().find("communicator 3"), std::string::npos);
}

TEST_P(Conformance, EveryFlippedBitOfAHeaderOnTheWireIsNoticed) {
  const auto payload = bytes_from(1, 100);
  for (std::size_t bit = 0; bit < 8 * wire::kHeaderBytes; bit += 3) {
    Backend::Raw raw;
    const transport::LaneId lane = connect_raw(raw);
    if (!raw.write) GTEST_SKIP() << "this backend has no byte stream to write to";
    Places places(2, 100);
    expose(0, lane, 1, places);
    wire::Header header = frame(1, 1, 100, 0);
    wire::seal(header);
    std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(&header),
                                 reinterpret_cast<const std::byte*>(&header + 1));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const std::size_t losses = sink_[0].losses.size();
    raw.write(bytes);
    until("loss", [&] { return sink_[0].losses.size() == losses + 1; });
    EXPECT_EQ(sink_[0].losses.back().second.code(), Code::protocol_error) << bit;
    EXPECT_EQ(places.place(1)[0], Places::kFill);
  }
  EXPECT_TRUE(sink_[0].arrivals.empty());
}

TEST_P(Conformance, ALinkCutAtAnyByteIsALossAndNoFrame) {
  const auto payload = bytes_from(1, 300);
  wire::Header header = frame(1, 0, 300, 0);
  wire::seal(header);
  std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(&header),
                               reinterpret_cast<const std::byte*>(&header + 1));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  for (std::size_t cut = 0; cut <= bytes.size(); cut += cut < 70 ? 1 : 49) {
    Backend::Raw raw;
    const transport::LaneId lane = connect_raw(raw);
    if (!raw.write) GTEST_SKIP() << "this backend has no byte stream to write to";
    Places places(1, 300);
    expose(0, lane, 1, places);
    const std::size_t losses = sink_[0].losses.size(), arrivals = sink_[0].arrivals.size();
    raw.write(ConstBytes(bytes).first(cut));
    raw.cut();
    until("loss", [&] { return sink_[0].losses.size() == losses + 1; });
    EXPECT_EQ(sink_[0].losses.back().second.code(), Code::peer_lost);
    EXPECT_EQ(sink_[0].arrivals.size(), arrivals + (cut == bytes.size() ? 1 : 0)) << cut;
  }
}

}  // namespace
}  // namespace redsum::test
