// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/conformance.h"

namespace redsum::test {

std::vector<std::byte> bytes_from(std::uint64_t seed, std::size_t count) {
  Prng prng(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(prng.next());
  return bytes;
}

wire::Header frame(std::uint16_t communicator, std::uint16_t place, std::size_t payload_bytes, std::uint64_t sequence) {
  wire::Header header;
  header.dtype = DType::uint8;
  header.communicator = communicator;
  header.place = place;
  header.payload_bytes = static_cast<std::uint32_t>(payload_bytes);
  header.sequence = sequence;
  header.contributors = 1;
  return header;
}

Conformance::Conformance() : backend_(GetParam().make()) {
  for (int side = 0; side < 2; ++side) transport_[side] = &backend_->open(side, sink_[side]);
}

Conformance::LanePair Conformance::connect() {
  auto links = backend_->connect();
  return {{transport_[0]->adopt(std::move(links.first)), transport_[1]->adopt(std::move(links.second))}};
}

transport::LaneId Conformance::connect_raw(Backend::Raw& raw) {
  raw = backend_->connect_raw();
  return raw.link ? transport_[0]->adopt(std::move(raw.link)) : transport::LaneId(0);
}

void Conformance::until(const std::string& what, const std::function<bool()>& reached) {
  constexpr int kMostTurns = 100'000;
  for (int i = 0; i < kMostTurns; ++i) {
    if (reached()) return;
    backend_->turn();
  }
  FAIL() << "never came: " << what;
}

}  // namespace redsum::test
