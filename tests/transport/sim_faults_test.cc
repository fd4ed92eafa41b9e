// SPDX-License-Identifier: Apache-2.0
// The faults of the simulated network, and that a seed replays a run on every compiler.
#include <gtest/gtest.h>

#include <set>

#include "tests/transport/sim_party.h"
#include "transport/sim/sim_network.h"

namespace redsum::sim {
namespace {

// How many bytes at the front of a place are the payload's.
std::size_t landed(Bytes place, ConstBytes payload) {
  std::size_t count = 0;
  while (count < payload.size() && place[count] == payload[count]) ++count;
  return count;
}

TEST(SimFaults, a_cut_leaves_half_a_frame_and_both_ends_learn_in_their_time) {
  std::set<std::size_t> lengths;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Pair pair(seed);
    pair.left.run_by_wakes();
    pair.right.run_by_wakes();
    const auto payload = pattern(200, 1);
    pair.left.deposit(2, payload, 1);
    const TimeNs cut_at = pair.network.now() + 2 * kMicrosecond;  // before the least delay
    pair.network.at(cut_at, [&] { pair.network.cut(pair.lane, {100, 70 * kMicrosecond}); });
    while (pair.network.step()) {
    }
    EXPECT_TRUE(pair.right.arrivals.empty());
    lengths.insert(landed(pair.right.place(2), payload));
    ASSERT_EQ(pair.left.losses.size(), 1u);
    ASSERT_EQ(pair.right.losses.size(), 1u);
    EXPECT_EQ(pair.left.loss_times[0], cut_at + 100);
    EXPECT_EQ(pair.right.loss_times[0], cut_at + 70 * kMicrosecond);
    EXPECT_EQ(pair.left.losses[0].second.code(), Code::peer_lost);
    EXPECT_NE(pair.left.losses[0].second.text().find("right:0"), std::string::npos);
    EXPECT_FALSE(pair.left.outside_poll || pair.right.outside_poll);
  }
  EXPECT_GE(lengths.size(), 40u);  // any byte
  EXPECT_LT(*lengths.begin(), 10u);
  EXPECT_GT(*lengths.rbegin(), 190u);
}

TEST(SimFaults, a_cut_after_so_many_bytes_is_exact) {
  const auto payload = pattern(100, 1);
  for (std::uint64_t bytes = 0; bytes <= 2 * 164; ++bytes) {
    Pair pair(bytes);
    pair.network.cut_after(pair.lane, Side::left, bytes, {});
    for (std::uint16_t i = 0; i < 3; ++i) pair.left.deposit(i, payload, i);
    pair.run();
    EXPECT_EQ(pair.right.arrivals.size(), bytes / 164);
    const std::size_t rest = bytes % 164;
    if (bytes < 328) {
      EXPECT_EQ(landed(pair.right.place(bytes / 164), payload), rest > 64 ? rest - 64 : 0u) << bytes;
    }
    EXPECT_EQ(pair.right.losses.size(), 1u);
    EXPECT_EQ(pair.left.losses.size(), 1u);
  }
}

TEST(SimFaults, a_half_open_end_never_learns) {
  Pair pair(3);
  pair.network.cut(pair.lane, {kNever, 0});
  pair.run();
  EXPECT_EQ(pair.right.losses.size(), 1u);
  EXPECT_TRUE(pair.left.losses.empty());
  EXPECT_TRUE(pair.left.deposit(0, {}));  // into the void
  pair.run();
  EXPECT_TRUE(pair.right.arrivals.empty());
  EXPECT_FALSE(pair.right.deposit(0, {}));
}

TEST(SimFaults, nothing_lands_after_a_cut) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Pair pair(seed);
    const auto payload = pattern(200, 1);
    for (std::uint16_t i = 0; i < 4; ++i) pair.left.deposit(i, payload, i);
    for (std::uint64_t steps = seed % 6; steps > 0; --steps) pair.network.step();
    pair.network.cut(pair.lane, {kNever, kNever});
    const auto before = pair.right.memory;
    pair.run();
    EXPECT_EQ(pair.right.memory, before);
  }
}

