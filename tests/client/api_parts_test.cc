// SPDX-License-Identifier: Apache-2.0
// reduce_scatter and all_gather through the C interface: the bits of the all-reduce, parts of any size, in place and
// not, and what is refused.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

using Counts = std::vector<std::uint64_t>;

redsum_status wait_for(redsum_status submitted, redsum_handle* const& handle, std::string* error = nullptr) {
  if (submitted != REDSUM_OK) {
    if (error) *error = redsum_last_error();
    return submitted;
  }
  const redsum_status status = redsum_wait(handle, -1);
  if (error) *error = redsum_handle_error(handle);
  redsum_handle_free(handle);
  return status;
}

redsum_status reduce_scatter(redsum_comm* comm, const void* input, void* output, const Counts& counts,
                             redsum_dtype dtype, redsum_op op, const redsum_call_options* options = nullptr,
                             std::string* error = nullptr) {
  redsum_handle* handle = nullptr;
  return wait_for(redsum_reduce_scatter_v(comm, input, output, counts.data(), dtype, op, options, &handle), handle,
                  error);
}

redsum_status all_gather(redsum_comm* comm, const void* input, void* output, const Counts& counts, redsum_dtype dtype,
                         std::string* error = nullptr) {
  redsum_handle* handle = nullptr;
  return wait_for(redsum_all_gather_v(comm, input, output, counts.data(), dtype, nullptr, &handle), handle, error);
}

struct Part {
  std::uint64_t first, own, total;
};
Part part_of(const Counts& counts, int rank) {
  return {std::accumulate(counts.begin(), counts.begin() + rank, std::uint64_t{0}),
          counts[static_cast<std::size_t>(rank)], std::accumulate(counts.begin(), counts.end(), std::uint64_t{0})};
}

