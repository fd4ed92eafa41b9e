// SPDX-License-Identifier: Apache-2.0
// The simulated network moves frames as the seam promises, and no kinder than a real network does.
#include "transport/sim/sim_network.h"

#include <gtest/gtest.h>

#include "tests/transport/sim_party.h"

namespace redsum::sim {
namespace {

TEST(Sim, a_frame_lands_in_its_place_and_is_told_by_poll) {
  Pair pair(1);
  const auto payload = pattern(100, 1);
  const TimeNs sent = pair.network.now();
  ASSERT_TRUE(pair.left.deposit(3, payload, 42));
  EXPECT_FALSE(pair.left.endpoint->drained(pair.left.lane));
  while (pair.network.step()) {
  }
  EXPECT_TRUE(pair.right.arrivals.empty());  // it lies there, but nobody polled
  EXPECT_TRUE(equal(pair.right.place(3).first(100), payload));
  EXPECT_TRUE(pair.left.endpoint->drained(pair.left.lane));
  EXPECT_EQ(pair.right.poll(), 1u);
  ASSERT_EQ(pair.right.arrivals.size(), 1u);
  const Party::Arrival& arrival = pair.right.arrivals[0];
  EXPECT_EQ(arrival.lane, pair.right.lane);
  EXPECT_EQ(arrival.header.sequence, 42u);
  EXPECT_EQ(wire::check_header(arrival.header), nullptr);
  EXPECT_EQ(arrival.payload, payload);
  EXPECT_GE(pair.network.now() - sent, Delay{}.least_ns);
  EXPECT_LE(pair.network.now() - sent, Delay{}.most_ns);
  EXPECT_EQ(pair.right.poll(), 0u);
  EXPECT_FALSE(pair.right.outside_poll);
  EXPECT_EQ(pair.left.endpoint->counters().bytes_sent, 164u);
  EXPECT_EQ(pair.right.endpoint->counters().frames_received, 1u);
}

TEST(Sim, frames_of_a_lane_keep_their_order) {
  Pair pair(2);
  const auto payload = pattern(64, 1);
  for (std::uint64_t i = 0; i < 200; ++i) {
    pair.left.deposit(static_cast<std::uint16_t>(i % kPlaces), payload, i);
    pair.right.deposit(static_cast<std::uint16_t>(i % kPlaces), {}, i);
    if (i % 3 == 0) pair.network.step();
  }
  pair.run();
  ASSERT_EQ(pair.right.arrivals.size(), 200u);
  ASSERT_EQ(pair.left.arrivals.size(), 200u);
  for (std::uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(pair.right.arrivals[i].header.sequence, i);
    EXPECT_EQ(pair.left.arrivals[i].header.sequence, i);
  }
}

TEST(Sim, memory_used_again_too_early_shows_as_wrong_bytes) {
  int wrong = 0, right = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Pair pair(seed);
    auto payload = pattern(128, 1);
    const auto original = payload;
    pair.left.deposit(0, payload);
    pair.network.run_until(pair.network.now() + 10 * kMicrosecond);
    std::fill(payload.begin(), payload.end(), std::byte{0xEE});
    pair.run();
    ++(pair.right.arrivals.at(0).payload == original ? right : wrong);
  }
  EXPECT_GE(wrong, 40);
  EXPECT_GE(right, 10);  // part of the runs read early, as a network with room in its buffers does
}

TEST(Sim, a_place_deposited_into_before_it_was_read_shows_as_wrong_bytes) {
  Pair pair(3);
  const auto first = pattern(64, 1), second = pattern(64, 2);
  pair.left.deposit(5, first, 1);
  pair.left.deposit(5, second, 2);
  while (pair.network.step()) {
  }
  pair.right.poll();
  ASSERT_EQ(pair.right.arrivals.size(), 2u);
  EXPECT_EQ(pair.right.arrivals[0].header.sequence, 1u);
  EXPECT_EQ(pair.right.arrivals[0].payload, second);
}

TEST(Sim, part_of_a_payload_may_lie_there_before_its_arrival) {
  int partly = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Pair pair(seed);
    const auto payload = pattern(200, 1);
    pair.left.deposit(1, payload);
    pair.network.step();
    pair.right.poll();
    const Bytes place = pair.right.place(1);
    const bool begun = place[0] == payload[0], ended = place[199] == payload[199];
    partly += pair.right.arrivals.empty() && begun && !ended;
  }
  EXPECT_GE(partly, 5);
}

