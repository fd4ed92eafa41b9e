// SPDX-License-Identifier: Apache-2.0
// The C interface against a real pool: every dtype and op, asynchronous handles, several calls and communicators in
// flight, broadcast, barrier, wire types, lists of tensors.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

TEST(Api, SHP_12_world_sizes_and_counts_that_divide_by_nothing) {
  const Pool pool({2, 2});
  std::vector<std::size_t> counts{1023, 1025, 4097, 65537, 100'003};
  for (std::size_t count = 0; count <= 40; ++count) counts.push_back(count);
  for (int world = 1; world <= 8; ++world)
    run_ranks(pool, world, [&](redsum_comm* comm, int rank) {
      EXPECT_EQ(redsum_comm_rank(comm), rank);
      EXPECT_EQ(redsum_comm_size(comm), world);
      for (const std::size_t count : counts) {
        std::vector<float> in(count, static_cast<float>(rank + 1)), out(count, -1.0f);
        ASSERT_EQ(allreduce(comm, in.data(), out.data(), count, REDSUM_FP32, REDSUM_SUM), REDSUM_OK)
            << redsum_last_error();
        const auto wanted = static_cast<float>(world * (world + 1) / 2);
        EXPECT_TRUE(std::all_of(out.begin(), out.end(), [&](float v) { return v == wanted; })) << count;
        EXPECT_TRUE(std::all_of(in.begin(), in.end(), [&](float v) { return v == static_cast<float>(rank + 1); }));
      }
    });
}

template <typename T>
void expect_op(redsum_comm* comm, redsum_dtype dtype, redsum_op op, T mine, T wanted) {
  std::vector<T> data(33, mine);
  ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), dtype, op), REDSUM_OK) << redsum_last_error();
  for (const T value : data) ASSERT_EQ(value, wanted) << "dtype " << dtype << " op " << op;
}

TEST(Api, ops_on_numbers_with_known_results) {
  const Pool pool;
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    const auto value = static_cast<float>(rank == 0 ? 5 : 0);
    std::vector<float> data(17, value);  // NUM-04: 5/3 by a true division
    ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_AVG), REDSUM_OK);
    std::uint32_t bits;
    std::memcpy(&bits, &data[16], 4);
    EXPECT_EQ(bits, 0x3FD55555u);
    expect_op<double>(comm, REDSUM_FP64, REDSUM_PROD, rank + 2.0, 24.0);
    expect_op<std::int64_t>(comm, REDSUM_INT64, REDSUM_MIN, rank - 1, -1);
    expect_op<std::uint16_t>(comm, REDSUM_UINT16, REDSUM_MAX, static_cast<std::uint16_t>(rank * 9), 18);
    expect_op<std::int8_t>(comm, REDSUM_INT8, REDSUM_SUM, 100, 44);  // wraps
    expect_op<std::uint8_t>(comm, REDSUM_BOOL, REDSUM_SUM, static_cast<std::uint8_t>(rank == 1), 1);
    expect_op<std::complex<float>>(comm, REDSUM_COMPLEX64, REDSUM_SUM, {1.0f, static_cast<float>(rank)}, {3.0f, 3.0f});
    expect_op<std::uint16_t>(comm, REDSUM_BF16, REDSUM_SUM, 0x3F80, 0x4040);
    expect_op<std::uint16_t>(comm, REDSUM_FP16, REDSUM_AVG, 0x6800, 0x6800);
    expect_op<std::uint8_t>(comm, REDSUM_FP8_E4M3, REDSUM_SUM, 0x7E, 0x7E);  // saturates
  });
}

TEST(Api, fp32_travels_as_bf16_and_is_summed_in_fp32_with_one_rounding) {
  const Pool pool;
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    redsum_call_options options;
    redsum_call_options_init(&options);
    options.wire_dtype = REDSUM_BF16;
    // 256 + 1 + 1: bf16 partial sums would stay at 256; one rounding at the end gives 258.
    std::vector<float> data(70'001, rank == 0 ? 256.0f : 1.0f);
    ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM, &options), REDSUM_OK)
        << redsum_last_error();
    EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](float v) { return v == 258.0f; }));
    redsum_statistics statistics{};
    statistics.struct_bytes = sizeof statistics;
    ASSERT_EQ(redsum_stats(comm, &statistics), REDSUM_OK);
    EXPECT_LT(statistics.bytes_sent, 70'001u * 2 + 4096);
    EXPECT_GE(statistics.bytes_sent, 70'001u * 2);
  });
}

TEST(Api, scale_factors_are_applied_in_the_accumulator) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int) {
    redsum_call_options options;
    redsum_call_options_init(&options);
    options.prescale = 0.5;
    options.postscale = 8.0;
    std::vector<float> data(5000, 3.0f);
    ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM, &options), REDSUM_OK)
        << redsum_last_error();
    EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](float v) { return v == 24.0f; }));
  });
}

