// SPDX-License-Identifier: Apache-2.0
#include "client/call.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "client/block_pool.h"

namespace redsum::client {
namespace {

struct Pieces {
  std::vector<std::vector<float>> in, out;
  Call call;
  explicit Pieces(const std::vector<std::size_t>& counts) {
    call.description.dtype = DType::fp32;
    float value = 0;
    std::uint64_t first = 0;
    for (const std::size_t count : counts) {
      in.emplace_back(count);
      out.emplace_back(count, -1.0f);
      for (float& element : in.back()) element = value++;
      call.tensors.push_back({reinterpret_cast<const std::byte*>(in.back().data()),
                              reinterpret_cast<std::byte*>(out.back().data()), count, first});
      first += count;
    }
    call.description.count = first;
  }
};

TEST(Call, gathers_and_scatters_across_tensors_at_every_offset) {
  for (std::uint64_t offset = 0; offset < 20; ++offset) {
    for (std::uint64_t count = 0; offset + count <= 20; ++count) {
      Pieces pieces({3, 1, 9, 7});
      std::vector<float> flat(count);
      gather(pieces.call, offset, count, DType::fp32, reinterpret_cast<std::byte*>(flat.data()));
      for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(flat[i], static_cast<float>(offset + i));
      scatter(pieces.call, offset, count, DType::fp32, reinterpret_cast<const std::byte*>(flat.data()));
      std::uint64_t at = 0;
      for (const auto& out : pieces.out)
        for (const float value : out) {
          ASSERT_EQ(value, at >= offset && at < offset + count ? static_cast<float>(at) : -1.0f);
          ++at;
        }
    }
  }
}

TEST(Call, converts_to_the_wire_type_and_back) {
  Pieces pieces({5, 4});
  std::vector<std::uint16_t> wire(9);
  gather(pieces.call, 0, 9, DType::bf16, reinterpret_cast<std::byte*>(wire.data()));
  EXPECT_EQ(wire[1], 0x3F80);
  scatter(pieces.call, 0, 9, DType::bf16, reinterpret_cast<const std::byte*>(wire.data()));
  EXPECT_EQ(pieces.out[1][3], 8.0f);
}

TEST(Call, finds_elements_where_they_lie_in_one_tensor) {
  Pieces pieces({4, 4});
  EXPECT_EQ(contiguous_input(pieces.call, 4, 4), pieces.call.tensors[1].input);
  EXPECT_EQ(contiguous_input(pieces.call, 1, 2), pieces.call.tensors[0].input + 4);
  EXPECT_EQ(contiguous_input(pieces.call, 3, 2), nullptr);
}

TEST(Call, completes_once_and_calls_back_once) {
  Call call;
  int calls = 0;
  EXPECT_TRUE(call.on_complete([&](const Status&) { ++calls; }));
  EXPECT_FALSE(call.on_complete([&](const Status&) { calls += 10; }));
  EXPECT_FALSE(call.wait_until(monotonic_now() + kMillisecond));
  std::thread other([&] { call.complete({Code::timeout, "late"}, 0); });
  EXPECT_TRUE(call.wait_until(kNever));
  other.join();
  call.complete({}, 3);
  EXPECT_EQ(call.status().code(), Code::timeout);
  EXPECT_EQ(calls, 1);
}

TEST(Call, a_callback_set_after_completion_runs_at_once) {
  Call call;
  call.complete({}, 2);
  bool called = false;
  EXPECT_TRUE(call.on_complete([&](const Status& status) { called = status.ok(); }));
  EXPECT_TRUE(called);
}

TEST(BlockPool, reuses_blocks_and_gives_everything_back) {
  BlockPool pool;
  std::vector<std::pair<std::byte*, std::size_t>> blocks;
  for (const std::size_t bytes : {1u, 4096u, 4097u, 65536u, 1u << 20, 4u << 20}) {
    std::byte* block = pool.take(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
    block[0] = block[bytes - 1] = std::byte{1};
    blocks.emplace_back(block, bytes);
  }
  EXPECT_EQ(pool.blocks_out(), blocks.size());
  pool.trim();  // nothing happens: blocks are out
  std::byte* const last = blocks.back().first;
  for (const auto& [block, bytes] : blocks) pool.give(block, bytes);
  EXPECT_EQ(pool.take(4u << 20), last);
  pool.give(last, 4u << 20);
  pool.trim();
  EXPECT_EQ(pool.blocks_out(), 0u);
}

}  // namespace
}  // namespace redsum::client