std::vector<Counts> shapes(int world) {
  const auto n = static_cast<std::size_t>(world);
  Counts uneven(n), one_has_all(n, 0);
  for (std::size_t rank = 0; rank < n; ++rank) uneven[rank] = (rank * 7919 + 3) % 5000 + (rank % 2 ? 0 : 20'000);
  one_has_all[n / 2] = 33'333;
  return {Counts(n, 0), Counts(n, 1), Counts(n, 7), Counts(n, 4096), Counts(n, 30'011), uneven, one_has_all};
}

TEST(ApiParts, a_reduce_scatter_gives_each_rank_its_part_of_the_allreduce) {
  const Pool pool({2, 2});
  for (const int world : {1, 2, 3, 5, 8})
    run_ranks(pool, world, [&](redsum_comm* comm, int rank) {
      for (const Counts& counts : shapes(world))
        for (const bool in_place : {false, true}) {
          const auto [first, own, total] = part_of(counts, rank);
          std::vector<float> in = touchy(total, rank), sum(total), part(own, -1.0f);
          const std::vector<float> before = in;
          ASSERT_EQ(allreduce(comm, in.data(), sum.data(), total, REDSUM_FP32, REDSUM_AVG), REDSUM_OK);
          float* out = in_place ? in.data() + first : part.data();
          ASSERT_EQ(reduce_scatter(comm, in.data(), out, counts, REDSUM_FP32, REDSUM_AVG), REDSUM_OK)
              << redsum_last_error();
          ASSERT_TRUE(std::equal(out, out + own, sum.begin() + static_cast<std::ptrdiff_t>(first),
                                 [](float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }))
              << world << " ranks, " << total;
          if (in_place && own != 0) std::copy_n(before.data() + first, own, out);
          EXPECT_EQ(in, before) << "other ranks' parts were written";
        }
    });
}

TEST(ApiParts, an_all_gather_gives_every_rank_all_parts) {
  const Pool pool({2, 1});
  for (const int world : {1, 2, 3, 5, 8})
    run_ranks(pool, world, [&](redsum_comm* comm, int rank) {
      for (const Counts& counts : shapes(world))
        for (const bool in_place : {false, true}) {
          const auto [first, own, total] = part_of(counts, rank);
          std::vector<std::int16_t> wanted, mine(own, static_cast<std::int16_t>(1000 * rank)), out(total, -1);
          for (int r = 0; r < world; ++r)
            wanted.insert(wanted.end(), counts[static_cast<std::size_t>(r)], static_cast<std::int16_t>(1000 * r));
          if (in_place) std::copy(mine.begin(), mine.end(), out.begin() + static_cast<std::ptrdiff_t>(first));
          ASSERT_EQ(all_gather(comm, in_place ? out.data() + first : mine.data(), out.data(), counts, REDSUM_INT16),
                    REDSUM_OK)
              << redsum_last_error();
          ASSERT_EQ(out, wanted) << world << " ranks, " << total;
        }
    });
}

TEST(ApiParts, equal_parts_move_no_more_than_they_must) {
  const Pool pool({1, 1});
  constexpr std::uint64_t kPart = 500'000;  // fp32: 2 MB
  run_ranks(pool, 4, [&](redsum_comm* comm, int rank) {
    std::vector<float> whole(4 * kPart, static_cast<float>(rank + 1)), part(kPart);
    redsum_call_options as_bf16;
    redsum_call_options_init(&as_bf16);
    as_bf16.wire_dtype = REDSUM_BF16;
    redsum_statistics before{}, after{};
    before.struct_bytes = after.struct_bytes = sizeof before;
    for (const redsum_call_options* options :
         {static_cast<const redsum_call_options*>(nullptr), static_cast<const redsum_call_options*>(&as_bf16)}) {
      const std::uint64_t element = options ? 2 : 4;
      redsum_stats(comm, &before);
      redsum_handle* handle = nullptr;
      ASSERT_EQ(wait_for(redsum_reduce_scatter(comm, whole.data(), part.data(), kPart, REDSUM_FP32, REDSUM_SUM, options,
                                               &handle),
                         handle),
                REDSUM_OK);
      redsum_stats(comm, &after);
      EXPECT_TRUE(std::all_of(part.begin(), part.end(), [](float v) { return v == 10.0f; }));
      EXPECT_LT(after.bytes_received - before.bytes_received, kPart * element + 20'000);
      EXPECT_LT(after.bytes_sent - before.bytes_sent, 4 * kPart * element + 20'000);
    }
    redsum_stats(comm, &before);
    redsum_handle* handle = nullptr;
    ASSERT_EQ(
        wait_for(redsum_all_gather(comm, part.data(), whole.data(), kPart, REDSUM_FP32, nullptr, &handle), handle),
        REDSUM_OK);
    redsum_stats(comm, &after);
    EXPECT_TRUE(std::all_of(whole.begin(), whole.end(), [](float v) { return v == 10.0f; }));
    EXPECT_LT(after.bytes_sent - before.bytes_sent, kPart * 4 + 20'000);
    EXPECT_LT(after.bytes_received - before.bytes_received, 3 * kPart * 4 + 20'000);
  });
}

TEST(ApiParts, equal_counts_are_the_same_call_in_either_form) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    const Counts counts = {2, 2};
    std::vector<float> whole(4, 1.0f), part(2);
    redsum_handle* handle = nullptr;
    EXPECT_EQ(wait_for(rank == 0 ? redsum_reduce_scatter(comm, whole.data(), part.data(), 2, REDSUM_FP32, REDSUM_SUM,
                                                         nullptr, &handle)
                                 : redsum_reduce_scatter_v(comm, whole.data(), part.data(), counts.data(), REDSUM_FP32,
                                                           REDSUM_SUM, nullptr, &handle),
                       handle),
              REDSUM_OK);
    EXPECT_EQ(part, std::vector<float>(2, 2.0f));
  });
}

TEST(ApiParts, SHP_01_other_counts_of_one_rank_are_named_with_both_values) {
  const Pool pool({2, 1});
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    // The sums agree, so only the parts tell.
    const Counts counts = rank == 2 ? Counts{70'001, 69'999, 70'000} : Counts{70'000, 70'000, 70'000};
    std::vector<float> data(210'000, static_cast<float>(rank));
    const std::vector<float> before = data;
    const std::uint64_t first = part_of(counts, rank).first;
    std::string error;
    EXPECT_EQ(reduce_scatter(comm, data.data(), data.data() + first, counts, REDSUM_FP32, REDSUM_SUM, nullptr, &error),
              REDSUM_MISMATCH);
    for (const char* word : {"count of part 0", "70000", "70001", "rank 2"})
      EXPECT_NE(error.find(word), std::string::npos) << word << " in: " << error;
    EXPECT_EQ(data, before);
  });
}

TEST(ApiParts, arguments_are_refused_at_the_call) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    std::vector<float> whole(8), part(4);
    redsum_handle* handle = nullptr;
    const auto refused = [&](redsum_status status, const char* word) {
      EXPECT_EQ(status, REDSUM_INVALID_ARGUMENT) << word;
      EXPECT_NE(std::string(redsum_last_error()).find(word), std::string::npos) << redsum_last_error();
    };
    refused(redsum_reduce_scatter(comm, nullptr, part.data(), 4, REDSUM_FP32, REDSUM_SUM, nullptr, &handle), "input");
    refused(redsum_reduce_scatter(comm, whole.data(), nullptr, 4, REDSUM_FP32, REDSUM_SUM, nullptr, &handle), "output");
    refused(redsum_reduce_scatter(comm, whole.data(), whole.data() + 1, 4, REDSUM_FP32, REDSUM_SUM, nullptr, &handle),
            "overlap");
    refused(redsum_all_gather(comm, whole.data() + 2, whole.data(), 4, REDSUM_FP32, nullptr, &handle), "overlap");
    refused(redsum_all_gather_v(comm, part.data(), whole.data(), nullptr, REDSUM_FP32, nullptr, &handle), "counts");
    refused(redsum_all_gather(comm, part.data(), whole.data(), ~std::uint64_t{0} / 4, REDSUM_FP32, nullptr, &handle),
            "2^62");
    refused(redsum_all_gather(comm, reinterpret_cast<char*>(part.data()) + 1, whole.data(), 3, REDSUM_FP32, nullptr,
                              &handle),
            "multiple of 4");
    // Who has no part needs no memory for it.
    const Counts counts = {8, 0};
    EXPECT_EQ(reduce_scatter(comm, whole.data(), rank == 0 ? whole.data() : nullptr, counts, REDSUM_FP32, REDSUM_SUM),
              REDSUM_OK)
        << redsum_last_error();
    EXPECT_EQ(all_gather(comm, rank == 0 ? whole.data() : nullptr, whole.data(), counts, REDSUM_FP32), REDSUM_OK)
        << redsum_last_error();
  });
}

}  // namespace
}  // namespace redsum::test
