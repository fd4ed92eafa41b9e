// SPDX-License-Identifier: Apache-2.0
#include "client/core/communicator_core.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "transport/wire/schedule.h"

namespace redsum::client {
namespace {

constexpr Epoch kEpoch(1, 1);

wire::JobSettings settings(std::uint16_t window = 2, std::uint16_t small_window = 2) {
  return {4096, window, small_window, 1024};
}

struct Rig {
  explicit Rig(std::size_t shards = 2, wire::JobSettings s = settings(), Rank rank = Rank(0), std::uint32_t members = 3)
      : schedule(wire::make_schedule(std::vector<std::uint32_t>(shards, 1))),
        core(CommunicatorId(5), rank, members, kEpoch, s, schedule, shards) {}
  std::vector<std::uint16_t> schedule;
  CommunicatorCore core;

  void submit(Sequence sequence, std::uint64_t count, wire::Kind kind = wire::Kind::allreduce, std::uint32_t root = 0) {
    wire::CallDescription call;
    call.kind = kind;
    call.count = count;
    call.root = root;
    core.submit(sequence, call);
  }
  std::vector<ChunkSend> drain() {
    std::vector<ChunkSend> sends;
    for (ChunkSend send; core.next_send(send);) sends.push_back(send);
    return sends;
  }
  // The result that a right shard gives for a contribution.
  wire::Header result_of(const ChunkSend& send, std::uint32_t members = 3) const {
    wire::Header header = send.header;
    header.type = wire::FrameType::result;
    header.contributors = members;
    return header;
  }
};

TEST(CommunicatorCore, cuts_a_call_into_chunks_and_spreads_them_over_the_shards) {
  Rig rig;
  rig.submit(0, 3 * 1024 + 7);  // fp32: 1024 elements a chunk
  const auto sends = rig.drain();
  ASSERT_EQ(sends.size(), 4u);
  std::map<std::uint32_t, const ChunkSend*> by_chunk;
  for (const ChunkSend& send : sends) by_chunk[send.header.chunk] = &send;
  for (std::uint32_t chunk = 0; chunk < 4; ++chunk) {
    ASSERT_TRUE(by_chunk.contains(chunk));
    EXPECT_EQ(by_chunk[chunk]->shard, chunk % 2);
    EXPECT_EQ(by_chunk[chunk]->header.element_offset, chunk * 1024u);
    EXPECT_EQ(by_chunk[chunk]->elements, chunk == 3 ? 7u : 1024u);
    EXPECT_EQ(by_chunk[chunk]->header.payload_bytes, by_chunk[chunk]->elements * 4);
    EXPECT_EQ(by_chunk[chunk]->header.place, chunk / 2);
    EXPECT_EQ(by_chunk[chunk]->header.epoch, kEpoch.value);
    EXPECT_EQ(by_chunk[chunk]->header.communicator, 5u);
  }
}

TEST(CommunicatorCore, sends_number_c_only_after_the_result_of_c_minus_window) {
  Rig rig(1);
  rig.submit(0, 5 * 1024);
  auto sends = rig.drain();
  ASSERT_EQ(sends.size(), 2u) << "the window is 2";
  EXPECT_TRUE(rig.drain().empty());
  std::uint32_t next = 2;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const auto result = rig.core.on_result(0, rig.result_of(sends[i]));
    ASSERT_TRUE(result) << result.error().to_string();
    EXPECT_EQ(result->chunk, i);
    EXPECT_EQ(result->call_complete, i == 4);
    for (const ChunkSend& send : rig.drain()) {
      EXPECT_EQ(send.header.chunk, next++);
      EXPECT_EQ(send.header.place, send.header.chunk % 2);
      sends.push_back(send);
    }
  }
  EXPECT_EQ(sends.size(), 5u);
  EXPECT_TRUE(rig.core.calls().empty());
}

TEST(CommunicatorCore, small_calls_do_not_wait_behind_bulk) {
  Rig rig(1);
  rig.submit(0, 100 * 1024);
  rig.drain();
  rig.submit(1, 256);  // 1 KiB: small
  const auto sends = rig.drain();
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_TRUE(sends[0].header.has(wire::kFlagSmall));
  EXPECT_EQ(sends[0].header.place, 2u) << "small places come after the bulk window";
  const auto result = rig.core.on_result(0, rig.result_of(sends[0]));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->sequence, 1u);
  EXPECT_TRUE(result->call_complete);
  EXPECT_EQ(rig.core.calls().oldest(), 0u);
}

TEST(CommunicatorCore, one_element_more_than_small_is_bulk) {
  Rig rig;
  rig.submit(0, 257);
  const auto sends = rig.drain();
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_FALSE(sends[0].header.has(wire::kFlagSmall));
}

TEST(CommunicatorCore, an_empty_call_takes_one_number_and_no_payload) {
  Rig rig;
  rig.submit(0, 0);
  const auto sends = rig.drain();
  ASSERT_EQ(sends.size(), 1u);
  EXPECT_TRUE(sends[0].header.has(wire::kFlagHeaderOnly));
  EXPECT_EQ(sends[0].header.payload_bytes, 0u);
  const auto result = rig.core.on_result(sends[0].shard, rig.result_of(sends[0]));
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_TRUE(result->call_complete);
}

