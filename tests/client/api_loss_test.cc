// SPDX-License-Identifier: Apache-2.0
// Loss of a member ends the job's collectives with the right error, and inputs are put back.
#include <algorithm>
#include <chrono>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(ApiLoss, a_reducer_that_goes_is_named_and_inputs_are_put_back) {
  Pool pool({2, 1});
  std::atomic<int> warm{0};
  std::thread killer([&] {
    while (warm < 3) std::this_thread::yield();
    pool.stop_reducer(1);
  });
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    std::vector<float> data(2'000'000, static_cast<float>(rank));
    redsum_status status = REDSUM_OK;
    std::string error;
    for (int i = 0; i < 10'000 && status == REDSUM_OK; ++i) {
      std::fill(data.begin(), data.end(), static_cast<float>(rank));
      status = allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM, nullptr, &error);
      if (i == 0) ++warm;
    }
    EXPECT_EQ(status, REDSUM_REDUCER_LOST) << error;
    EXPECT_TRUE(has(error, "r1")) << error;
    EXPECT_TRUE(std::all_of(data.begin(), data.end(), [&](float v) { return v == static_cast<float>(rank); }));
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