TEST(Sim, frames_wait_for_the_other_end) {
  SimNetwork network(4);
  Party left(network, "left"), right(network, "right");
  SimNetwork::LinkPair link = network.make_link({});
  left.lane = left.endpoint->adopt(std::move(link.left));
  const auto payload = pattern(32, 1);
  left.deposit(0, payload);
  network.run_until(network.now() + kSecond);
  EXPECT_FALSE(left.endpoint->drained(left.lane));
  right.lane = right.endpoint->adopt(std::move(link.right));
  right.endpoint->expose(right.lane, kWorld, right.places());
  while (network.step()) {
  }
  right.poll();
  ASSERT_EQ(right.arrivals.size(), 1u);
  EXPECT_EQ(right.arrivals[0].payload, payload);
  EXPECT_EQ(left.endpoint->peer_address(left.lane), "right:0");
}

TEST(Sim, a_sender_that_waits_is_woken_when_its_frames_have_landed) {
  Pair pair(5);
  int wakes = 0;
  pair.left.endpoint->on_wake([&] { ++wakes; });
  const auto payload = pattern(100, 1);
  const auto send_three = [&] {
    for (std::uint16_t i = 0; i < 3; ++i) pair.left.deposit(i, payload, i);
  };
  send_three();
  ASSERT_TRUE(pair.left.endpoint->arm());
  pair.network.run_until(pair.network.now() + kSecond);
  EXPECT_EQ(wakes, 0);  // it never asked
  send_three();
  std::uint64_t sent = pair.left.endpoint->sent(pair.left.lane);
  EXPECT_EQ(sent, 3u);
  for (int turn = 1; sent < 6; ++turn) {
    ASSERT_TRUE(pair.left.endpoint->arm());
    ASSERT_TRUE(pair.network.run_until([&] { return wakes == turn; }, pair.network.now() + kSecond));
    const std::uint64_t now = pair.left.endpoint->sent(pair.left.lane);
    EXPECT_GT(now, sent);
    sent = now;
  }
}

TEST(Sim, what_is_dropped_at_once_is_sent_in_its_turn) {
  Pair pair(6);
  const auto payload = pattern(100, 1);
  pair.left.endpoint->hide(pair.left.lane, CommunicatorId(7));
  pair.left.deposit(0, payload);
  pair.left.deposit(1, payload, 1, CommunicatorId(7));
  EXPECT_EQ(pair.left.endpoint->sent(pair.left.lane), 0u);
  pair.run();
  EXPECT_EQ(pair.left.endpoint->sent(pair.left.lane), 2u);
  pair.right.endpoint->close(pair.right.lane);
  pair.left.deposit(2, payload);  // has not heard of it
  EXPECT_EQ(pair.left.endpoint->sent(pair.left.lane), 3u);
  pair.run();
  EXPECT_EQ(pair.left.endpoint->sent(pair.left.lane), transport::Transport::kAllSent);
}

void expect_refused(Pair& pair, const char* what) {
  pair.run();
  EXPECT_TRUE(pair.right.arrivals.empty());
  ASSERT_EQ(pair.right.losses.size(), 1u);
  EXPECT_EQ(pair.right.losses[0].second.code(), Code::protocol_error);
  EXPECT_NE(pair.right.losses[0].second.text().find(what), std::string::npos) << pair.right.losses[0].second.text();
  ASSERT_EQ(pair.left.losses.size(), 1u);
  EXPECT_EQ(pair.left.losses[0].second.code(), Code::peer_lost);
  EXPECT_FALSE(pair.left.deposit(0, {}));
}

TEST(Sim, what_breaks_the_protocol_ends_the_lane) {
  const auto payload = pattern(kPlaceBytes + 1, 1);
  {
    Pair pair(5, false);
    pair.left.deposit(0, {});
    expect_refused(pair, "communicator");
  }
  {
    Pair pair(5);
    pair.left.deposit(kPlaces, {});
    expect_refused(pair, "place");
  }
  {
    Pair pair(5);
    pair.left.deposit(0, payload);
    expect_refused(pair, "payload bytes");
  }
  {
    Pair pair(5);
    wire::Header header;
    header.op = static_cast<Op>(77);
    pair.left.endpoint->deposit(pair.left.lane, header, {});
    expect_refused(pair, "op");
  }
  {
    Pair pair(5);
    wire::Header header;
    header.flags = wire::kFlagPayloadCrc;
    header.payload_bytes = 4;
    header.payload_crc = 1;
    pair.left.endpoint->deposit(pair.left.lane, header, ConstBytes(payload).first(4));
    expect_refused(pair, "payload CRC");
  }
}