TEST(CommunicatorCore, in_a_broadcast_only_the_root_has_payload) {
  Rig root(1, settings(), Rank(1)), other(1, settings(), Rank(0));
  root.submit(0, 2000, wire::Kind::broadcast, 1);
  other.submit(0, 2000, wire::Kind::broadcast, 1);
  for (const ChunkSend& send : root.drain()) EXPECT_GT(send.header.payload_bytes, 0u);
  for (const ChunkSend& send : other.drain()) {
    EXPECT_TRUE(send.header.has(wire::kFlagHeaderOnly));
    wire::Header result = other.result_of(send);
    result.flags &= static_cast<std::uint16_t>(~wire::kFlagHeaderOnly);
    result.payload_bytes = send.header.chunk == 0 ? 4096 : (2000 - 1024) * 4;
    EXPECT_TRUE(other.core.on_result(0, result));
  }
}

TEST(CommunicatorCore, a_barrier_waits_for_what_came_before_it) {
  Rig rig(1);
  rig.submit(0, 2000);
  rig.submit(1, 0, wire::Kind::barrier);
  const auto first = rig.drain();
  for (const ChunkSend& send : first) EXPECT_EQ(send.sequence, 0u);
  for (const ChunkSend& send : first) ASSERT_TRUE(rig.core.on_result(0, rig.result_of(send)));
  const auto barrier = rig.drain();
  ASSERT_EQ(barrier.size(), 1u);
  EXPECT_EQ(barrier[0].sequence, 1u);
}

TEST(CommunicatorCore, ranks_begin_their_rounds_at_different_shards) {
  std::set<std::uint16_t> first;
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    Rig rig(4, settings(), Rank(rank), 4);
    rig.submit(0, 8 * 1024);
    first.insert(rig.drain().at(0).shard);
  }
  EXPECT_EQ(first.size(), 4u);
}

// Whatever a shard gets wrong is an error that names the field; nothing is delivered.
TEST(CommunicatorCore, results_that_do_not_fit_are_refused_by_name) {
  const auto broken = [](const char* field, void (*change)(wire::Header&)) {
    Rig rig(1);
    rig.submit(0, 2000);
    const auto sends = rig.drain();
    wire::Header header = rig.result_of(sends[0]);
    change(header);
    const auto result = rig.core.on_result(0, header);
    ASSERT_FALSE(result) << field;
    EXPECT_EQ(result.error().code(), Code::protocol_error);
    EXPECT_NE(result.error().text().find(field), std::string::npos) << result.error().text();
  };
  broken("frame type", [](wire::Header& h) { h.type = wire::FrameType::contribution; });
  broken("rank", [](wire::Header& h) { h.rank = 2; });
  broken("epoch", [](wire::Header& h) { h.epoch += 1; });
  broken("place", [](wire::Header& h) { h.place = 1; });
  broken("sequence", [](wire::Header& h) { h.sequence = 9; });
  broken("chunk", [](wire::Header& h) { h.chunk = 1; });
  broken("signature", [](wire::Header& h) { h.signature ^= 1; });
  broken("contributors", [](wire::Header& h) { h.contributors = 2; });
  broken("payload", [](wire::Header& h) { h.payload_bytes -= 4; });
}

TEST(CommunicatorCore, a_result_that_nobody_asked_for_is_refused) {
  Rig rig(1);
  wire::Header header;
  header.type = wire::FrameType::result;
  header.epoch = kEpoch.value;
  EXPECT_FALSE(rig.core.on_result(0, header));
}

TEST(ShardMap, local_numbers_follow_the_weights) {
  const std::vector<std::uint32_t> weights{3, 1};
  const auto schedule = wire::make_schedule(weights);
  const ShardMap map(schedule, 2);
  std::uint64_t local[2] = {0, 0};
  for (std::uint64_t number = 0; number < 40; ++number) {
    const std::uint16_t shard = map.shard_of(number);
    EXPECT_EQ(map.global(shard, local[shard]++), number);
  }
  EXPECT_EQ(local[0], 30u);
  EXPECT_EQ(local[1], 10u);
}

TEST(CommunicatorCore, many_calls_in_flight_complete_in_any_order_of_shards) {
  Rig rig(3, settings(4, 4));
  for (Sequence sequence = 0; sequence < 200; ++sequence) rig.submit(sequence, sequence % 5 == 0 ? 4000 : sequence % 7);
  std::set<Sequence> complete;
  std::vector<std::vector<ChunkSend>> waiting(3);
  std::uint64_t turn = 0;
  for (;;) {
    for (ChunkSend send; rig.core.next_send(send);) waiting[send.shard].push_back(send);
    const std::size_t shard = turn++ % 3;
    if (waiting[0].empty() && waiting[1].empty() && waiting[2].empty()) break;
    if (waiting[shard].empty()) continue;
    // Bulk and small are two numberings: results of each come in order.
    const ChunkSend send = waiting[shard].front();
    waiting[shard].erase(waiting[shard].begin());
    const auto result = rig.core.on_result(static_cast<std::uint16_t>(shard), rig.result_of(send));
    ASSERT_TRUE(result) << result.error().to_string();
    const bool first_time = !result->call_complete || complete.insert(result->sequence).second;
    EXPECT_TRUE(first_time);
  }
  EXPECT_EQ(complete.size(), 200u);
  EXPECT_TRUE(rig.core.calls().empty());
}

}  // namespace
}  // namespace redsum::client