TEST(Api, many_calls_in_flight_complete_whatever_order_they_are_waited_in) {
  const Pool pool({2, 1});
  run_ranks(pool, 4, [&](redsum_comm* comm, int rank) {
    constexpr std::size_t kCalls = 60;
    std::vector<std::vector<std::int32_t>> data(kCalls);
    std::vector<redsum_handle*> handles(kCalls);
    for (std::size_t i = 0; i < kCalls; ++i) {
      data[i].assign(i * 997 % 40'000, static_cast<std::int32_t>(i) + rank);
      const redsum_tensor tensor{data[i].data(), data[i].data(), data[i].size()};
      ASSERT_EQ(redsum_allreduce(comm, &tensor, 1, REDSUM_INT32, REDSUM_SUM, nullptr, &handles[i]), REDSUM_OK);
      EXPECT_EQ(redsum_handle_sequence(handles[i]), i);
    }
    for (std::size_t i = kCalls; i-- > 0;) {
      ASSERT_EQ(redsum_wait(handles[i], -1), REDSUM_OK) << redsum_last_error();
      EXPECT_EQ(redsum_test(handles[i]), 1);
      EXPECT_EQ(redsum_handle_contributors(handles[i]), 4u);
      const auto wanted = static_cast<std::int32_t>(4 * i + 6);
      EXPECT_TRUE(std::all_of(data[i].begin(), data[i].end(), [&](std::int32_t v) { return v == wanted; })) << i;
      redsum_handle_free(handles[i]);
    }
  });
}

TEST(Api, broadcast_in_place_and_out_of_place_with_a_list) {
  const Pool pool({2, 1});
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    for (int root = 0; root < 3; ++root) {
      std::vector<double> a(3, rank), b(50'000, rank * 10.0), out(50'000, -1);
      const redsum_tensor tensors[] = {{a.data(), a.data(), a.size()},
                                       {rank == root ? b.data() : nullptr, out.data(), b.size()}};
      redsum_handle* handle = nullptr;
      ASSERT_EQ(redsum_broadcast(comm, tensors, 2, REDSUM_FP64, root, nullptr, &handle), REDSUM_OK)
          << redsum_last_error();
      ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK) << redsum_last_error();
      redsum_handle_free(handle);
      EXPECT_TRUE(std::all_of(a.begin(), a.end(), [&](double v) { return v == root; }));
      EXPECT_TRUE(std::all_of(out.begin(), out.end(), [&](double v) { return v == root * 10.0; }))
          << "root " << root << " rank " << rank;
    }
  });
}

TEST(Api, SHP_13_reduce_leaves_the_other_ranks_alone) {
  const Pool pool({2, 1});
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    for (int root = 0; root < 3; ++root) {
      std::vector<std::int64_t> data(40'000), before;
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::int64_t>(i) * (rank + 1);
      before = data;
      const redsum_tensor tensor{data.data(), rank == root ? data.data() : nullptr, data.size()};
      redsum_handle* handle = nullptr;
      ASSERT_EQ(redsum_reduce(comm, &tensor, 1, REDSUM_INT64, REDSUM_SUM, root, nullptr, &handle), REDSUM_OK)
          << redsum_last_error();
      ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK) << redsum_last_error();
      redsum_handle_free(handle);
      if (rank == root)
        for (std::size_t i = 0; i < data.size(); ++i) ASSERT_EQ(data[i], static_cast<std::int64_t>(i) * 6);
      else
        EXPECT_EQ(data, before);
    }
    redsum_statistics statistics{};
    statistics.struct_bytes = sizeof statistics;
    ASSERT_EQ(redsum_stats(comm, &statistics), REDSUM_OK);
    EXPECT_LT(statistics.bytes_received, 40'000u * 8 + 20'000) << "results without payload for who is not the root";
  });
}

TEST(Api, a_barrier_returns_only_after_every_rank_has_entered) {
  const Pool pool;
  std::atomic<int> entered{0};
  run_ranks(pool, 4, [&](redsum_comm* comm, int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(rank * 30));
    ++entered;
    redsum_handle* handle = nullptr;
    ASSERT_EQ(redsum_barrier(comm, nullptr, &handle), REDSUM_OK);
    ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK);
    EXPECT_EQ(entered, 4);
    redsum_handle_free(handle);
  });
}

