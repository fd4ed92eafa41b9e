// SPDX-License-Identifier: Apache-2.0
// Loss of a member ends the job's collectives with the right error, and inputs are put back.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(ApiLoss, the_last_reducer_that_goes_is_named_and_inputs_are_put_back) {
  Pool pool({1, 2});
  std::atomic<int> warm{0};
  std::thread killer([&] {
    while (warm < 3) std::this_thread::yield();
    pool.stop_reducer(0);
  });
  run_ranks(
      pool, 3,
      [&](redsum_comm* comm, int rank) {
        std::vector<float> data(2'000'000, static_cast<float>(rank));
        redsum_status status = REDSUM_OK;
        std::string error;
        for (int i = 0; i < 10'000 && status == REDSUM_OK; ++i) {
          std::fill(data.begin(), data.end(), static_cast<float>(rank));
          status = allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM, nullptr, &error);
          if (i == 0) ++warm;
        }
        EXPECT_EQ(status, REDSUM_REDUCER_LOST) << error;
        EXPECT_TRUE(has(error, "r0")) << error;
        EXPECT_TRUE(std::all_of(data.begin(), data.end(), [&](float v) { return v == static_cast<float>(rank); }));
      },
      [](redsum_options& options) { options.fallback = REDSUM_FALLBACK_NONE; });
  killer.join();
}

// In place and not, with and without roll-back, small and large, several in flight: every result has the bits that it
// had before, whatever is lost while it is under way.
TEST(ApiLoss, calls_go_on_with_the_same_bits_when_reducers_go) {
  Pool pool({4, 2});
  std::atomic<int> rounds{0};
  std::atomic<bool> over{false};
  constexpr int kRanks = 3;
  std::thread killer([&] {
    for (std::size_t victim = 0; victim < 4; ++victim) {
      const int from = rounds;
      while (rounds < from + 4 * kRanks) std::this_thread::yield();
      pool.stop_reducer(victim);
    }
    const int from = rounds;
    while (rounds < from + 4 * kRanks) std::this_thread::yield();
    over = true;
  });
  run_ranks(pool, kRanks, [&](redsum_comm* comm, int rank) {
    struct Shape {
      std::size_t count;
      bool in_place, rollback;
    };
    const Shape shapes[] = {
        {1, true, true}, {3'000, false, true}, {400'000, true, true}, {700'001, false, false}, {500'000, true, false}};
    std::vector<std::vector<float>> expected;
    std::uint32_t go_on = 1;
    for (int round = 0; go_on != 0; ++round) {
      std::vector<std::vector<float>> in, out;
      std::vector<redsum_handle*> handles;
      for (const Shape& shape : shapes) {
        in.push_back(touchy(shape.count, rank));
        out.emplace_back(shape.in_place ? 0 : shape.count);
        redsum_call_options options;
        redsum_call_options_init(&options);
        options.no_rollback = !shape.rollback;
        const redsum_tensor tensor{in.back().data(), shape.in_place ? in.back().data() : out.back().data(),
                                   shape.count};
        ASSERT_EQ(redsum_allreduce(comm, &tensor, 1, REDSUM_FP32, REDSUM_AVG, &options, &handles.emplace_back()),
                  REDSUM_OK)
            << redsum_last_error();
      }
      for (std::size_t i = 0; i < handles.size(); ++i) {
        ASSERT_EQ(redsum_wait(handles[i], -1), REDSUM_OK) << redsum_handle_error(handles[i]);
        redsum_handle_free(handles[i]);
        const std::vector<float>& got = shapes[i].in_place ? in[i] : out[i];
        if (round == 0)
          expected.push_back(got);
        else
          ASSERT_EQ(std::memcmp(got.data(), expected[i].data(), got.size() * sizeof(float)), 0) << "round " << round;
      }
      ++rounds;
      const std::uint32_t mine = over ? 0 : 1;  // all ranks end in the same round
      ASSERT_EQ(allreduce(comm, &mine, &go_on, 1, REDSUM_UINT32, REDSUM_MIN), REDSUM_OK);
    }
    redsum_statistics statistics{};
    statistics.struct_bytes = sizeof statistics;
    ASSERT_EQ(redsum_stats(comm, &statistics), REDSUM_OK);
    // One of each rank that has not left yet.
    EXPECT_GE(statistics.reducers, 1u);
    EXPECT_LE(statistics.reducers, 3u);
    EXPECT_GE(statistics.epoch & 0xFFFFF, 5u);
  });
  killer.join();
}

// NET-13: the peer dies before any traffic; the first call on the survivors ends all the same.
TEST(ApiLoss, NET_13_a_worker_that_leaves_before_its_first_call_is_named) {
  const Pool pool;
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    if (rank == 1) return;
    float value = 1;
    std::string error;
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP32, REDSUM_SUM, nullptr, &error), REDSUM_PEER_LOST) << error;
    EXPECT_TRUE(has(error, "rank 1")) << error;
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  });
}

TEST(ApiLoss, a_coordinator_that_goes_ends_the_job) {
  Pool pool;
  std::atomic<int> ready{0};
  std::thread killer([&] {
    while (ready < 2) std::this_thread::yield();
    pool.stop_coordinator();
  });
  run_ranks(pool, 2, [&](redsum_comm* comm, int) {
    ++ready;
    float value = 1;
    redsum_status status = REDSUM_OK;
    std::string error;
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (status == REDSUM_OK && std::chrono::steady_clock::now() < until)
      status = allreduce(comm, &value, &value, 1, REDSUM_FP32, REDSUM_MAX, nullptr, &error);
    EXPECT_EQ(status, REDSUM_REDUCER_LOST) << error;
    EXPECT_TRUE(has(error, "coordinator")) << error;
  });
  killer.join();
}

}  // namespace
}  // namespace redsum::test