TEST(Sim, the_receiver_hides_and_nothing_is_written_any_more) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Pair pair(seed);
    const auto payload = pattern(200, 1);
    for (std::uint16_t i = 0; i < 4; ++i) pair.left.deposit(i, payload, i);
    for (std::uint64_t steps = pair.network.random().below(6); steps > 0; --steps) pair.network.step();
    pair.right.endpoint->hide(pair.right.lane, kWorld);
    const auto before = pair.right.memory;
    pair.run();
    EXPECT_TRUE(pair.right.arrivals.empty());
    EXPECT_EQ(pair.right.memory, before);
    EXPECT_EQ(pair.right.endpoint->counters().frames_dropped, 4u);
    EXPECT_TRUE(pair.right.losses.empty());
  }
}

TEST(Sim, the_sender_hides_and_its_memory_is_free_at_once) {
  std::size_t fewest = 4, most = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Pair pair(seed);
    auto payload = pattern(200, 1);
    const auto original = payload;
    for (std::uint16_t i = 0; i < 4; ++i) pair.left.deposit(i, payload, i);
    pair.network.step();
    pair.left.endpoint->hide(pair.left.lane, kWorld);
    EXPECT_TRUE(pair.left.endpoint->drained(pair.left.lane));
    std::fill(payload.begin(), payload.end(), std::byte{0xEE});
    EXPECT_TRUE(pair.left.deposit(5, payload));  // forgotten as well
    pair.run();
    fewest = std::min(fewest, pair.right.arrivals.size());
    most = std::max(most, pair.right.arrivals.size());
    for (std::size_t i = 0; i < pair.right.arrivals.size(); ++i) {  // a first part arrives, with the right bytes
      EXPECT_EQ(pair.right.arrivals[i].header.sequence, i);
      EXPECT_EQ(pair.right.arrivals[i].payload, original);
    }
  }
  EXPECT_LE(fewest, 1u);
  EXPECT_EQ(most, 4u);
}

TEST(Sim, other_communicators_go_on_when_one_is_hidden) {
  constexpr CommunicatorId kOther{7};
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Pair pair(seed);
    pair.right.endpoint->expose(pair.right.lane, kOther, pair.right.places());
    const auto payload = pattern(50, 1);
    for (std::uint64_t i = 0; i < 6; ++i)
      pair.left.deposit(static_cast<std::uint16_t>(i), payload, i, i % 2 ? kOther : kWorld);
    pair.left.endpoint->hide(pair.left.lane, kWorld);
    pair.run();
    std::vector<std::uint64_t> others;
    for (const auto& arrival : pair.right.arrivals)
      if (arrival.header.communicator == kOther.value) others.push_back(arrival.header.sequence);
    EXPECT_EQ(others, (std::vector<std::uint64_t>{1, 3, 5}));
  }
}

TEST(Sim, wakes_come_once_after_arm) {
  Pair pair(6);
  int wakes = 0;
  pair.right.endpoint->on_wake([&] { ++wakes; });
  pair.left.deposit(0, {});
  while (pair.network.step()) {
  }
  EXPECT_EQ(wakes, 0);                       // not armed
  EXPECT_FALSE(pair.right.endpoint->arm());  // something lies there already
  pair.right.poll();
  EXPECT_TRUE(pair.right.endpoint->arm());
  pair.left.deposit(0, {});
  pair.left.deposit(1, {});
  while (pair.network.step()) {
  }
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(pair.right.poll(), 2u);
}

TEST(Sim, work_runs_at_its_time_in_the_order_of_the_calls) {
  SimNetwork network(7);
  std::vector<int> order;
  const TimeNs start = network.now();
  network.at(start + 20, [&] { order.push_back(3); });
  network.at(start + 10, [&] {
    order.push_back(1);
    network.at(0, [&] { order.push_back(2); });  // the past is now
  });
  network.at(start + 20, [&] { order.push_back(4); });
  EXPECT_TRUE(network.run_until([&] { return order.size() == 2; }, start + 15));
  EXPECT_EQ(network.now(), start + 10);
  network.run_until(start + 15);
  EXPECT_EQ(network.now(), start + 15);
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_FALSE(network.run_until([&] { return order.size() == 9; }, kNever));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace redsum::sim
