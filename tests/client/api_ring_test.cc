// SPDX-License-Identifier: Apache-2.0
// Ring mode through the C interface: the bits of server mode in order `rank`, the documented order otherwise, every
// collective, both modes in one job, and who is told what. What it shares with direct mode: api_modes_test.cc.
#include <algorithm>
#include <cstring>

#include "client/core/ring_route.h"
#include "kernels/fold.h"
#include "tests/client/pool.h"
#include "transport/base/prng.h"

namespace redsum::test {
namespace {

void ring(redsum_options& options) {
  options.mode = REDSUM_MODE_RING;
}
void ring_by_rank(redsum_options& options) {
  options.mode = REDSUM_MODE_RING;
  options.ring_order = REDSUM_RING_ORDER_RANK;
}
void order_rank(redsum_options& options) {
  options.ring_order = REDSUM_RING_ORDER_RANK;
}

redsum_call_options round_the_ring() {
  redsum_call_options options;
  redsum_call_options_init(&options);
  options.ring = 1;
  return options;
}

std::vector<std::byte> any_bits(std::size_t bytes, std::uint64_t seed) {
  Prng random(seed);
  std::vector<std::byte> data(bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random.next());
  return data;
}

// Any bits are any values: infinities, NaNs, subnormals and zeros of both signs among them.
TEST(ApiRing, order_rank_gives_the_bits_of_server_mode_for_every_type_and_op) {
  const Pool pool({2, 1});
  for (int world = 1; world <= 8; ++world)
    run_ranks(
        pool, world,
        [&](redsum_comm* comm, int rank) {
          for (int dtype = 0; dtype < kDTypeCount; ++dtype)
            for (int op = 0; op < kOpCount; ++op) {
              if (!reduction_defined(static_cast<DType>(dtype), static_cast<Op>(op))) continue;
              const std::size_t count = 1 + static_cast<std::size_t>(dtype * 1931 + op * 4073);
              const std::size_t bytes = count * dtype_bytes(static_cast<DType>(dtype));
              const auto input = any_bits(bytes, static_cast<std::uint64_t>((dtype * 100 + op) * 100 + rank));
              std::vector<std::byte> server(bytes), mine = input;
              redsum_call_options options = round_the_ring();
              const auto type = static_cast<redsum_dtype>(dtype);
              const auto what = static_cast<redsum_op>(op);
              ASSERT_EQ(allreduce(comm, mine.data(), mine.data(), count, type, what, &options), REDSUM_OK)
                  << redsum_last_error();
              options.ring = 0;
              ASSERT_EQ(allreduce(comm, input.data(), server.data(), count, type, what, &options), REDSUM_OK);
              ASSERT_EQ(mine, server) << world << " ranks, dtype " << dtype << ", op " << op;
            }
        },
        order_rank);
}

TEST(ApiRing, order_rank_gives_the_bits_of_server_mode_scaled_and_with_a_wire_type) {
  const Pool pool({1, 2});
  for (const int world : {1, 2, 3, 5})
    run_ranks(
        pool, world,
        [&](redsum_comm* comm, int rank) {
          for (const std::int32_t wire : {-1, int(REDSUM_BF16), int(REDSUM_FP16)})
            for (const redsum_op op : {REDSUM_SUM, REDSUM_AVG, REDSUM_MAX})
              for (const std::size_t count : {1u, 5000u, 200'003u}) {
                const std::vector<float> input = touchy(count, rank);
                std::vector<float> server(count), mine = input;
                redsum_call_options options = round_the_ring();
                options.wire_dtype = wire;
                options.prescale = 0.3;
                options.postscale = 1.7;
                ASSERT_EQ(allreduce(comm, mine.data(), mine.data(), count, REDSUM_FP32, op, &options), REDSUM_OK);
                options.ring = 0;
                ASSERT_EQ(allreduce(comm, input.data(), server.data(), count, REDSUM_FP32, op, &options), REDSUM_OK);
                ASSERT_EQ(std::memcmp(mine.data(), server.data(), count * sizeof(float)), 0)
                    << world << " ranks, " << count << " elements, wire " << wire << ", op " << op;
              }
        },
        order_rank);
}

// The order is part of the interface: chunk k of an all-reduce begins at rank (k + 1) mod n.
TEST(ApiRing, order_ring_is_the_documented_one) {
  const Pool pool(no_reducers());
  for (const int world : {2, 3, 4, 7}) {
    const std::size_t count = 300'007;
    const auto n = static_cast<std::uint32_t>(world);
    std::vector<std::vector<float>> inputs, results(n);
    for (int rank = 0; rank < world; ++rank) inputs.push_back(touchy(count, rank));
    run_ranks(
        pool, world,
        [&](redsum_comm* comm, int rank) {
          std::vector<float> data = inputs[static_cast<std::size_t>(rank)];
          ASSERT_EQ(allreduce(comm, data.data(), data.data(), count, REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
          results[static_cast<std::size_t>(rank)] = std::move(data);
        },
        [](redsum_options& options) {
          ring(options);
          options.chunk_bytes = 65536;
        });
    wire::CallDescription call;
    call.count = count;
    const wire::JobSettings settings{65536, 4, 4, 16384, wire::Mode::ring, wire::RingOrder::ring};
    const client::ChunkLayout layout = client::ring_layout(call, n, settings, sizeof(float));
    std::vector<float> expected(count);
    for (std::uint32_t chunk = 0; chunk < layout.chunks(); ++chunk) {
      const client::ChunkPiece piece = layout.at(chunk);
      std::vector<const void*> ordered;
      for (std::uint32_t i = 0; i < n; ++i) ordered.push_back(&inputs[(chunk + 1 + i) % n][piece.offset]);
      kernels::fold({DType::fp32, Op::sum, n}, &expected[piece.offset], ordered, piece.elements);
    }
    for (const auto& result : results) {
      ASSERT_EQ(result.size(), count);
      EXPECT_EQ(std::memcmp(result.data(), expected.data(), count * sizeof(float)), 0) << world << " ranks";
    }
  }
}

// Sums of small integers are exact in any order.
void every_collective(redsum_comm* comm, int rank) {
  const int n = redsum_comm_size(comm);
  const auto size = static_cast<std::size_t>(n);
  const std::int64_t sum = std::int64_t{n} * (n + 1) / 2;
  const auto wait = [](redsum_handle* handle) {
    const redsum_status status = redsum_wait(handle, -1);
    redsum_handle_free(handle);
    return status;
  };
  for (const std::size_t count : {1u, 3000u, 70'001u}) {
    const int root = static_cast<int>(count) % n;
    redsum_handle* handle = nullptr;
    std::vector<std::int64_t> data(count, rank + 1);
    redsum_tensor tensor{data.data(), data.data(), count};
    ASSERT_EQ(redsum_reduce(comm, &tensor, 1, REDSUM_INT64, REDSUM_SUM, root, nullptr, &handle), REDSUM_OK);
    ASSERT_EQ(wait(handle), REDSUM_OK);
    EXPECT_EQ(data, std::vector<std::int64_t>(count, rank == root ? sum : rank + 1));
    ASSERT_EQ(redsum_broadcast(comm, &tensor, 1, REDSUM_INT64, root, nullptr, &handle), REDSUM_OK);
    ASSERT_EQ(wait(handle), REDSUM_OK);
    EXPECT_EQ(data, std::vector<std::int64_t>(count, sum));

    std::vector<std::uint64_t> counts(size);  // some parts are empty
    for (std::size_t r = 0; r < size; ++r) counts[r] = r % 3 == 1 ? 0 : count + r;
    std::vector<std::int64_t> whole;
    for (std::size_t r = 0; r < size; ++r)
      whole.insert(whole.end(), counts[r], static_cast<std::int64_t>(r) * 1000 + rank);
    const std::uint64_t own = counts[static_cast<std::size_t>(rank)];
    std::vector<std::int64_t> part(own);
    ASSERT_EQ(redsum_reduce_scatter_v(comm, whole.data(), part.data(), counts.data(), REDSUM_INT64, REDSUM_SUM, nullptr,
                                      &handle),
              REDSUM_OK)
        << redsum_last_error();
    ASSERT_EQ(wait(handle), REDSUM_OK);
    EXPECT_EQ(part, std::vector<std::int64_t>(own, std::int64_t{rank} * 1000 * n + sum - n));
    std::vector<std::int64_t> gathered(whole.size()), expected;
    for (std::size_t r = 0; r < size; ++r)
      expected.insert(expected.end(), counts[r], static_cast<std::int64_t>(r) * 1000 * n + sum - n);
    ASSERT_EQ(redsum_all_gather_v(comm, part.data(), gathered.data(), counts.data(), REDSUM_INT64, nullptr, &handle),
              REDSUM_OK);
    ASSERT_EQ(wait(handle), REDSUM_OK);
    EXPECT_EQ(gathered, expected);
    ASSERT_EQ(redsum_barrier(comm, nullptr, &handle), REDSUM_OK);
    ASSERT_EQ(wait(handle), REDSUM_OK);
  }
}

TEST(ApiRing, every_collective_in_both_orders) {
  const Pool pool(no_reducers());
  for (const int world : {1, 2, 3, 4, 5, 8})
    for (const Adjust& order : {Adjust(ring), Adjust(ring_by_rank)}) run_ranks(pool, world, every_collective, order);
}

TEST(ApiRing, a_rank_in_another_mode_is_told) {
  const Pool pool;
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    std::vector<float> data(1000, 1.0f);
    const redsum_call_options options = round_the_ring();
    std::string error;
    EXPECT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM,
                        rank == 2 ? &options : nullptr, &error),
              REDSUM_MISMATCH);
    EXPECT_NE(error.find("differs in mode"), std::string::npos) << error;
  });
}

TEST(ApiRing, a_rank_that_has_left_is_named) {
  const Pool pool(no_reducers());
  run_ranks(
      pool, 3,
      [&](redsum_comm* comm, int rank) {
        if (rank == 1) return;
        std::vector<float> data(300'000, 1.0f);
        std::string error;
        EXPECT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM, nullptr, &error),
                  REDSUM_PEER_LOST);
        EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
        EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](float v) { return v == 1.0f; }));
      },
      ring);
}

