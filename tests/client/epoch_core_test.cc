// SPDX-License-Identifier: Apache-2.0
// What CommunicatorCore keeps of calls, and how it goes on in a new epoch.
#include <gtest/gtest.h>

#include <optional>

#include "client/core/communicator_core.h"
#include "transport/wire/schedule.h"

namespace redsum::client {
namespace {

using Chunks = std::vector<std::uint32_t>;

// Rank 0 of three; chunks of 1024 fp32.
struct Rig {
  explicit Rig(std::size_t shards, std::uint16_t window = 2)
      : core(CommunicatorId(5), Rank(0), 3, Epoch(1, 1), {4096, window, 1, 1024}, schedule_of(shards), shards, true) {}
  static std::vector<std::uint16_t> schedule_of(std::size_t shards) {
    return wire::make_schedule(std::vector<std::uint32_t>(shards, 1));
  }
  void submit(Sequence sequence, std::uint64_t chunks, wire::Kind kind = wire::Kind::allreduce) {
    wire::CallDescription call;
    call.kind = kind;
    call.count = chunks * 1024;
    core.submit(sequence, call);
  }
  std::vector<ChunkSend> sends() {
    std::vector<ChunkSend> all;
    for (ChunkSend send; core.next_send(send);) all.push_back(send);
    return all;
  }
  ChunkResult result(const ChunkSend& send) {
    wire::Header header = send.header;
    header.type = wire::FrameType::result;
    header.contributors = 3;
    if (send.result_elements == 0) header.payload_bytes = 0;
    const auto result = core.on_result(send.shard, header);
    EXPECT_TRUE(result) << result.error().to_string();
    return result ? *result : ChunkResult{};
  }
  // All of them, until nothing is left to send; the chunks that were sent, in order.
  Chunks run() {
    Chunks sent;
    for (std::vector<ChunkSend> all = sends(); !all.empty(); all = sends())
      for (const ChunkSend& send : all) {
        sent.push_back(send.header.chunk);
        result(send);
      }
    return sent;
  }
  Status rebase(std::uint32_t count, ShardProgress below, std::size_t shards) {
    core.stop();
    EXPECT_TRUE(sends().empty()) << "stopped";
    return core.rebase(Epoch(1, count), below, schedule_of(shards), shards);
  }
  CommunicatorCore core;
};

TEST(EpochCore, ACallIsKnownAWindowLater) {
  Rig rig(1);
  rig.submit(0, 5);
  std::vector<std::uint32_t> known;
  for (std::vector<ChunkSend> all = rig.sends(); !all.empty(); all = rig.sends())
    for (const ChunkSend& send : all)
      if (const auto result = rig.result(send); result.known) known.push_back(result.known->chunk);
  EXPECT_EQ(known, (Chunks{0, 1, 2})) << "the result of c says that all hold that of c - 2";
  EXPECT_EQ(rig.core.unknown_chunks(0), (Chunks{3, 4}));
  EXPECT_TRUE(rig.core.calls().empty()) << "for barriers it is over";
  rig.submit(1, 2);
  for (const ChunkSend& send : rig.sends()) rig.result(send);
  EXPECT_TRUE(rig.core.unknown_chunks(0).empty());
}

TEST(EpochCore, UnfinishedChunksAreNumberedAgainInTheirOrder) {
  Rig rig(2);
  rig.submit(0, 6);
  const auto first = rig.sends();  // 0 and 2 on shard 0, 1 and 3 on shard 1
  ASSERT_EQ(first.size(), 4u);
  for (const ChunkSend& send : first)
    if (send.shard == 0) rig.result(send);
  EXPECT_EQ(rig.core.progress().bulk, (std::vector<std::uint64_t>{2, 0}));
  ASSERT_TRUE(rig.rebase(2, {{1, 0}, {0, 0}}, 1));  // chunk 0 is held by all; chunk 2 by this rank, not by another
  Chunks sent;
  for (std::vector<ChunkSend> all = rig.sends(); !all.empty(); all = rig.sends())
    for (const ChunkSend& send : all) {
      EXPECT_EQ(send.header.epoch, Epoch(1, 2).value);
      EXPECT_EQ(send.header.place, sent.size() % 2);
      EXPECT_EQ(send.have, send.header.chunk == 2);
      EXPECT_EQ(send.header.has(wire::kFlagNoResult), send.have) << "who has it wants no payload";
      EXPECT_EQ(send.result_elements, send.have ? 0u : 1024u);
      EXPECT_EQ(send.elements, 1024u);
      sent.push_back(send.header.chunk);
      EXPECT_EQ(rig.result(send).call_complete, sent.size() == 5);
    }
  EXPECT_EQ(sent, (Chunks{1, 2, 3, 4, 5}));
}

TEST(EpochCore, ACompleteCallIsContributedAgainForTheOthers) {
  Rig rig(2);
  rig.submit(0, 4);
  EXPECT_EQ(rig.run().size(), 4u);
  rig.submit(1, 1);  // and one that is not sent before the stop
  ASSERT_TRUE(rig.rebase(2, {{0, 1}, {0, 0}}, 1));
  EXPECT_EQ(rig.core.again().size(), 4u);  // chunks 0, 2, 3 of call 0, chunk 0 of call 1
  std::vector<std::pair<Sequence, bool>> sent;
  for (std::vector<ChunkSend> all = rig.sends(); !all.empty(); all = rig.sends())
    for (const ChunkSend& send : all) {
      sent.emplace_back(send.sequence, send.again);
      const ChunkResult result = rig.result(send);
      EXPECT_EQ(result.call_complete, send.sequence == 1) << "a call completes once";
      EXPECT_EQ(result.elements, send.sequence == 1 ? 1024u : 0u);
    }
  EXPECT_EQ(sent, (std::vector<std::pair<Sequence, bool>>{{0, true}, {0, true}, {0, true}, {1, false}}));
}

TEST(EpochCore, TwoEpochsOneAfterTheOther) {
  Rig rig(3, 1);
  rig.submit(0, 7);
  const auto first = rig.sends();  // 0, 1, 2
  rig.result(first[1]);
  ASSERT_TRUE(rig.rebase(2, {}, 2));  // nothing is held by all
  auto second = rig.sends();
  ASSERT_EQ(second.size(), 2u);
  for (const ChunkSend& send : second) rig.result(send);
  ASSERT_TRUE(rig.rebase(4, {{1, 0}, {0, 0}}, 1));
  EXPECT_EQ(rig.run(), (Chunks{1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(rig.core.calls().empty());
  rig.submit(1, 3);
  EXPECT_EQ(rig.run(), (Chunks{0, 1, 2})) << "numbers go on behind those that were done again";
}

TEST(EpochCore, ABarrierThatIsOverIsDoneAgainWithoutWaiting) {
  Rig rig(2);
  rig.submit(0, 0, wire::Kind::barrier);
  EXPECT_EQ(rig.run().size(), 1u);
  rig.submit(1, 0, wire::Kind::barrier);
  ASSERT_TRUE(rig.rebase(2, {}, 1));
  std::vector<Sequence> sent;
  for (std::vector<ChunkSend> all = rig.sends(); !all.empty(); all = rig.sends())
    for (const ChunkSend& send : all) {
      sent.push_back(send.sequence);
      rig.result(send);
    }
  EXPECT_EQ(sent, (std::vector<Sequence>{0, 1}));
}

TEST(EpochCore, AnEpochThatCountsMoreThanThisRankHoldsIsRefused) {
  Rig rig(1);
  rig.submit(0, 3);
  rig.sends();
  const Status status = rig.rebase(2, {{1}, {0}}, 1);
  EXPECT_EQ(status.code(), Code::protocol_error);
  EXPECT_NE(status.text().find("this rank holds 0"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace redsum::client