TEST(SimFaults, a_closed_lane_delivers_a_first_part_and_only_the_peer_is_told) {
  std::set<std::size_t> counts;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Pair pair(seed);
    auto payload = pattern(200, 1);
    const auto original = payload;
    for (std::uint16_t i = 0; i < 3; ++i) pair.left.deposit(i, payload, i);
    pair.right.deposit(0, original, 9);
    pair.left.endpoint->close(pair.left.lane);
    std::fill(payload.begin(), payload.end(), std::byte{0xEE});  // the memory is free at once
    EXPECT_FALSE(pair.left.deposit(0, original));
    pair.left.endpoint->close(pair.left.lane);  // once more is fine
    pair.run();
    EXPECT_TRUE(pair.left.losses.empty());
    EXPECT_TRUE(pair.left.arrivals.empty());
    ASSERT_EQ(pair.right.losses.size(), 1u);
    counts.insert(pair.right.arrivals.size());
    for (const auto& arrival : pair.right.arrivals) EXPECT_EQ(arrival.payload, original);
  }
  EXPECT_EQ(counts, (std::set<std::size_t>{0, 1, 2, 3}));
}

TEST(SimFaults, a_drained_lane_is_closed_without_loss) {
  Pair pair(4);
  const auto payload = pattern(10, 1);
  pair.left.deposit(0, payload);
  ASSERT_TRUE(pair.network.run_until([&] { return pair.left.endpoint->drained(pair.left.lane); }, kNever));
  pair.left.endpoint->close(pair.left.lane);
  pair.run();
  EXPECT_EQ(pair.right.arrivals.size(), 1u);
}

TEST(SimFaults, a_crashed_process_is_silent_and_its_peer_learns_or_not) {
  for (const DurationNs notice : {DurationNs{0}, kNever}) {
    Pair pair(5);
    const auto payload = pattern(10, 1);
    pair.right.deposit(0, payload);
    while (pair.network.step()) {
    }
    pair.network.crash(pair.right.endpoint->id(), notice);  // with an arrival in its inbox
    EXPECT_TRUE(pair.network.crashed(pair.right.endpoint->id()));
    EXPECT_FALSE(pair.right.deposit(0, payload));
    EXPECT_TRUE(pair.left.deposit(0, payload));
    pair.run();
    EXPECT_TRUE(pair.right.arrivals.empty());
    EXPECT_TRUE(pair.right.losses.empty());
    EXPECT_EQ(pair.left.losses.size(), notice == kNever ? 0u : 1u);
  }
}

TEST(SimFaults, a_destroyed_endpoint_is_a_closed_one) {
  Pair pair(6);
  const auto payload = pattern(10, 1);
  pair.left.deposit(0, payload);
  const EndpointId id = pair.right.endpoint->id();
  pair.right.endpoint.reset();
  EXPECT_TRUE(pair.network.crashed(id));
  while (pair.network.step()) {
  }
  pair.left.poll();
  EXPECT_EQ(pair.left.losses.size(), 1u);
}

TEST(SimFaults, a_link_that_nobody_takes_is_closed) {
  SimNetwork network(7);
  Party left(network, "left");
  SimNetwork::LinkPair link = network.make_link({});
  link.right.reset();
  while (network.step()) {
  }
  left.lane = left.endpoint->adopt(std::move(link.left));  // learns as soon as it is there
  left.poll();
  EXPECT_EQ(left.losses.size(), 1u);
}

TEST(SimFaults, a_stalled_process_polls_nothing_while_its_memory_changes) {
  Pair pair(8);
  pair.right.run_by_wakes();
  const TimeNs until = pair.network.now() + kSecond;
  pair.network.stall(pair.right.endpoint->id(), until);
  const auto payload = pattern(10, 1);
  pair.left.deposit(0, payload);
  pair.network.run_until(until - 1);
  EXPECT_EQ(pair.right.poll(), 0u);
  EXPECT_TRUE(equal(pair.right.place(0).first(10), payload));
  while (pair.network.step()) {
  }
  ASSERT_EQ(pair.right.arrivals.size(), 1u);
  EXPECT_EQ(pair.right.arrivals[0].time, until);
}

TEST(SimFaults, a_stalled_lane_holds_everything_back_in_one_direction) {
  Pair pair(9);
  pair.left.run_by_wakes();
  pair.right.run_by_wakes();
  const TimeNs until = pair.network.now() + kSecond;
  pair.network.stall(pair.lane, Side::left, until);
  const auto payload = pattern(10, 1);
  for (std::uint16_t i = 0; i < 3; ++i) pair.left.deposit(i, payload, i);
  pair.right.deposit(0, payload, 9);
  while (pair.network.step()) {
  }
  ASSERT_EQ(pair.right.arrivals.size(), 3u);
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(pair.right.arrivals[i].time, until);
    EXPECT_EQ(pair.right.arrivals[i].header.sequence, i);
  }
  ASSERT_EQ(pair.left.arrivals.size(), 1u);
  EXPECT_LT(pair.left.arrivals[0].time, until);
}