TEST(ApiRing, listens_beyond_loopback_with_a_secret_only) {
  const Pool pool;
  redsum_comm* comm = nullptr;
  EXPECT_EQ(join(
                pool, next_job(), 0, 1,
                [](redsum_options& options) {
                  ring(options);
                  options.data_address = "0.0.0.0";
                },
                &comm),
            REDSUM_AUTH_FAILED);
  EXPECT_NE(std::string(redsum_last_error()).find("REDSUM_SECRET_FILE"), std::string::npos) << redsum_last_error();
  // In server mode the job goes on, and calls for the ring are refused.
  run_ranks(
      pool, 2,
      [](redsum_comm* world, int) {
        float value = 1;
        const redsum_tensor tensor{&value, &value, 1};
        const redsum_call_options options = round_the_ring();
        redsum_handle* handle = nullptr;
        EXPECT_EQ(redsum_allreduce(world, &tensor, 1, REDSUM_FP32, REDSUM_SUM, &options, &handle), REDSUM_UNSUPPORTED);
        EXPECT_NE(std::string(redsum_last_error()).find("rank 0"), std::string::npos) << redsum_last_error();
        EXPECT_EQ(allreduce(world, &value, &value, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
        EXPECT_EQ(value, 2.0f);
      },
      [](redsum_options& options) { options.data_address = "0.0.0.0"; });
}

}  // namespace
}  // namespace redsum::test