TEST(Api, communicators_of_some_ranks_in_another_order_work_side_by_side) {
  const Pool pool({2, 1});
  run_ranks(pool, 4, [&](redsum_comm* world, int rank) {
    // Evens and odds; within each, the higher rank comes first.
    const std::int32_t evens[] = {2, 0}, odds[] = {3, 1};
    redsum_comm* half = nullptr;
    ASSERT_EQ(redsum_comm_create(world, rank % 2 == 0 ? evens : odds, 2, &half), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(redsum_comm_size(half), 2);
    EXPECT_EQ(redsum_comm_rank(half), rank >= 2 ? 0 : 1);
    std::vector<float> mine(30'000, static_cast<float>(rank)), all(30'000, 1.0f);
    const redsum_tensor a{mine.data(), mine.data(), mine.size()}, b{all.data(), all.data(), all.size()};
    redsum_handle *first = nullptr, *second = nullptr;
    ASSERT_EQ(redsum_allreduce(half, &a, 1, REDSUM_FP32, REDSUM_SUM, nullptr, &first), REDSUM_OK);
    ASSERT_EQ(redsum_allreduce(world, &b, 1, REDSUM_FP32, REDSUM_SUM, nullptr, &second), REDSUM_OK);
    ASSERT_EQ(redsum_wait(second, -1), REDSUM_OK) << redsum_last_error();
    ASSERT_EQ(redsum_wait(first, -1), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(mine[29'999], rank % 2 == 0 ? 2.0f : 4.0f);
    EXPECT_EQ(all[29'999], 4.0f);
    redsum_handle_free(first);
    redsum_handle_free(second);
    EXPECT_EQ(redsum_comm_close(half), REDSUM_OK);
  });
  EXPECT_EQ(pool.snapshot().jobs.size(), 0u);
}

TEST(Api, callbacks_run_once_on_completion) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    struct Seen {
      std::mutex mutex;
      std::condition_variable changed;
      int calls = 0;
      redsum_status status = REDSUM_INTERNAL;
    } seen;
    float value = static_cast<float>(rank);
    const redsum_tensor tensor{&value, &value, 1};
    redsum_handle* handle = nullptr;
    ASSERT_EQ(redsum_allreduce(comm, &tensor, 1, REDSUM_FP32, REDSUM_SUM, nullptr, &handle), REDSUM_OK);
    const auto callback = [](void* user, redsum_status status) {
      auto& s = *static_cast<Seen*>(user);
      std::lock_guard lock(s.mutex);
      ++s.calls;
      s.status = status;
      s.changed.notify_all();
    };
    ASSERT_EQ(redsum_on_complete(handle, callback, &seen), REDSUM_OK);
    EXPECT_EQ(redsum_on_complete(handle, callback, &seen), REDSUM_INVALID_ARGUMENT);
    std::unique_lock lock(seen.mutex);
    ASSERT_TRUE(seen.changed.wait_for(lock, std::chrono::seconds(20), [&] { return seen.calls == 1; }));
    EXPECT_EQ(seen.status, REDSUM_OK);
    lock.unlock();
    redsum_handle_free(handle);
  });
}

TEST(Api, LIF_12_handles_dropped_without_a_wait_are_safe) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int) {
    std::vector<float> data(100'000, 1.0f);
    for (int i = 0; i < 100; ++i) {
      const redsum_tensor tensor{data.data(), data.data(), data.size()};
      redsum_handle* handle = nullptr;
      ASSERT_EQ(redsum_allreduce(comm, &tensor, 1, REDSUM_FP32, REDSUM_MAX, nullptr, &handle), REDSUM_OK);
      redsum_handle_free(handle);
    }
    redsum_handle* handle = nullptr;
    ASSERT_EQ(redsum_barrier(comm, nullptr, &handle), REDSUM_OK);
    ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK);
    redsum_handle_free(handle);
    EXPECT_EQ(data[99'999], 1.0f);
  });
}

// A view that begins at an odd element, and 64 bytes on both sides that must stay as they are.
void expect_unaligned(redsum_comm* comm, redsum_dtype dtype, std::size_t count, const void* mine, const void* sum) {
  const std::size_t element = redsum_dtype_bytes(dtype), first = 64 / element + 1;
  std::vector<std::byte> memory((count + 2 * first) * element, std::byte{0xAB}), expected = memory;
  for (std::size_t i = first; i < first + count; ++i) {
    std::memcpy(memory.data() + i * element, mine, element);
    std::memcpy(expected.data() + i * element, sum, element);
  }
  std::byte* const data = memory.data() + first * element;
  ASSERT_EQ(allreduce(comm, data, data, count, dtype, REDSUM_SUM), REDSUM_OK) << redsum_last_error();
  EXPECT_EQ(memory, expected) << "dtype " << dtype << ", count " << count;
}

TEST(Api, SHP_14_only_element_alignment_is_needed) {
  const Pool pool;
  std::vector<std::size_t> counts{4099};
  for (std::size_t count = 1; count <= 33; ++count) counts.push_back(count);
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    const std::uint16_t bf16[] = {0x3F80, 0x4000}, bf16_sum = 0x4040;  // 1 + 2
    const std::uint16_t fp16[] = {0x3C00, 0x4000}, fp16_sum = 0x4200;
    const std::int8_t int8[] = {1, 2}, int8_sum = 3;
    const double fp64[] = {1, 2}, fp64_sum = 3;
    for (const std::size_t count : counts) {
      expect_unaligned(comm, REDSUM_BF16, count, &bf16[rank], &bf16_sum);
      expect_unaligned(comm, REDSUM_FP16, count, &fp16[rank], &fp16_sum);
      expect_unaligned(comm, REDSUM_INT8, count, &int8[rank], &int8_sum);
      expect_unaligned(comm, REDSUM_FP64, count, &fp64[rank], &fp64_sum);
    }
  });
}

}  // namespace
}  // namespace redsum::test
