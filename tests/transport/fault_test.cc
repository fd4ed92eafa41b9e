// SPDX-License-Identifier: Apache-2.0
// The fault decorator over the simulated network: late and broken, but never out of order and never wrong.
#include "transport/fault/fault_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/transport/sim_party.h"

namespace redsum::fault {
namespace {

using sim::kWorld;
using sim::pattern;
using transport::LaneId;

// The left side is decorated, the right one is plain.
struct World final : transport::LaneSink {
  World(std::uint64_t seed, Plan plan) : network(seed), right(network, "right") {
    plan.seed = seed;
    left = FaultTransport::make(*this, plan,
                                [&](transport::LaneSink& sink) { return network.make_endpoint(sink, "left"); });
    sim::SimNetwork::LinkPair link = network.make_link({});
    lane = left->adopt(std::move(link.left));
    right.lane = right.endpoint->adopt(std::move(link.right));
    left->expose(lane, kWorld, memory.places());
    right.endpoint->expose(right.lane, kWorld, right.places());
  }
  void on_arrival(LaneId, const wire::Header& header, Bytes payload) override {
    outside |= !polling;
    arrivals.push_back(header.sequence);
    poll_of.push_back(polls);
    wrong += !sim::equal(payload, pattern(payload.size(), static_cast<unsigned>(header.sequence)));
  }
  void on_lane_lost(LaneId, const Status& why) override {
    outside |= !polling;
    losses.push_back(why);
    arrivals_at_loss = arrivals.size();
  }
  void poll() {
    ++polls;
    polling = true;
    left->poll();
    polling = false;
    right.poll();
  }
  void run() {
    do poll();
    while (network.step() || !left->arm());
  }
  bool deposit(std::uint64_t sequence, ConstBytes payload, CommunicatorId communicator = kWorld) {
    wire::Header header;
    header.communicator = communicator.value;
    header.dtype = DType::uint8;
    header.place = static_cast<std::uint16_t>(sequence % sim::kPlaces);
    header.sequence = sequence;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    return left->deposit(lane, header, payload);
  }

