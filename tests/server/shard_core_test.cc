// SPDX-License-Identifier: Apache-2.0
#include "server/core/shard_core.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace redsum::server {
namespace {

constexpr Epoch kEpoch(1, 1);
constexpr std::uint32_t kMembers = 3;

class ShardCoreTest : public testing::Test {
 protected:
  static wire::Header contribution(std::uint32_t rank, std::uint64_t number, std::uint32_t chunk, bool small = false) {
    wire::Header header;
    header.rank = rank;
    header.epoch = kEpoch.value;
    header.place = static_cast<std::uint16_t>(small ? 2 + number % 2 : number % 2);
    header.chunk = chunk;
    header.signature = 77;
    header.payload_bytes = 64;
    if (small) header.flags |= wire::kFlagSmall;
    return header;
  }
  Status arrive(std::uint32_t rank, const wire::Header& header, TimeNs now = 1000) {
    return core_.on_arrival(board_, Rank(rank), header, now, effects_);
  }
  Status arrive(std::uint32_t rank, std::uint64_t number) {
    return arrive(rank, contribution(rank, number, static_cast<std::uint32_t>(number)));
  }
  void fold_all() {
    const auto folds = effects_.folds;
    effects_.folds.clear();
    for (const Fold& fold : folds) core_.on_folded(fold, effects_);
  }

  ShardCore core_;
  BoardIndex board_ = core_.open(kMembers, {4096, 2, 2, 1024}, kEpoch);
  ShardEffects effects_;
};

TEST_F(ShardCoreTest, the_last_contribution_completes_the_slot_in_any_order_of_arrival) {
  std::vector<std::uint32_t> order{0, 1, 2};
  std::uint64_t number = 0;
  do {
    for (const std::uint32_t rank : order) {
      EXPECT_TRUE(effects_.folds.empty());
      ASSERT_TRUE(arrive(rank, number)) << number;
    }
    ASSERT_EQ(effects_.folds.size(), 1u);
    EXPECT_EQ(effects_.folds[0].contributors, kMembers);
    fold_all();
    ASSERT_EQ(effects_.sends.size(), kMembers);
    for (const ResultSend& send : effects_.sends) {
      EXPECT_EQ(send.header.type, wire::FrameType::result);
      EXPECT_EQ(send.header.rank, send.to.value);
      EXPECT_EQ(send.header.contributors, kMembers);
      EXPECT_EQ(send.header.payload_bytes, 64u);
      EXPECT_EQ(send.place.value, number % 2);
    }
    effects_.clear();
    ++number;
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(ShardCoreTest, every_result_tells_that_the_fold_found_numbers_that_are_not_finite) {
  for (const bool nonfinite : {true, false}) {
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) ASSERT_TRUE(arrive(rank, nonfinite ? 0 : 1));
    effects_.folds.at(0).nonfinite = nonfinite;
    fold_all();
    ASSERT_EQ(effects_.sends.size(), kMembers);
    for (const ResultSend& send : effects_.sends) EXPECT_EQ(send.header.has(wire::kFlagNonFinite), nonfinite);
    effects_.clear();
  }
}

TEST_F(ShardCoreTest, the_two_result_buffers_of_a_place_alternate) {
  std::vector<int> buffers;
  for (std::uint64_t number = 0; number < 6; ++number) {
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) ASSERT_TRUE(arrive(rank, number));
    buffers.push_back(effects_.folds.at(0).buffer);
    fold_all();
    effects_.clear();
  }
  EXPECT_EQ(buffers, (std::vector<int>{0, 0, 1, 1, 0, 0}));
}

TEST_F(ShardCoreTest, a_rank_that_sends_beyond_its_window_is_refused) {
  ASSERT_TRUE(arrive(0, 0));
  ASSERT_TRUE(arrive(0, 1));
  const Status status = arrive(0, 2);
  EXPECT_EQ(status.code(), Code::protocol_error);
  EXPECT_NE(status.text().find("window 2"), std::string::npos) << status.text();
}

TEST_F(ShardCoreTest, a_chunk_that_comes_twice_is_refused_even_when_its_place_is_free_again) {
  for (std::uint64_t number = 0; number < 2; ++number)
    for (std::uint32_t rank = 0; rank < kMembers; ++rank) ASSERT_TRUE(arrive(rank, number));
  fold_all();
  const Status status = arrive(1, contribution(1, 0, 0));  // number 0 again, where number 2 belongs
  EXPECT_EQ(status.code(), Code::protocol_error);
  EXPECT_NE(status.text().find("after chunk 1"), std::string::npos) << status.text();
}

TEST_F(ShardCoreTest, a_wrong_place_rank_type_or_size_is_refused_by_name) {
  const auto refused = [&](const char* word, void (*change)(wire::Header&)) {
    wire::Header header = contribution(1, 0, 0);
    change(header);
    const Status status = arrive(1, header);
    EXPECT_EQ(status.code(), Code::protocol_error) << word;
    EXPECT_NE(status.text().find(word), std::string::npos) << status.text();
  };
  refused("place 1", [](wire::Header& h) { h.place = 1; });
  refused("place 9", [](wire::Header& h) { h.place = 9; });
  refused("rank 2", [](wire::Header& h) { h.rank = 2; });
  refused("type 2", [](wire::Header& h) { h.type = wire::FrameType::result; });
  refused("8192 bytes", [](wire::Header& h) { h.payload_bytes = 8192; });
  refused("epoch", [](wire::Header& h) { h.epoch = Epoch(1, 2).value; });
}

TEST_F(ShardCoreTest, frames_of_an_older_epoch_are_never_counted) {
  wire::Header old = contribution(0, 0, 0);
  old.epoch = Epoch(0, 9).value;
  EXPECT_TRUE(arrive(0, old));
  EXPECT_EQ(core_.slots_in_use(board_), 0u);
}

TEST_F(ShardCoreTest, a_difference_is_told_once_and_stops_the_numbering_there) {
  ASSERT_TRUE(arrive(0, 0));
  wire::Header other = contribution(1, 0, 0);
  other.signature = 78;
  ASSERT_TRUE(arrive(1, other));
  ASSERT_TRUE(arrive(2, 0));
  ASSERT_EQ(effects_.disagreements.size(), 1u);
  EXPECT_EQ(effects_.disagreements[0].field, "signature");
  EXPECT_EQ(effects_.disagreements[0].first.value, 0u);
  EXPECT_EQ(effects_.disagreements[0].second.value, 1u);
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) ASSERT_TRUE(arrive(rank, 1));
  EXPECT_TRUE(effects_.folds.empty()) << "a later result must not overtake the one that never comes";
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    wire::Header small = contribution(rank, 0, 0, true);
    small.sequence = 3;
    ASSERT_TRUE(arrive(rank, small));
  }
  EXPECT_EQ(effects_.folds.size(), 1u) << "the small numbering goes on";
}

