// SPDX-License-Identifier: Apache-2.0
// Coming, going and staying for long (LIF-xx): nothing is left open, nothing grows, and what comes after the end is
// told so. Client, coordinator and reducers are in this process, so its numbers are those of both sides.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "client/redsum.hpp"
#include "tests/client/pool.h"

namespace redsum::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::size_t entries(const char* folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void barrier(redsum_comm* comm) {
  redsum_handle* handle = nullptr;
  ASSERT_EQ(redsum_barrier(comm, nullptr, &handle), REDSUM_OK) << redsum_last_error();
  ASSERT_EQ(redsum_wait(handle, -1), REDSUM_OK) << redsum_last_error();
  redsum_handle_free(handle);
}

TEST(Lifecycle, LIF_01_five_hundred_communicators_leave_nothing_open) {
  const Pool pool;
  std::size_t files = 0, threads = 0;
  run_ranks(pool, 2, [&](redsum_comm* world, int rank) {
    const std::int32_t both[] = {0, 1};
    for (int i = 0; i < 500; ++i) {
      redsum_comm* comm = nullptr;
      ASSERT_EQ(redsum_comm_create(world, both, 2, &comm), REDSUM_OK) << redsum_last_error();
      float value = 1;
      ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_OK) << redsum_last_error();
      ASSERT_EQ(value, 2.0f);
      ASSERT_EQ(redsum_comm_close(comm), REDSUM_OK);
      if (i == 2 && rank == 0) {
        files = entries("/proc/self/fd");
        threads = entries("/proc/self/task");
      }
    }
    barrier(world);
    if (rank == 0) {
      EXPECT_EQ(entries("/proc/self/fd"), files);
      EXPECT_EQ(entries("/proc/self/task"), threads);
    }
    barrier(world);
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (!pool.snapshot().jobs.empty() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_TRUE(pool.snapshot().jobs.empty());
}

TEST(Lifecycle, LIF_02_ever_new_sizes_and_names_cost_no_memory) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps memory of its own";
  const Pool pool;
  std::size_t before = 0;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    std::vector<float> data(30'000);
    for (std::size_t i = 0; i < 1000; ++i) {
      data.assign(30'000 - i, 1.0f);
      ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
      ASSERT_EQ(data.back(), 2.0f);
      if (i == 200 && rank == 0) before = resident_bytes();
    }
    redsum_call_options options;
    redsum_call_options_init(&options);
    for (int i = 0; i < 20'000; ++i) {
      const std::string key = "a.name.that.is.used.once." + std::to_string(i);
      options.key = key.c_str();
      ASSERT_EQ(allreduce(comm, data.data(), data.data(), 1, REDSUM_FP32, REDSUM_MAX, &options), REDSUM_OK);
    }
    barrier(comm);
    if (rank == 0) {
      EXPECT_LT(resident_bytes(), before + (8u << 20));
    }
    barrier(comm);
  });
}

TEST(Lifecycle, LIF_03_init_and_leave_fifty_times) {
  const Pool pool;
  for (int i = 0; i < 50; ++i)
    run_ranks(pool, 2, [&](redsum_comm* comm, int) {
      float value = 1;
      ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_OK);
      EXPECT_EQ(value, 2.0f);
    });
  EXPECT_EQ(redsum_comm_close(nullptr), REDSUM_OK);
}

// The world is closed while another communicator is open: its waiting call and every later one end with closed, soon.
TEST(Lifecycle, LIF_03_calls_after_the_end_are_closed_and_nobody_waits) {
  const Pool pool;
  std::atomic<int> left{0};
  const std::string job = next_job();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      redsum_comm *world = nullptr, *other = nullptr;
      ASSERT_EQ(join(pool, job, rank, 2, {}, &world), REDSUM_OK) << redsum_last_error();
      const std::int32_t both[] = {0, 1};
      ASSERT_EQ(redsum_comm_create(world, both, 2, &other), REDSUM_OK) << redsum_last_error();
      float value = 1;
      const redsum_tensor tensor{&value, &value, 1};
      redsum_handle* waiting = nullptr;
      if (rank == 0) {
        ASSERT_EQ(redsum_allreduce(other, &tensor, 1, REDSUM_FP32, REDSUM_SUM, nullptr, &waiting), REDSUM_OK);
      }
      ASSERT_EQ(redsum_comm_close(world), REDSUM_OK);
      ++left;
      const auto begun = std::chrono::steady_clock::now();
      if (rank == 0) {
        EXPECT_EQ(redsum_wait(waiting, -1), REDSUM_CLOSED) << redsum_last_error();
        redsum_handle_free(waiting);
      }
      while (left < 2) std::this_thread::yield();
      EXPECT_EQ(allreduce(other, &value, &value, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_CLOSED) << redsum_last_error();
      redsum_comm* more = nullptr;
      EXPECT_EQ(redsum_comm_create(other, both, 2, &more), REDSUM_CLOSED) << redsum_last_error();
      EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(kSanitized ? 600 : 200));
      EXPECT_EQ(value, 1.0f);
      EXPECT_EQ(redsum_comm_close(other), REDSUM_OK);
    });
  for (std::thread& thread : ranks) thread.join();
}

