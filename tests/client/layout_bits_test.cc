// SPDX-License-Identifier: Apache-2.0
// The same inputs give the same bytes over arrival orders, chunk sizes, reducers, shards, fused or not; and these are
// the bytes of a plain left fold written down here. Run once per instruction set.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "kernels/dispatch.h"
#include "tests/client/pool.h"

namespace redsum::test {
namespace {

constexpr int kWorld = 4;
constexpr std::size_t kCount = 300'007;  // divisible by nothing in use

// Sums of these depend on the order of addition in nearly every element.
std::vector<float> data_of(int rank) {
  std::vector<float> data(kCount);
  std::uint32_t state = 12345u + static_cast<std::uint32_t>(rank) * 2654435761u;
  for (float& value : data) {
    state = state * 1664525u + 1013904223u;
    const int exponent = static_cast<int>(state >> 27) - 16;
    value = std::ldexp(static_cast<float>(static_cast<std::int32_t>(state << 5) >> 8), exponent);
  }
  return data;
}

const std::vector<float>& expected() {
  static const std::vector<float> sum = [] {
    std::vector<float> result = data_of(0);
    for (int rank = 1; rank < kWorld; ++rank) {
      const std::vector<float> more = data_of(rank);
      for (std::size_t i = 0; i < kCount; ++i) {
        volatile float partial = result[i] + more[i];
        result[i] = partial;
      }
    }
    return result;
  }();
  return sum;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

redsum_status reduce(redsum_comm* comm, std::vector<float>& data, bool fused) {
  if (!fused) return allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM);
  const std::size_t cuts[] = {0, 1, 777, 100'000, 250'001, kCount};
  std::vector<redsum_tensor> tensors;
  for (std::size_t i = 0; i + 1 < std::size(cuts); ++i)
    tensors.push_back({data.data() + cuts[i], data.data() + cuts[i], cuts[i + 1] - cuts[i]});
  redsum_handle* handle = nullptr;
  if (redsum_allreduce(comm, tensors.data(), tensors.size(), REDSUM_FP32, REDSUM_SUM, nullptr, &handle) != REDSUM_OK)
    return REDSUM_INTERNAL;
  const redsum_status status = redsum_wait(handle, -1);
  redsum_handle_free(handle);
  return status;
}

class LayoutBits : public testing::Test {
 protected:
  void SetUp() override {
    const char* wanted = std::getenv("REDSUM_ISA");
    if (wanted && kernels::active_isa() != wanted) GTEST_SKIP() << "this machine has no " << wanted;
  }
};

TEST_F(LayoutBits, are_the_left_fold_for_every_chunk_size_reducer_count_shard_count_and_fusion) {
  for (const std::uint32_t reducers : {1u, 2u, 3u})
    for (const std::uint32_t shards : {1u, 2u}) {
      const Pool pool({reducers, shards});
      for (const std::uint32_t chunk : {4096u, 65536u, 1048576u})
        for (const bool fused : {false, true})
          run_ranks(
              pool, kWorld,
              [&](redsum_comm* comm, int rank) {
                std::vector<float> data = data_of(rank);
                ASSERT_EQ(reduce(comm, data, fused), REDSUM_OK) << redsum_last_error();
                EXPECT_TRUE(same_bits(data, expected()))
                    << reducers << " reducers, " << shards << " shards, chunk " << chunk << ", fused " << fused;
              },
              [&](redsum_options& options) { options.chunk_bytes = chunk; });
    }
}

TEST_F(LayoutBits, are_the_left_fold_in_direct_mode_too) {
  const Pool pool(no_reducers());
  for (const std::uint32_t chunk : {4096u, 65536u, 1048576u})
    run_ranks(
        pool, kWorld,
        [&](redsum_comm* comm, int rank) {
          std::vector<float> data = data_of(rank);
          ASSERT_EQ(reduce(comm, data, true), REDSUM_OK) << redsum_last_error();
          EXPECT_TRUE(same_bits(data, expected())) << "chunk " << chunk;
        },
        [&](redsum_options& options) {
          options.chunk_bytes = chunk;
          direct(options);
        });
}

// NUM-05: 1e8 + 1 - 1e8 + 1 is 1.0 in rank order and something else in others.
TEST_F(LayoutBits, NUM_05_do_not_depend_on_the_order_of_arrival) {
  const Pool pool({2, 1});
  const float touchy[kWorld] = {1e8f, 1.0f, -1e8f, 1.0f};
  int order[kWorld] = {0, 1, 2, 3};
  int orders = 0;
  do {
    run_ranks(pool, kWorld, [&](redsum_comm* comm, int rank) {
      std::this_thread::sleep_for(std::chrono::milliseconds(15 * order[rank]));  // the delay is the input
      float value = touchy[rank];
      ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
      EXPECT_EQ(value, 1.0f);
    });
    ++orders;
  } while (std::next_permutation(order, order + kWorld));
  EXPECT_EQ(orders, 24);
}

}  // namespace
}  // namespace redsum::test