  sim::SimNetwork network;
  sim::Party right;
  sim::Party memory{network, "memory"};  // lends its places to the left side
  std::unique_ptr<FaultTransport> left;
  LaneId lane;
  std::vector<std::uint64_t> arrivals;
  std::vector<int> poll_of;
  std::vector<Status> losses;
  std::size_t arrivals_at_loss = 0;
  int polls = 0, wrong = 0;
  bool polling = false, outside = false;
};

std::vector<std::vector<std::byte>> payloads(std::size_t count) {
  std::vector<std::vector<std::byte>> all;
  for (unsigned i = 0; i < count; ++i) all.push_back(pattern(20 + i, i));
  return all;
}

TEST(Fault, the_default_plan_changes_nothing) {
  World world(1, {});
  const auto data = payloads(8);
  for (std::uint64_t i = 0; i < 8; ++i) {
    world.right.deposit(static_cast<std::uint16_t>(i), data[i], i);
    world.deposit(i, data[i]);
  }
  world.run();
  EXPECT_EQ(world.arrivals.size(), 8u);
  EXPECT_EQ(world.right.arrivals.size(), 8u);
  EXPECT_EQ(world.wrong, 0);
  const FaultTransport::Injected injected = world.left->injected();
  EXPECT_EQ(injected.late_arrivals + injected.late_deposits + injected.broken_lanes, 0u);
}

TEST(Fault, late_arrivals_keep_order_and_bytes) {
  std::set<int> distances;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Plan plan;
    plan.late_arrival_percent = 40;
    World world(seed, plan);
    const auto data = payloads(8);
    for (std::uint64_t i = 0; i < 8; ++i) world.right.deposit(static_cast<std::uint16_t>(i), data[i], i);
    world.run();
    ASSERT_EQ(world.arrivals, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(world.wrong, 0);
    EXPECT_FALSE(world.outside);
    for (std::size_t i = 1; i < 8; ++i) distances.insert(world.poll_of[i] - world.poll_of[i - 1]);
  }
  EXPECT_TRUE(distances.contains(0));  // released together
  EXPECT_GE(*distances.rbegin(), 5);
}

TEST(Fault, late_deposits_are_read_late_and_not_drained_before) {
  Plan plan;
  plan.late_deposit_percent = 100;
  plan.late_deposit_polls = {5, 5};
  World world(2, plan);
  const auto data = payloads(3);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(world.deposit(i, data[i]));
  for (int i = 0; i < 4; ++i) world.poll();
  EXPECT_FALSE(world.network.step());  // nothing has reached the network
  EXPECT_FALSE(world.left->drained(world.lane));
  EXPECT_FALSE(world.left->arm());
  world.run();
  ASSERT_EQ(world.right.arrivals.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(world.right.arrivals[i].payload, data[i]);
  EXPECT_TRUE(world.left->drained(world.lane));
  EXPECT_TRUE(world.left->arm());
}

TEST(Fault, hidden_communicators_are_forgotten_while_held_back) {
  Plan plan;
  plan.late_deposit_percent = plan.late_arrival_percent = 100;
  plan.late_arrival_polls = plan.late_deposit_polls = {3, 3};
  World world(3, plan);
  const auto data = payloads(2);
  world.right.deposit(0, data[0], 0);
  while (world.network.step()) {
  }
  world.poll();  // the arrival is held back now
  world.deposit(1, data[1]);
  world.left->hide(world.lane, kWorld);
  world.run();
  EXPECT_TRUE(world.arrivals.empty());
  EXPECT_TRUE(world.right.arrivals.empty());
  EXPECT_EQ(world.left->counters().frames_dropped, 2u);
}

TEST(Fault, sent_counts_the_deposits_of_the_owner) {
  constexpr CommunicatorId kOther{1};
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Plan plan;
    plan.late_deposit_percent = 50;
    plan.late_deposit_polls = {0, 3};
    World world(seed, plan);
    world.right.endpoint->expose(world.right.lane, kOther, world.memory.places());
    const auto original = payloads(24);
    auto data = original;
    std::uint64_t sent = 0;
    const auto look = [&](std::uint64_t deposits) {
      const std::uint64_t now = world.left->sent(world.lane);
      EXPECT_GE(now, sent);
      EXPECT_LE(now, deposits);
      EXPECT_EQ(world.left->drained(world.lane), now == deposits);
      for (; sent < std::min(now, deposits); ++sent) std::fill(data[sent].begin(), data[sent].end(), std::byte{0});
    };
    for (std::uint64_t i = 0; i < 24; ++i) {
      ASSERT_TRUE(world.deposit(i, data[i], i % 3 == 1 ? kOther : kWorld));
      look(i + 1);
      if (i == 12) world.left->hide(world.lane, kOther);  // some are held back, some are in the network
      if (i % 2 == 0) world.poll();
      if (i % 5 == 0) world.network.step();
      look(i + 1);
    }
    do {
      world.poll();
      look(24);
    } while (world.network.step() || !world.left->arm());
    world.poll();
    EXPECT_EQ(world.left->sent(world.lane), 24u);
    for (const sim::Party::Arrival& arrival : world.right.arrivals)
      EXPECT_EQ(arrival.payload, original[arrival.header.sequence]);
    world.left->break_lane(world.lane);
    EXPECT_EQ(world.left->sent(world.lane), transport::Transport::kAllSent);
  }
}

TEST(Fault, forgotten_deposits_keep_their_place_in_the_count) {
  constexpr CommunicatorId kOther{1};
  Plan plan;
  plan.late_deposit_percent = 100;
  plan.late_deposit_polls = {2, 2};
  World world(5, plan);
  const auto data = payloads(4);
  for (std::uint64_t i = 0; i < 4; ++i) world.deposit(i, data[i], i == 1 || i == 2 ? kOther : kWorld);
  world.left->hide(world.lane, kOther);
  EXPECT_EQ(world.left->sent(world.lane), 0u);
  world.poll();
  world.poll();  // both others are in the network
  EXPECT_EQ(world.left->sent(world.lane), 0u);
  while (world.left->sent(world.lane) == 0) ASSERT_TRUE(world.network.step());
  EXPECT_EQ(world.left->sent(world.lane), 3u);
  world.run();
  EXPECT_EQ(world.left->sent(world.lane), 4u);
}

TEST(Fault, a_broken_lane_is_reported_once_after_what_came_before) {
  std::set<std::size_t> counts;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Plan plan;
    plan.broken_lane_percent = 100;
    plan.broken_after_frames = {0, 10};
    plan.late_arrival_percent = 30;
    World world(seed, plan);
    const auto data = payloads(8);
    for (std::uint64_t i = 0; i < 8; ++i) {
      world.right.deposit(static_cast<std::uint16_t>(i), data[i], i);
      world.deposit(i, data[i]);
      EXPECT_TRUE(world.losses.empty());  // never from inside a deposit
    }
    world.run();
    ASSERT_EQ(world.losses.size(), 1u);
    EXPECT_EQ(world.losses[0].code(), Code::peer_lost);
    EXPECT_EQ(world.arrivals_at_loss, world.arrivals.size());
    EXPECT_EQ(world.right.losses.size(), 1u);
    EXPECT_FALSE(world.deposit(0, {}));
    EXPECT_FALSE(world.outside);
    EXPECT_EQ(world.wrong, 0);
    for (std::size_t i = 0; i < world.arrivals.size(); ++i) EXPECT_EQ(world.arrivals[i], i);
    counts.insert(world.arrivals.size());
  }
  EXPECT_GE(counts.size(), 3u);
}

TEST(Fault, a_lane_breaks_after_so_many_bytes) {
  Plan plan;
  plan.broken_lane_percent = 100;
  plan.broken_after_frames = {0, 0};
  plan.broken_after_bytes = {300, 300};
  World world(4, plan);
  const auto payload = pattern(100, 0);  // 164 bytes a frame: the third is one too many
  for (std::uint64_t i = 0; i < 3; ++i) world.right.deposit(static_cast<std::uint16_t>(i), payload, 0);
  world.run();
  EXPECT_EQ(world.arrivals.size(), 2u);
  EXPECT_EQ(world.losses.size(), 1u);
}

TEST(Fault, the_inner_loss_waits_for_what_is_held_back) {
  Plan plan;
  plan.late_arrival_percent = 100;
  plan.late_arrival_polls = {9, 9};
  World world(5, plan);
  const auto data = payloads(1);
  world.right.deposit(0, data[0], 0);
  while (world.network.step()) {
  }
  world.right.endpoint->close(world.right.lane);
  world.run();
  EXPECT_EQ(world.arrivals.size(), 1u);
  ASSERT_EQ(world.losses.size(), 1u);
  EXPECT_EQ(world.arrivals_at_loss, 1u);
}

TEST(Fault, closed_lanes_are_silent) {
  Plan plan;
  plan.late_arrival_percent = 100;
  World world(6, plan);
  const auto data = payloads(1);
  world.right.deposit(0, data[0], 0);
  while (world.network.step()) {
  }
  world.poll();
  world.left->break_lane(world.lane);
  world.left->close(world.lane);
  world.run();
  EXPECT_TRUE(world.arrivals.empty());
  EXPECT_TRUE(world.losses.empty());
  EXPECT_FALSE(world.deposit(0, {}));
  EXPECT_EQ(world.right.losses.size(), 1u);
}

}  // namespace
}  // namespace redsum::fault
