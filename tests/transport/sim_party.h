// SPDX-License-Identifier: Apache-2.0
// Two processes on a simulated network, for the tests of transport/sim and transport/fault.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/sim/sim_network.h"

namespace redsum::sim {

inline constexpr CommunicatorId kWorld{0};
inline constexpr std::size_t kPlaceBytes = 256;
inline constexpr std::uint16_t kPlaces = 8;

// One end: remembers what its sink was told and owns the places of communicator 0.
struct Party final : transport::LaneSink {
  struct Arrival {
    transport::LaneId lane;
    wire::Header header;
    std::vector<std::byte> payload;
    TimeNs time;
  };

  Party(SimNetwork& network_, const std::string& name)
      : network(network_),
        memory((kPlaceBytes + wire::kHeaderBytes) * kPlaces),
        endpoint(network_.make_endpoint(*this, name)) {}

  void on_arrival(transport::LaneId from, const wire::Header& header, Bytes payload) override {
    outside_poll |= !polling;
    arrivals.push_back({from, header, {payload.begin(), payload.end()}, network.now()});
  }
  void on_lane_lost(transport::LaneId from, const Status& why) override {
    outside_poll |= !polling;
    losses.emplace_back(from, why);
    loss_times.push_back(network.now());
  }
  std::size_t poll() {
    polling = true;
    const std::size_t moved = endpoint->poll();
    polling = false;
    return moved;
  }
  // Polls whenever something is there.
  void run_by_wakes() {
    endpoint->on_wake([this] {
      do poll();
      while (!endpoint->arm());
    });
    endpoint->arm();
  }
  transport::PlaceTable places() {
    return {memory.data() + wire::kHeaderBytes, kPlaceBytes + wire::kHeaderBytes, kPlaceBytes, kPlaces};
  }
  Bytes place(std::size_t i) {
    return Bytes(memory).subspan(wire::kHeaderBytes + i * (kPlaceBytes + wire::kHeaderBytes), kPlaceBytes);
  }
  bool deposit(std::uint16_t place, ConstBytes payload, std::uint64_t sequence = 0,
               CommunicatorId communicator = kWorld) {
    wire::Header header;
    header.dtype = DType::uint8;
    header.place = place;
    header.communicator = communicator.value;
    header.sequence = sequence;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    return endpoint->deposit(lane, header, payload);
  }

  SimNetwork& network;
  std::vector<std::byte> memory;
  std::vector<Arrival> arrivals;
  std::vector<std::pair<transport::LaneId, Status>> losses;
  std::vector<TimeNs> loss_times;
  bool polling = false, outside_poll = false;
  transport::LaneId lane;  // to the other party
  std::unique_ptr<SimEndpoint> endpoint;
};

struct Pair {
  explicit Pair(std::uint64_t seed, bool exposed = true)
      : network(seed), left(network, "left"), right(network, "right") {
    SimNetwork::LinkPair link = network.make_link({});
    lane = link.lane;
    left.lane = left.endpoint->adopt(std::move(link.left));
    right.lane = right.endpoint->adopt(std::move(link.right));
    if (!exposed) return;
    left.endpoint->expose(left.lane, kWorld, left.places());
    right.endpoint->expose(right.lane, kWorld, right.places());
  }
  // Until nothing is left to happen, with both polled after every event.
  void run() {
    do {
      left.poll();
      right.poll();
    } while (network.step());
    left.poll();
    right.poll();
  }

  SimNetwork network;
  Party left, right;
  SimLane lane;
};

inline std::vector<std::byte> pattern(std::size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 31 + seed * 17) % 255 + 1);
  return bytes;
}

inline bool equal(ConstBytes a, ConstBytes b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace redsum::sim
