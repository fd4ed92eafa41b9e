// SPDX-License-Identifier: Apache-2.0
// The world of a conformance test: two sides, their sinks that write down what they are told, places in memory, and
// frames whose bytes follow from a seed.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/transport/backend.h"
#include "transport/base/prng.h"

namespace redsum::test {

struct Arrival {
  transport::LaneId lane;
  wire::Header header;
  std::vector<std::byte> payload;
  const std::byte* at = nullptr;
};

class Recorder final : public transport::LaneSink {
 public:
  void on_arrival(transport::LaneId lane, const wire::Header& header, Bytes payload) override {
    if (keep_payload) {
      arrivals.push_back({lane, header, {payload.begin(), payload.end()}, payload.data()});
    } else {
      arrivals.push_back({lane, header, {}, payload.data()});
    }
    if (arrived) arrived(arrivals.back());
  }
  void on_lane_lost(transport::LaneId lane, const Status& why) override {
    losses.emplace_back(lane, why);
    arrivals_at_loss.push_back(arrivals.size());
    if (lost) lost(lane);
  }
  std::size_t losses_of(transport::LaneId lane) const {
    std::size_t count = 0;
    for (const auto& loss : losses) count += loss.first == lane;
    return count;
  }

  bool keep_payload = true;
  std::vector<Arrival> arrivals;
  std::vector<std::pair<transport::LaneId, Status>> losses;
  std::vector<std::size_t> arrivals_at_loss;
  std::function<void(const Arrival&)> arrived;
  std::function<void(transport::LaneId)> lost;
};

// Memory for the places of one communicator on one lane, guarded on both sides.
class Places {
 public:
  Places(std::uint16_t count, std::size_t place_bytes, std::size_t extra_stride = 0)
      : stride_(place_bytes + wire::kHeaderBytes + extra_stride),
        count_(count),
        place_bytes_(place_bytes),
        memory_(wire::kHeaderBytes + stride_ * count, kFill) {}
  transport::PlaceTable table() { return {memory_.data() + wire::kHeaderBytes, stride_, place_bytes_, count_}; }
  std::byte* place(std::uint16_t i) { return table().first + i * stride_; }
  const std::byte* first() const { return memory_.data(); }
  std::vector<std::byte> snapshot() const { return memory_; }
  // Nothing but the places and the 64 bytes before each was written.
  bool gaps_untouched() const {
    for (std::size_t i = 0; i < count_; ++i) {
      const std::size_t end = wire::kHeaderBytes + i * stride_ + place_bytes_;
      const std::size_t next = i + 1 < count_ ? (i + 1) * stride_ : memory_.size();
      for (std::size_t at = end; at < next; ++at) {
        if (memory_[at] != kFill) return false;
      }
    }
    return true;
  }
  static constexpr std::byte kFill{0xA5};

 private:
  std::size_t stride_;
  std::uint16_t count_;
  std::size_t place_bytes_;
  std::vector<std::byte> memory_;
};

std::vector<std::byte> bytes_from(std::uint64_t seed, std::size_t count);
// A header that check_header() accepts, of uint8 elements.
wire::Header frame(std::uint16_t communicator, std::uint16_t place, std::size_t payload_bytes, std::uint64_t sequence);

class Conformance : public ::testing::TestWithParam<BackendFactory> {
 protected:
  Conformance();

  struct LanePair {
    transport::LaneId ends[2];
  };
  LanePair connect();
  transport::LaneId connect_raw(Backend::Raw& raw);  // adopts its link at side 0
  void expose(int side, transport::LaneId lane, std::uint16_t communicator, Places& places) {
    transport_[side]->expose(lane, CommunicatorId(communicator), places.table());
  }
  bool deposit(int side, transport::LaneId lane, const wire::Header& header, ConstBytes payload) {
    return transport_[side]->deposit(lane, header, payload);
  }
  // Turns until `reached`; a failure that says `what` after a bounded number of turns.
  void until(const std::string& what, const std::function<bool()>& reached);
  void turns(int count) {
    for (int i = 0; i < count; ++i) backend_->turn();
  }

  Recorder sink_[2];  // before the backend: it outlives it
  std::unique_ptr<Backend> backend_;
  transport::Transport* transport_[2];
};

}  // namespace redsum::test
