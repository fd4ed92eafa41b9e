// SPDX-License-Identifier: Apache-2.0
// The workers of a job change: some leave, some come, and the others go on; in every mode.
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

constexpr auto kSoon = std::chrono::milliseconds(2);

redsum_membership membership_of(redsum_comm* world) {
  redsum_membership now{};
  now.struct_bytes = sizeof now;
  EXPECT_EQ(redsum_comm_membership(world, &now), REDSUM_OK) << redsum_last_error();
  return now;
}

redsum_membership resume(redsum_comm* world) {
  redsum_membership next{};
  next.struct_bytes = sizeof next;
  EXPECT_EQ(redsum_resume(world, &next), REDSUM_OK) << redsum_last_error();
  return next;
}

redsum_membership admit(redsum_comm* world) {
  redsum_membership next{};
  next.struct_bytes = sizeof next;
  EXPECT_EQ(redsum_admit(world, &next), REDSUM_OK) << redsum_last_error();
  return next;
}

// What every worker contributes stays with it, whatever its rank is; the average tells who took part.
redsum_status average(redsum_comm* world, float own, float* result, std::uint32_t* contributors = nullptr,
                      std::uint64_t* sequence = nullptr, std::uint64_t* epoch = nullptr) {
  std::vector<float> data(70'000, own);
  const redsum_tensor tensor{data.data(), data.data(), data.size()};
  redsum_handle* handle = nullptr;
  redsum_status status = redsum_allreduce(world, &tensor, 1, REDSUM_FP32, REDSUM_AVG, nullptr, &handle);
  if (status != REDSUM_OK) return status;
  status = redsum_wait(handle, -1);
  *result = data[69'999];
  EXPECT_TRUE(std::all_of(data.begin(), data.end(), [&](float v) { return v == data[0]; }));
  if (contributors) *contributors = redsum_handle_contributors(handle);
  if (sequence) *sequence = redsum_handle_sequence(handle);
  if (epoch) *epoch = redsum_handle_epoch(handle);
  redsum_handle_free(handle);
  return status;
}

class Resume : public testing::TestWithParam<redsum_mode> {
 protected:
  Pool pool{GetParam() == REDSUM_MODE_SERVER ? PoolShape{2, 2} : no_reducers()};
  Adjust adjust = [](redsum_options& options) { options.mode = GetParam(); };
};

// FLT-06 with processes that go by themselves: 1, 2, 4 and again 3.
TEST_P(Resume, FLT_06_averages_divide_by_those_that_take_part) {
  const std::string job = next_job();
  std::atomic<int> in_two{0};
  const auto stays = [&](int rank) {
    redsum_comm* world = nullptr;
    ASSERT_EQ(join(pool, job, rank, 4, adjust, &world), REDSUM_OK) << redsum_last_error();
    const float own = static_cast<float>(rank + 1);
    float result = 0;
    std::uint32_t contributors = 0;
    std::uint64_t sequence = 0, epoch = 0;
    ASSERT_EQ(average(world, own, &result, &contributors, &sequence, &epoch), REDSUM_OK);
    EXPECT_EQ(result, 2.5f);
    EXPECT_EQ(contributors, 4u);
    const std::uint64_t first_epoch = epoch;
    EXPECT_EQ(membership_of(world).stayed, 0);

    EXPECT_EQ(average(world, own, &result), REDSUM_PEER_LOST) << redsum_last_error();
    EXPECT_EQ(result, own) << "the input is put back";
    const redsum_membership three = resume(world);
    EXPECT_EQ(three.world_size, 3);
    EXPECT_EQ(three.stayed, 3);
    EXPECT_EQ(three.sequence, 1u);
    EXPECT_EQ(three.rank, rank < 2 ? rank : rank - 1);
    EXPECT_EQ(redsum_comm_rank(world), three.rank);
    EXPECT_EQ(redsum_comm_size(world), 3);
    ASSERT_EQ(average(world, own, &result, &contributors, &sequence, &epoch), REDSUM_OK) << redsum_last_error();
    std::uint32_t bits;
    std::memcpy(&bits, &result, sizeof bits);
    EXPECT_EQ(bits, 0x40155555u);
    EXPECT_EQ(contributors, 3u);
    EXPECT_EQ(sequence, 1u);
    EXPECT_GT(epoch, first_epoch);

    ++in_two;
    redsum_membership four = three;
    while (four.world_size == 3 && !testing::Test::HasFailure()) {
      four = admit(world);
      std::this_thread::sleep_for(kSoon);
    }
    EXPECT_EQ(four.world_size, 4);
    EXPECT_EQ(four.stayed, 3);
    EXPECT_EQ(four.sequence, 2u);
    EXPECT_GT(four.epoch, three.epoch);
    ASSERT_EQ(average(world, own, &result, &contributors), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(result, 2.5f);
    EXPECT_EQ(contributors, 4u);
    EXPECT_EQ(redsum_comm_close(world), REDSUM_OK);
  };
  const auto comes_and_goes = [&] {
    redsum_comm* world = nullptr;
    float result = 0;
    ASSERT_EQ(join(pool, job, 2, 4, adjust, &world), REDSUM_OK) << redsum_last_error();
    ASSERT_EQ(average(world, 3.0f, &result), REDSUM_OK);
    EXPECT_EQ(redsum_comm_close(world), REDSUM_OK);
    while (in_two < 3 && !testing::Test::HasFailure()) std::this_thread::sleep_for(kSoon);
    ASSERT_EQ(join(pool, job, 2, 4, adjust, &world), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(redsum_comm_rank(world), 3) << "behind those that stayed";
    std::uint64_t sequence = 0;
    ASSERT_EQ(average(world, 3.0f, &result, nullptr, &sequence), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(sequence, 2u);
    EXPECT_EQ(result, 2.5f);
    EXPECT_EQ(redsum_comm_close(world), REDSUM_OK);
  };
  std::vector<std::thread> threads;
  for (const int rank : {0, 1, 3}) threads.emplace_back(stays, rank);
  threads.emplace_back(comes_and_goes);
  for (std::thread& thread : threads) thread.join();
}

// A call that one rank does not make times out on the others; all go on from there with the same workers.
TEST_P(Resume, after_a_timeout_all_go_on_from_the_call_that_failed) {
  run_ranks(
      pool, 3,
      [&](redsum_comm* world, int rank) {
        float result = 0;
        for (int i = 0; i < 3; ++i) ASSERT_EQ(average(world, 1.0f, &result), REDSUM_OK);
        redsum_comm* pair = nullptr;
        const std::int32_t ranks[] = {1, 0};
        if (rank < 2) {
          ASSERT_EQ(redsum_comm_create(world, ranks, 2, &pair), REDSUM_OK) << redsum_last_error();
        }
        if (rank != 1) {
          EXPECT_EQ(average(world, 5.0f, &result), REDSUM_TIMEOUT) << redsum_last_error();
          EXPECT_EQ(result, 5.0f);
        }
        const redsum_membership next = resume(world);
        EXPECT_EQ(next.world_size, 3);
        EXPECT_EQ(next.rank, rank);
        EXPECT_EQ(next.sequence, 3u);
        ASSERT_EQ(average(world, static_cast<float>(rank), &result), REDSUM_OK) << redsum_last_error();
        EXPECT_EQ(result, 1.0f);
        if (!pair) return;
        EXPECT_EQ(average(pair, 1.0f, &result), REDSUM_CLOSED);
        EXPECT_NE(std::string(redsum_last_error()).find("make it again"), std::string::npos) << redsum_last_error();
        EXPECT_EQ(redsum_comm_close(pair), REDSUM_OK);
        ASSERT_EQ(redsum_comm_create(world, ranks, 2, &pair), REDSUM_OK) << redsum_last_error();
        ASSERT_EQ(average(pair, static_cast<float>(rank), &result), REDSUM_OK) << redsum_last_error();
        EXPECT_EQ(result, 0.5f);
        EXPECT_EQ(redsum_comm_close(pair), REDSUM_OK);
      },
      [&](redsum_options& options) {
        adjust(options);
        options.operation_timeout_ns = 700'000'000;
      });
}

TEST_P(Resume, exchanges_go_between_the_new_ranks) {
  const std::string job = next_job();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      redsum_comm* world = nullptr;
      ASSERT_EQ(join(pool, job, rank, 3, adjust, &world), REDSUM_OK) << redsum_last_error();
      for (int round = 0; round < 2; ++round) {
        const int size = redsum_comm_size(world), own = redsum_comm_rank(world);
        std::vector<std::int32_t> out(static_cast<std::size_t>(size)), in(out.size(), -1);
        for (int to = 0; to < size; ++to) out[static_cast<std::size_t>(to)] = 10 * own + to;
        redsum_handle* handle = nullptr;
        ASSERT_EQ(redsum_all_to_all(world, out.data(), in.data(), 1, REDSUM_INT32, nullptr, &handle), REDSUM_OK);
        ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK) << redsum_last_error();
        redsum_handle_free(handle);
        for (int from = 0; from < size; ++from) EXPECT_EQ(in[static_cast<std::size_t>(from)], 10 * from + own);
        if (round == 1) break;
        float result;
        if (rank == 0) break;  // it leaves
        EXPECT_EQ(average(world, 1, &result), REDSUM_PEER_LOST);
        EXPECT_EQ(resume(world).rank, rank - 1);
      }
      EXPECT_EQ(redsum_comm_close(world), REDSUM_OK);
    });
  for (std::thread& thread : threads) thread.join();
}

std::string name_of(const testing::TestParamInfo<redsum_mode>& mode) {
  constexpr const char* kNames[] = {"server", "direct", "ring"};
  return kNames[mode.param];
}
INSTANTIATE_TEST_SUITE_P(Modes, Resume, testing::Values(REDSUM_MODE_SERVER, REDSUM_MODE_DIRECT, REDSUM_MODE_RING),
                         name_of);

TEST(ApiResume, without_anybody_coming_or_going_nothing_changes) {
  Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* world, int) {
    const redsum_membership before = membership_of(world), after = admit(world), same = resume(world);
    EXPECT_EQ(before.epoch, after.epoch);
    EXPECT_EQ(before.epoch, same.epoch);
    float result = 0;
    EXPECT_EQ(average(world, 3.0f, &result), REDSUM_OK);
  });
}