TEST(SimFaults, delays_bandwidth_and_slow_processes) {
  Pair pair(10);
  pair.right.run_by_wakes();
  pair.network.set_delay(pair.left.endpoint->id(), {kMillisecond, kMillisecond, 1024});  // 1 ns per byte
  pair.network.set_wake_delay(pair.right.endpoint->id(), 500, 500);
  const TimeNs sent = pair.network.now();
  const auto payload = pattern(36, 1);
  pair.left.deposit(0, payload);
  pair.left.deposit(1, payload);
  while (pair.network.step()) {
  }
  ASSERT_EQ(pair.right.arrivals.size(), 2u);
  // The wake that the first frame causes finds the second one too.
  EXPECT_EQ(pair.right.arrivals[0].time, sent + kMillisecond + 100 + 500);
  EXPECT_EQ(pair.right.arrivals[1].time, sent + kMillisecond + 100 + 500);
}

// A run with everything in it; the same on every compiler, machine and optimisation level.
std::uint64_t eventful_run(std::uint64_t seed) {
  SimNetwork network(seed);
  std::vector<std::unique_ptr<Party>> parties;
  for (int i = 0; i < 4; ++i) parties.push_back(std::make_unique<Party>(network, "p" + std::to_string(i)));
  std::vector<SimLane> lanes;
  for (std::size_t i = 0; i < 4; ++i) {
    Party &a = *parties[i], &b = *parties[(i + 1) % 4];
    SimNetwork::LinkPair link = network.make_link({});
    lanes.push_back(link.lane);
    a.lane = a.endpoint->adopt(std::move(link.left));
    const transport::LaneId back = b.endpoint->adopt(std::move(link.right));
    b.endpoint->expose(back, kWorld, b.places());
    a.endpoint->expose(a.lane, kWorld, a.places());
    a.run_by_wakes();
  }
  network.set_wake_delay(parties[1]->endpoint->id(), 0, 30 * kMicrosecond);
  const auto payload = pattern(kPlaceBytes, static_cast<unsigned>(seed));
  for (int round = 0; round < 12; ++round)
    for (auto& party : parties) {
      const TimeNs when = network.now() + static_cast<TimeNs>(network.random().below(300)) * kMicrosecond;
      const auto place = static_cast<std::uint16_t>(network.random().below(kPlaces));
      const std::size_t bytes = network.random().below(kPlaceBytes + 1);
      network.at(when, [&party, &payload, place, bytes] { party->deposit(place, ConstBytes(payload).first(bytes)); });
    }
  const TimeNs start = network.now();
  network.at(start + 100 * kMicrosecond,
             [&] { network.stall(lanes[0], Side::left, network.now() + 50 * kMicrosecond); });
  network.at(start + 150 * kMicrosecond, [&] { network.cut(lanes[1], {kMicrosecond, kNever}); });
  network.at(start + 200 * kMicrosecond, [&] { network.crash(parties[3]->endpoint->id(), 0); });
  network.at(start + 250 * kMicrosecond, [&] { parties[0]->endpoint->hide(parties[0]->lane, kWorld); });
  while (network.step()) {
  }
  for (auto& party : parties) network.trace(party->arrivals.size() * 100 + party->losses.size());
  return network.trace_hash();
}

TEST(SimTrace, a_seed_replays_on_every_compiler) {
  EXPECT_EQ(eventful_run(1), 0xBFAB481BB6AE8EA7ull);
  EXPECT_EQ(eventful_run(2), 0x321DF473AA033436ull);
  EXPECT_EQ(eventful_run(3), 0x60B164F2ADFE3119ull);
}

TEST(SimTrace, other_seeds_are_other_runs) {
  std::set<std::uint64_t> hashes;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::uint64_t hash = eventful_run(seed);
    EXPECT_EQ(eventful_run(seed), hash);
    hashes.insert(hash);
  }
  EXPECT_EQ(hashes.size(), 300u);
}

}  // namespace
}  // namespace redsum::sim
