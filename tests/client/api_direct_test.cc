// SPDX-License-Identifier: Apache-2.0
// Direct mode through the C interface, with a coordinator and no reducer: the bits of server mode, every collective,
// what is counted. What it shares with ring mode: api_modes_test.cc.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

TEST(ApiDirect, gives_the_bits_of_server_mode_without_any_reducer) {
  const Pool pool({2, 1}), alone(no_reducers());
  for (const int world : {1, 2, 3, 5, 8})
    for (const std::size_t count : {0u, 1u, 1023u, 300'007u}) {
      const auto ranks = static_cast<std::size_t>(world);
      std::vector<std::vector<float>> server(ranks), mine(ranks);
      for (const bool is_direct : {false, true})
        run_ranks(
            is_direct ? alone : pool, world,
            [&](redsum_comm* comm, int rank) {
              std::vector<float> data = touchy(count, rank);
              ASSERT_EQ(allreduce(comm, data.data(), data.data(), count, REDSUM_FP32, REDSUM_AVG), REDSUM_OK)
                  << redsum_last_error();
              (is_direct ? mine : server)[static_cast<std::size_t>(rank)] = std::move(data);
            },
            is_direct ? Adjust(direct) : Adjust());
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(mine[rank].size(), count);
        ASSERT_TRUE(count == 0 || std::memcmp(mine[rank].data(), server[0].data(), count * sizeof(float)) == 0)
            << world << " ranks, " << count;
      }
    }
}

TEST(ApiDirect, statistics_count_what_the_own_reducer_moves) {
  const Pool pool(no_reducers());
  constexpr std::uint64_t kCount = 1'000'000;  // 4 MB
  run_ranks(
      pool, 4,
      [&](redsum_comm* comm, int) {
        std::vector<float> data(kCount, 1.0f);
        ASSERT_EQ(allreduce(comm, data.data(), data.data(), kCount, REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
        // S as a worker and S as a reducer, of which a quarter each stays on this host. This worker's call is complete
        // once it has its own results: its reducer may still be sending the others theirs.
        constexpr std::uint64_t kAtLeast = 2 * kCount * 4 * 95 / 100;
        redsum_statistics statistics{};
        statistics.struct_bytes = sizeof statistics;
        for (const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
             statistics.bytes_sent < kAtLeast && std::chrono::steady_clock::now() < deadline;
             std::this_thread::sleep_for(std::chrono::milliseconds(1)))
          ASSERT_EQ(redsum_stats(comm, &statistics), REDSUM_OK);
        EXPECT_EQ(statistics.reducers, 4u);
        EXPECT_GE(statistics.bytes_sent, kAtLeast);
        EXPECT_LT(statistics.bytes_sent, 2 * kCount * 4 * 105 / 100);
      },
      direct);
}

TEST(ApiDirect, SEC_04_a_port_for_everybody_needs_a_secret) {
  const Pool pool(no_reducers());
  const auto at = [](const char* address) {
    return [address](redsum_options& options) {
      options.mode = REDSUM_MODE_DIRECT;
      options.data_address = address;
    };
  };
  redsum_comm* comm = nullptr;
  for (const char* address : {"0.0.0.0", "0.0.0.0:7499", "[::]:0", "node7.example"}) {
    EXPECT_EQ(join(pool, next_job(), 0, 1, at(address), &comm), REDSUM_AUTH_FAILED) << address;
    for (const char* word : {"REDSUM_SECRET_FILE", "REDSUM_INSECURE=1"})
      EXPECT_NE(std::string(redsum_last_error()).find(word), std::string::npos) << redsum_last_error();
  }
  for (const char* address : {"127.0.0.1", "127.0.0.1:0", "localhost"}) {
    ASSERT_EQ(join(pool, next_job(), 0, 1, at(address), &comm), REDSUM_OK) << address << ": " << redsum_last_error();
    EXPECT_EQ(redsum_comm_close(comm), REDSUM_OK);
  }
}

}  // namespace
}  // namespace redsum::test