TEST(ApiResume, a_change_is_told_by_the_callback) {
  struct Events {
    std::mutex mutex;
    std::set<int> seen;
    static void take(void* user, redsum_membership_event event, const char* text) {
      auto& events = *static_cast<Events*>(user);
      std::lock_guard lock(events.mutex);
      events.seen.insert(event);
      EXPECT_NE(*text, '\0');
    }
    void await(int event) {
      for (int i = 0; i < 5000; ++i) {
        {
          std::lock_guard lock(mutex);
          if (seen.contains(event)) return;
        }
        std::this_thread::sleep_for(kSoon);
      }
      ADD_FAILURE() << "event " << event << " was not told";
    }
  };
  Pool pool({2, 1});
  const std::string job = next_job();
  Events events;
  std::atomic<bool> gone{false};
  const auto stays = [&] {
    redsum_comm* world = nullptr;
    ASSERT_EQ(join(
                  pool, job, 0, 2, [](redsum_options& o) { o.min_workers = 1; }, &world),
              REDSUM_OK);
    ASSERT_EQ(redsum_on_membership_change(world, &Events::take, &events), REDSUM_OK);
    float result = 0;
    while (average(world, 1, &result) == REDSUM_OK) continue;
    events.await(REDSUM_WORLD_FAILED);
    EXPECT_EQ(resume(world).world_size, 1);
    pool.stop_reducer(1);
    events.await(REDSUM_REDUCERS_CHANGED);
    gone = true;
    events.await(REDSUM_WORKERS_WAIT);
    EXPECT_EQ(admit(world).world_size, 2);
    ASSERT_EQ(average(world, 2, &result), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(result, 3.0f);
    EXPECT_EQ(redsum_comm_close(world), REDSUM_OK);
  };
  std::thread other(stays);
  redsum_comm* world = nullptr;
  ASSERT_EQ(join(
                pool, job, 1, 2, [](redsum_options& o) { o.min_workers = 1; }, &world),
            REDSUM_OK);
  float result = 0;
  for (int i = 0; i < 5; ++i) ASSERT_EQ(average(world, 1, &result), REDSUM_OK);
  EXPECT_EQ(redsum_comm_close(world), REDSUM_OK);
  while (!gone && !testing::Test::HasFailure()) std::this_thread::sleep_for(kSoon);
  ASSERT_EQ(join(
                pool, job, 1, 2, [](redsum_options& o) { o.min_workers = 1; }, &world),
            REDSUM_OK)
      << redsum_last_error();
  ASSERT_EQ(average(world, 4, &result), REDSUM_OK) << redsum_last_error();
  EXPECT_EQ(redsum_comm_close(world), REDSUM_OK);
  other.join();
}

TEST(ApiResume, arguments_are_checked) {
  Pool pool;
  run_ranks(pool, 1, [&](redsum_comm* world, int) {
    redsum_membership membership{};
    EXPECT_EQ(redsum_resume(nullptr, &membership), REDSUM_INVALID_ARGUMENT);
    EXPECT_EQ(redsum_resume(world, &membership), REDSUM_INVALID_ARGUMENT);
    EXPECT_NE(std::string(redsum_last_error()).find("struct_bytes is 0"), std::string::npos);
    EXPECT_EQ(redsum_comm_membership(world, nullptr), REDSUM_INVALID_ARGUMENT);
    const std::int32_t self[] = {0};
    redsum_comm* group = nullptr;
    ASSERT_EQ(redsum_comm_create(world, self, 1, &group), REDSUM_OK);
    EXPECT_EQ(redsum_admit(group, nullptr), REDSUM_INVALID_ARGUMENT);
    EXPECT_EQ(redsum_comm_close(group), REDSUM_OK);
    EXPECT_EQ(redsum_admit(world, nullptr), REDSUM_OK) << redsum_last_error();
  });
}

TEST(ApiResume, without_the_minimum_it_ends_by_the_limit_and_names_it) {
  Pool pool;
  run_ranks(
      pool, 2,
      [&](redsum_comm* world, int rank) {
        float result = 0;
        ASSERT_EQ(average(world, 1, &result), REDSUM_OK);
        if (rank == 1) return;
        EXPECT_EQ(average(world, 1, &result), REDSUM_PEER_LOST);
        EXPECT_EQ(redsum_resume(world, nullptr), REDSUM_TIMEOUT);
        EXPECT_NE(std::string(redsum_last_error()).find("it needs 2 (min_workers"), std::string::npos)
            << redsum_last_error();
        EXPECT_EQ(average(world, 1, &result), REDSUM_PEER_LOST) << "and the failure stays";
      },
      [](redsum_options& options) { options.connect_timeout_ns = 1'500'000'000; });
}

}  // namespace
}  // namespace redsum::test
