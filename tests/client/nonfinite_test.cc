// SPDX-License-Identifier: Apache-2.0
// NaN and infinities: they stay in their element, are counted where a result arrives and where it is made, and are
// traced to the rank that brought them. The same in every mode.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

class NonFinite : public testing::TestWithParam<redsum_mode> {
 protected:
  static PoolShape shape() { return GetParam() == REDSUM_MODE_SERVER ? PoolShape{2, 1} : no_reducers(); }
  static void adjust(redsum_options& options) { options.mode = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Modes, NonFinite, testing::Values(REDSUM_MODE_SERVER, REDSUM_MODE_DIRECT, REDSUM_MODE_RING),
                         [](const auto& mode) {
                           return mode.param == REDSUM_MODE_SERVER   ? "server"
                                  : mode.param == REDSUM_MODE_DIRECT ? "direct"
                                                                     : "ring";
                         });

std::uint64_t counted(redsum_comm* comm) {
  redsum_statistics statistics{};
  statistics.struct_bytes = sizeof statistics;
  EXPECT_EQ(redsum_stats(comm, &statistics), REDSUM_OK);
  return statistics.nonfinite_results;
}

// What the pool's reducers have counted; none in the other modes.
std::uint64_t counted_by(Pool& pool, std::uint32_t reducers) {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < reducers; ++i)
    for (const server::ShardCounters& shard : pool.reducer(i).snapshot().shards) sum += shard.nonfinite;
  return sum;
}

TEST_P(NonFinite, NUM_01_only_the_sum_of_64_halves_is_infinite_and_counted) {
  Pool pool(shape());
  // 32 is where the sum passes 65504; 64 workers that are reducers for each other have more lanes than a process files.
  const int world = GetParam() == REDSUM_MODE_DIRECT ? 32 : 64;
  run_ranks(
      pool, world,
      [&](redsum_comm* comm, int) {
        std::uint16_t value = 0x6800;  // 2048
        ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP16, REDSUM_AVG), REDSUM_OK) << redsum_last_error();
        EXPECT_EQ(value, 0x6800);
        EXPECT_EQ(counted(comm), 0u);
        ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP16, REDSUM_SUM), REDSUM_OK);
        EXPECT_EQ(value, 0x7C00);
        EXPECT_EQ(counted(comm), 1u);
      },
      adjust);
  EXPECT_EQ(counted_by(pool, shape().reducers), GetParam() == REDSUM_MODE_SERVER ? 1u : 0u);
}

TEST_P(NonFinite, NUM_07_NaN_and_infinity_stay_in_their_element_and_are_counted) {
  Pool pool(shape());
  run_ranks(
      pool, 3,
      [&](redsum_comm* comm, int rank) {
        std::vector<float> data(1000, 1.0f), expected(1000, 3.0f);
        if (rank == 1) {
          data[17] = NAN;
          data[18] = INFINITY;
        }
        if (rank == 2) data[18] = -INFINITY;
        ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
        EXPECT_TRUE(std::isnan(data[17]));
        EXPECT_TRUE(std::isnan(data[18]));
        data[17] = data[18] = 3.0f;
        EXPECT_EQ(data, expected);
        EXPECT_EQ(counted(comm), 2u);
      },
      adjust);
  EXPECT_EQ(counted_by(pool, shape().reducers), GetParam() == REDSUM_MODE_SERVER ? 2u : 0u);
}

// Only what a rank receives counts there, whatever the call, the size of its chunks, the wire type or the way back.
TEST_P(NonFinite, a_rank_counts_the_results_that_it_receives) {
  Pool pool(shape());
  run_ranks(
      pool, 2,
      [&](redsum_comm* comm, int rank) {
        constexpr std::size_t kCount = 300'000;
        std::vector<float> in(kCount, 0.5f), out(kCount);
        for (const std::size_t at : {1u, 2u, 149'999u, 299'999u}) in[at] = INFINITY;
        ASSERT_EQ(allreduce(comm, in.data(), out.data(), kCount, REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
        EXPECT_EQ(counted(comm), 4u);
        redsum_call_options options;
        redsum_call_options_init(&options);
        options.wire_dtype = REDSUM_BF16;
        ASSERT_EQ(allreduce(comm, in.data(), out.data(), kCount, REDSUM_FP32, REDSUM_AVG, &options), REDSUM_OK);
        EXPECT_EQ(counted(comm), 8u);

        redsum_handle* handle = nullptr;
        const redsum_tensor tensor{in.data(), out.data(), kCount};
        ASSERT_EQ(redsum_reduce(comm, &tensor, 1, REDSUM_FP32, REDSUM_SUM, 1, nullptr, &handle), REDSUM_OK);
        ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK);
        redsum_handle_free(handle);
        EXPECT_EQ(counted(comm), rank == 1 ? 12u : 8u);
        ASSERT_EQ(
            redsum_reduce_scatter(comm, in.data(), out.data(), kCount / 2, REDSUM_FP32, REDSUM_SUM, nullptr, &handle),
            REDSUM_OK);
        ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK);
        redsum_handle_free(handle);
        EXPECT_EQ(counted(comm), rank == 1 ? 13u : 11u);
        ASSERT_EQ(redsum_broadcast(comm, &tensor, 1, REDSUM_FP32, 0, nullptr, &handle), REDSUM_OK);
        ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK);
        redsum_handle_free(handle);
        EXPECT_EQ(counted(comm), rank == 1 ? 13u : 11u) << "a broadcast sums nothing";
      },
      adjust);
}

