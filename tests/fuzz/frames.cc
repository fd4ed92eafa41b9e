// SPDX-License-Identifier: Apache-2.0
// The TCP reader: any bytes, cut anywhere. Nothing is written outside the places, and how the stream was cut makes no
// difference. The first byte of the input says whether the headers are sealed first, so that more than the CRC is
// tested.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/prng.h"
#include "transport/tcp/lane.h"
#include "transport/tcp/socket.h"

namespace {

using namespace redsum;

constexpr std::size_t kPlaceBytes = 700;  // some payloads are small for the reader, some are not
constexpr std::uint16_t kPlaces = 4, kHidden = 2;
constexpr std::byte kGuard{0xA5};

class Outcome final : public tcp::FrameReader::Target {
 public:
  Outcome() : memory_(2 * kTableBytes, kGuard) {
    for (std::uint16_t c = 0; c < 2; ++c) reader.expose(c, table(c));
    reader.hide(kHidden);
  }
  void on_frame(const wire::Header& header, Bytes payload) override {
    REDSUM_CHECK(!stopped_ && wire::check_header(header) == nullptr);
    REDSUM_CHECK(header.communicator < 2 && header.place < kPlaces && payload.size() == header.payload_bytes);
    const transport::PlaceTable at = table(header.communicator);
    REDSUM_CHECK(payload.size() <= kPlaceBytes && payload.data() == at.first + header.place * at.stride);
    facts.push_back(header.header_crc);
    facts.push_back(wire::crc32c(payload));
    REDSUM_CHECK(!hidden_[header.communicator]);
    if (header.chunk % 16 == 1) reader.hide(header.communicator), hidden_[header.communicator] = true;
    if (header.chunk % 16 == 2) reader.expose(0, table(0)), hidden_[0] = false;
    if (header.chunk % 16 == 3) reader.stop(), stopped_ = true;
  }
  bool stopped() const { return stopped_; }
  void check_guards() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if (i % kStride < kStride - kPlaceBytes) REDSUM_CHECK(memory_[i] == kGuard);
  }

  tcp::FrameReader reader;
  std::vector<std::uint32_t> facts;

 private:
  static constexpr std::size_t kStride = kPlaceBytes + wire::kHeaderBytes;
  static constexpr std::size_t kTableBytes = kStride * kPlaces;
  transport::PlaceTable table(std::uint16_t communicator) {
    return {memory_.data() + communicator * kTableBytes + wire::kHeaderBytes, kStride, kPlaceBytes, kPlaces};
  }
  std::vector<std::byte> memory_;
  bool stopped_ = false;
  bool hidden_[2] = {};
};

std::vector<std::uint32_t> read_in_pieces(ConstBytes stream, std::size_t most_bytes) {
  int ends[2];
  REDSUM_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  tcp::Socket from(ends[0]), to(ends[1]);
  static std::vector<std::byte> scratch(1000);
  Outcome outcome;
  transport::Transport::Counters counters;
  Status why;
  Prng random(stream.size());
  tcp::Moved moved = tcp::Moved::all;
  bool ended = false;
  while (moved != tcp::Moved::broken && !outcome.stopped()) {
    const std::size_t piece = std::min(stream.size(), random.between(1, most_bytes));
    if (piece) {
      const ssize_t sent = ::send(from.descriptor(), stream.data(), piece, MSG_NOSIGNAL);
      if (sent > 0) stream = stream.subspan(static_cast<std::size_t>(sent));
    } else if (!ended) {
      ::shutdown(from.descriptor(), SHUT_WR);
      ended = true;
    }
    moved = outcome.reader.read(to.descriptor(), ended, scratch, outcome, counters, why);
  }
  outcome.check_guards();
  outcome.facts.push_back(static_cast<std::uint32_t>(why.code()));
  outcome.facts.push_back(static_cast<std::uint32_t>(counters.frames_dropped));
  REDSUM_CHECK(outcome.stopped() || !why.text().empty());
  return outcome.facts;
}

void seal_headers(std::vector<std::byte>& stream) {
  for (std::size_t at = 0; stream.size() - at >= wire::kHeaderBytes;) {
    wire::Header header;
    std::memcpy(&header, stream.data() + at, sizeof header);
    header.magic = wire::kMagic;
    header.version = wire::kVersion;
    header.payload_bytes %= static_cast<std::uint32_t>(2 * kPlaceBytes);
    wire::seal(header);
    std::memcpy(stream.data() + at, &header, sizeof header);
    at = std::min(stream.size(), at + wire::kHeaderBytes + header.payload_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ConstBytes input = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> stream(input.begin(), input.end());
  if (data[0] & 1) seal_headers(stream);
  const std::vector<std::uint32_t> whole = read_in_pieces(stream, stream.size() + 1);
  REDSUM_CHECK(read_in_pieces(stream, 100) == whole);
  return 0;
}
