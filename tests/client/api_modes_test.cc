// SPDX-License-Identifier: Apache-2.0
// What holds in every mode in which the workers sum for each other, with a coordinator and no reducer.
#include <algorithm>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

class ApiWithoutReducers : public testing::TestWithParam<redsum_mode> {
 protected:
  Adjust adjust() const {
    return [](redsum_options& options) { options.mode = GetParam(); };
  }
};
INSTANTIATE_TEST_SUITE_P(In, ApiWithoutReducers, testing::Values(REDSUM_MODE_DIRECT, REDSUM_MODE_RING),
                         [](const auto& each) { return each.param == REDSUM_MODE_RING ? "ring" : "direct"; });

TEST_P(ApiWithoutReducers, ranks_leave_when_they_like_and_the_others_get_their_results) {
  const Pool pool(no_reducers());
  for (int round = 0; round < 10; ++round)
    run_ranks(
        pool, 3,
        [&](redsum_comm* comm, int rank) {
          std::vector<std::int64_t> data(500'000, rank + 1);
          if (rank == round % 3) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_INT64, REDSUM_SUM), REDSUM_OK)
              << redsum_last_error();
          EXPECT_TRUE(std::all_of(data.begin(), data.end(), [](std::int64_t v) { return v == 6; }));
        },
        adjust());
}

TEST_P(ApiWithoutReducers, communicators_of_some_ranks_work_side_by_side) {
  const Pool pool(no_reducers());
  run_ranks(
      pool, 4,
      [&](redsum_comm* world, int rank) {
        const std::int32_t ranks[] = {3, 1, 0};
        float sum = static_cast<float>(rank);
        if (rank != 2) {
          redsum_comm* some = nullptr;
          ASSERT_EQ(redsum_comm_create(world, ranks, 3, &some), REDSUM_OK) << redsum_last_error();
          ASSERT_EQ(allreduce(some, &sum, &sum, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_OK) << redsum_last_error();
          EXPECT_EQ(sum, 4.0f);
          EXPECT_EQ(redsum_comm_close(some), REDSUM_OK);
        }
        float all = 1;
        ASSERT_EQ(allreduce(world, &all, &all, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_OK) << redsum_last_error();
        EXPECT_EQ(all, 4.0f);
      },
      adjust());
}

TEST_P(ApiWithoutReducers, calls_that_differ_are_told_and_inputs_are_put_back) {
  const Pool pool(no_reducers());
  run_ranks(
      pool, 3,
      [&](redsum_comm* comm, int rank) {
        std::vector<float> data(300'000, static_cast<float>(rank));
        const std::vector<float> before = data;
        std::string error;
        EXPECT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32,
                            rank == 1 ? REDSUM_MAX : REDSUM_SUM, nullptr, &error),
                  REDSUM_MISMATCH);
        EXPECT_NE(error.find("rank 1 has max"), std::string::npos) << error;
        EXPECT_EQ(data, before);
      },
      adjust());
}

}  // namespace
}  // namespace redsum::test