TEST_P(NonFinite, a_world_of_one_counts_too) {
  Pool pool(shape());
  run_ranks(
      pool, 1,
      [&](redsum_comm* comm, int) {
        float data[5] = {1, NAN, 2, -INFINITY, 3};
        ASSERT_EQ(allreduce(comm, data, data, 5, REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
        EXPECT_EQ(counted(comm), 2u);
      },
      adjust);
}

// The library's log while it lives, of the lines about inputs only; REDSUM_CHECK_FINITE is set.
class Checked {
 public:
  Checked() {
    ::setenv("REDSUM_CHECK_FINITE", "1", 1);
    redsum_set_log(
        [](void* user, int, const char* line) {
          auto& self = *static_cast<Checked*>(user);
          const std::lock_guard lock(self.mutex_);
          const std::string text = line;
          if (text.find("contributes") != std::string::npos || text.find("not finite") != std::string::npos)
            self.lines_.push_back(text);
        },
        this);
  }
  ~Checked() {
    redsum_set_log(nullptr, nullptr);
    ::unsetenv("REDSUM_CHECK_FINITE");
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  int count(const std::string& part) const {
    int found = 0;
    for (const std::string& line : lines()) found += line.find(part) != std::string::npos ? 1 : 0;
    return found;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

TEST_P(NonFinite, NUM_07_the_debug_mode_names_rank_key_and_element) {
  Pool pool(shape());
  const Checked log;
  run_ranks(
      pool, 3,
      [&](redsum_comm* comm, int rank) {
        redsum_call_options options;
        redsum_call_options_init(&options);
        options.key = "layer3.weight";
        std::vector<float> bias(10, 1.0f), data(1000, 1.0f);
        if (rank == 1) {
          data[17] = NAN;
          data[18] = INFINITY;
        }
        if (rank == 2) data[18] = -INFINITY;
        const redsum_tensor tensors[] = {
            {bias.data(), bias.data(), bias.size()}, {nullptr, nullptr, 0}, {data.data(), data.data(), data.size()}};
        redsum_handle* handle = nullptr;
        ASSERT_EQ(redsum_allreduce(comm, tensors, 3, REDSUM_FP32, REDSUM_SUM, &options, &handle), REDSUM_OK);
        ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK);
        redsum_handle_free(handle);
        std::uint8_t small[3] = {0x30, 0x30, static_cast<std::uint8_t>(rank == 0 ? 0x7F : 0x30)};
        ASSERT_EQ(allreduce(comm, small, small, 3, REDSUM_FP8_E4M3, REDSUM_SUM), REDSUM_OK);
      },
      adjust);
  EXPECT_EQ(log.lines().size(), 3u) << joined(log.lines());
  EXPECT_EQ(log.count("rank 1 contributes nan to call 0 of communicator 0 (allreduce"), 1) << joined(log.lines());
  EXPECT_EQ(log.count("of 1010 fp32, sum, key 'layer3.weight'): tensor 2, element 17"), 1) << joined(log.lines());
  EXPECT_EQ(log.count("rank 2 contributes -inf to call 0"), 1) << joined(log.lines());
  EXPECT_EQ(log.count("key 'layer3.weight'): tensor 2, element 18"), 1) << joined(log.lines());
  EXPECT_EQ(log.count("rank 0 contributes nan to call 1"), 1) << joined(log.lines());
}

TEST_P(NonFinite, the_debug_mode_names_ten_calls_and_then_says_that_there_are_more) {
  Pool pool(shape());
  const Checked log;
  run_ranks(
      pool, 2,
      [&](redsum_comm* comm, int rank) {
        for (int call = 0; call < 13; ++call) {
          std::uint16_t value = rank == 1 ? 0x7C00 : 0x3C00;
          ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP16, REDSUM_SUM), REDSUM_OK);
        }
        EXPECT_EQ(counted(comm), 13u);
      },
      adjust);
  EXPECT_EQ(log.count("rank 1 contributes inf"), 10) << joined(log.lines());
  EXPECT_EQ(log.count("more calls"), 1) << joined(log.lines());
  EXPECT_EQ(log.lines().size(), 11u) << joined(log.lines());
}

TEST_P(NonFinite, without_the_variable_nothing_is_logged) {
  Pool pool(shape());
  const Checked log;
  ::unsetenv("REDSUM_CHECK_FINITE");
  run_ranks(
      pool, 2,
      [&](redsum_comm* comm, int) {
        float value = INFINITY;
        ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
      },
      adjust);
  EXPECT_EQ(log.lines().size(), 0u) << joined(log.lines());
}

}  // namespace
}  // namespace redsum::test