// The wrapper knows that it was closed: calls say so, a second close is nothing.
TEST(Lifecycle, LIF_03_a_closed_communicator_of_the_wrapper_says_closed) {
  const Pool pool;
  Options options;
  options.coordinator = pool.address();
  options.job_id = next_job();
  options.rank = 0;
  options.world_size = 1;
  Communicator world(options);
  std::vector<float> data{1};
  world.allreduce(data).wait();
  world.close();
  const auto status_of = [](const auto& body) {
    try {
      body();
      return REDSUM_OK;
    } catch (const Error& error) {
      return error.status();
    }
  };
  EXPECT_EQ(status_of([&] { world.allreduce(data).wait(); }), REDSUM_CLOSED);
  EXPECT_EQ(status_of([&] { world.broadcast(data).wait(); }), REDSUM_CLOSED);
  EXPECT_EQ(status_of([&] { world.reduce(data).wait(); }), REDSUM_CLOSED);
  EXPECT_EQ(status_of([&] { world.barrier(); }), REDSUM_CLOSED);
  EXPECT_EQ(status_of([&] { (void)world.create({0}); }), REDSUM_CLOSED);
  EXPECT_EQ(status_of([&] { world.close(); }), REDSUM_OK);
}

TEST(Lifecycle, LIF_04_numbers_that_cannot_be_are_refused_at_once) {
  const Pool pool;
  for (const auto& [rank, size] : {std::pair(0, 0), {4, 4}, {-1, 4}, {0, -1}}) {
    redsum_comm* comm = nullptr;
    EXPECT_EQ(join(pool, next_job(), rank, size, {}, &comm), REDSUM_INVALID_ARGUMENT);
    const std::string wrong = std::to_string(size < 1 ? size : rank);
    EXPECT_NE(std::string(redsum_last_error()).find("'" + wrong + "'"), std::string::npos) << redsum_last_error();
    EXPECT_EQ(comm, nullptr);
  }
  EXPECT_TRUE(pool.snapshot().jobs.empty()) << "nobody was asked";
}

TEST(Lifecycle, LIF_09_joining_leaves_the_affinity_of_a_thread_alone) {
  const Pool pool;
  run_ranks(pool, 1, [&](redsum_comm*, int) {});  // what a process does once
  cpu_set_t before, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  redsum_comm* comm = nullptr;
  EXPECT_EQ(join(pool, next_job(), 0, 1, {}, &comm), REDSUM_OK) << redsum_last_error();
  EXPECT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&one, &after));
  EXPECT_EQ(redsum_comm_close(comm), REDSUM_OK);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace redsum::test