TEST_F(ShardCoreTest, a_broadcast_takes_the_payload_of_the_only_rank_that_has_one) {
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    wire::Header header = contribution(rank, 0, 0);
    header.set_kind(wire::Kind::broadcast);
    if (rank != 1) {
      header.flags |= wire::kFlagHeaderOnly;
      header.payload_bytes = 0;
    }
    ASSERT_TRUE(arrive(rank, header));
  }
  ASSERT_EQ(effects_.folds.size(), 1u);
  EXPECT_EQ(effects_.folds[0].only, Rank(1));
  EXPECT_EQ(effects_.folds[0].like.payload_bytes, 64u);
  fold_all();
  for (const ResultSend& send : effects_.sends)
    EXPECT_EQ(send.header.payload_bytes, send.to == Rank(1) ? 0u : 64u) << "the root has its data already";
}

TEST_F(ShardCoreTest, a_rank_that_wants_no_payload_gets_the_result_without) {
  for (std::uint32_t rank = 0; rank < kMembers; ++rank) {
    wire::Header header = contribution(rank, 0, 0);
    header.set_kind(wire::Kind::reduce);
    if (rank != 2) header.flags |= wire::kFlagNoResult;
    ASSERT_TRUE(arrive(rank, header));
  }
  fold_all();
  ASSERT_EQ(effects_.sends.size(), kMembers);
  for (const ResultSend& send : effects_.sends) {
    EXPECT_EQ(send.header.payload_bytes, send.to == Rank(2) ? 64u : 0u);
    EXPECT_EQ(send.header.has(wire::kFlagHeaderOnly), send.to != Rank(2));
    EXPECT_FALSE(send.header.has(wire::kFlagNoResult));
  }
}

TEST_F(ShardCoreTest, the_rank_that_was_late_is_known) {
  ASSERT_TRUE(arrive(0, contribution(0, 0, 0), 1000));
  ASSERT_TRUE(arrive(2, contribution(2, 0, 0), 1500));
  ASSERT_TRUE(arrive(1, contribution(1, 0, 0), 9500));
  EXPECT_EQ(core_.last_skew_ns(), 8500);
  EXPECT_EQ(core_.lateness(board_)[1].last_arrivals, 1u);
  EXPECT_EQ(core_.lateness(board_)[1].lag_ns, 8000);
  EXPECT_EQ(core_.lateness(board_)[0].last_arrivals, 0u);
}

TEST_F(ShardCoreTest, a_closed_board_is_used_again_from_its_beginning) {
  ASSERT_TRUE(arrive(0, 0));
  core_.close(board_);
  const BoardIndex again = core_.open(1, {4096, 1, 1, 1024}, kEpoch);
  EXPECT_EQ(again.value, board_.value);
  ASSERT_TRUE(core_.on_arrival(again, Rank(0), contribution(0, 0, 0), 1, effects_));
  EXPECT_EQ(effects_.folds.size(), 1u);
}

}  // namespace
}  // namespace redsum::server
