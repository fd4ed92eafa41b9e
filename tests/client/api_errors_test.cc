// SPDX-License-Identifier: Apache-2.0
// What a caller can get wrong: each is an error that names the thing, at once where the caller alone can be told, on
// every rank where ranks differ; inputs stay as they are.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

bool has(const std::string& text, const std::string& word) {
  return text.find(word) != std::string::npos;
}

TEST(ApiErrors, arguments_are_refused_at_the_call) {
  const Pool pool;
  run_ranks(pool, 1, [&](redsum_comm* comm, int) {
    float value[8] = {};
    redsum_handle* handle = nullptr;
    redsum_tensor tensor{value, value, 4};
    const auto submit = [&](redsum_dtype dtype, redsum_op op, const redsum_call_options* options = nullptr) {
      return redsum_allreduce(comm, &tensor, 1, dtype, op, options, &handle);
    };
    EXPECT_EQ(submit(static_cast<redsum_dtype>(31), REDSUM_SUM), REDSUM_INVALID_ARGUMENT);
    EXPECT_TRUE(has(redsum_last_error(), "dtype 31"));
    EXPECT_EQ(submit(REDSUM_FP32, static_cast<redsum_op>(7)), REDSUM_INVALID_ARGUMENT);  // NUM-10
    EXPECT_TRUE(has(redsum_last_error(), "op 7"));
    EXPECT_EQ(submit(REDSUM_COMPLEX64, REDSUM_PROD), REDSUM_UNSUPPORTED);  // SHP-10
    tensor.input = nullptr;
    EXPECT_EQ(submit(REDSUM_FP32, REDSUM_SUM), REDSUM_INVALID_ARGUMENT);
    EXPECT_TRUE(has(redsum_last_error(), "tensor 0: input is NULL"));
    tensor = {value, value + 1, 4};
    EXPECT_EQ(submit(REDSUM_FP32, REDSUM_SUM), REDSUM_INVALID_ARGUMENT);
    EXPECT_TRUE(has(redsum_last_error(), "overlaps"));
    tensor = {reinterpret_cast<char*>(value) + 1, reinterpret_cast<char*>(value) + 1, 1};
    EXPECT_EQ(submit(REDSUM_FP32, REDSUM_SUM), REDSUM_INVALID_ARGUMENT);
    tensor = {value, value, ~std::uint64_t{0} / 2};
    EXPECT_EQ(submit(REDSUM_FP32, REDSUM_SUM), REDSUM_INVALID_ARGUMENT);
    tensor = {value, value, 4};
    redsum_call_options options;
    redsum_call_options_init(&options);
    options.wire_dtype = REDSUM_BF16;
    EXPECT_EQ(submit(REDSUM_FP64, REDSUM_SUM, &options), REDSUM_UNSUPPORTED);
    redsum_call_options_init(&options);
    options.prescale = 2;
    EXPECT_EQ(submit(REDSUM_INT32, REDSUM_SUM, &options), REDSUM_UNSUPPORTED);
    redsum_call_options_init(&options);
    const std::string key(256, 'k');
    options.key = key.c_str();
    EXPECT_EQ(submit(REDSUM_FP32, REDSUM_SUM, &options), REDSUM_INVALID_ARGUMENT);
    EXPECT_EQ(redsum_broadcast(comm, &tensor, 1, REDSUM_FP32, 1, nullptr, &handle), REDSUM_INVALID_ARGUMENT);
    EXPECT_EQ(handle, nullptr);
    redsum_op op;
    EXPECT_EQ(redsum_op_from_name("avrage", &op), REDSUM_INVALID_ARGUMENT);
    EXPECT_EQ(redsum_op_from_name("avg", &op), REDSUM_OK);
    // Zero-initialised options are the defaults, and a refused call took no sequence.
    const redsum_call_options zero{};
    ASSERT_EQ(submit(REDSUM_FP32, REDSUM_SUM, &zero), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(redsum_handle_sequence(handle), 0u);
    EXPECT_EQ(redsum_wait(handle, -1), REDSUM_OK);
    redsum_handle_free(handle);
  });
}

// Ranks that ask for different things: mismatch on every rank, naming field, ranks and both values, soon.
void expect_mismatch(const char* field, const std::vector<std::string>& words,
                     const std::function<redsum_status(redsum_comm*, int, std::vector<float>&, std::string*)>& call) {
  const Pool pool({2, 1});
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    std::vector<float> data(600'000, static_cast<float>(rank) + 0.5f);
    const std::vector<float> before = data;
    std::string error;
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(call(comm, rank, data, &error), REDSUM_MISMATCH) << error;
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(3));  // 1 s, and sanitizers
    EXPECT_TRUE(has(error, field)) << error;
    for (const std::string& word : words) EXPECT_TRUE(has(error, word)) << word << " in: " << error;
    EXPECT_EQ(std::memcmp(data.data(), before.data(), data.size() * sizeof(float)), 0) << "the input has changed";
    // The communicator is closed with that error: later calls end at once, nobody waits.
    EXPECT_EQ(allreduce(comm, data.data(), data.data(), 4, REDSUM_FP32, REDSUM_SUM), REDSUM_MISMATCH);
  });
}

TEST(ApiErrors, SHP_01_other_counts) {
  expect_mismatch("count", {"rank 0", "1, 2", "409600", "409598"},
                  [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
                    return allreduce(comm, data.data(), data.data(), rank == 0 ? 409600 : 409598, REDSUM_FP32,
                                     REDSUM_SUM, nullptr, error);
                  });
}

TEST(ApiErrors, SHP_01_counts_one_and_two) {
  expect_mismatch("count", {}, [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
    return allreduce(comm, data.data(), data.data(), rank == 1 ? 1 : 2, REDSUM_FP32, REDSUM_SUM, nullptr, error);
  });
}

// One is twice the other, and both are bulk: every chunk of the shorter call has a partner.
TEST(ApiErrors, SHP_01_half_of_the_count) {
  expect_mismatch("count", {"256000", "512000"},
                  [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
                    return allreduce(comm, data.data(), data.data(), rank == 1 ? 256'000 : 512'000, REDSUM_FP32,
                                     REDSUM_SUM, nullptr, error);
                  });
}

// One rank's call is small and the others' are bulk: they never meet in a slot, and it is told all the same.
TEST(ApiErrors, SHP_01_small_against_bulk) {
  expect_mismatch("count", {"16", "500000"},
                  [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
                    return allreduce(comm, data.data(), data.data(), rank == 2 ? 16 : 500'000, REDSUM_FP32, REDSUM_SUM,
                                     nullptr, error);
                  });
}

TEST(ApiErrors, SHP_03_other_dtypes) {
  expect_mismatch("dtype", {"fp32", "int32"},
                  [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
                    return allreduce(comm, data.data(), data.data(), 4, rank == 1 ? REDSUM_INT32 : REDSUM_FP32,
                                     REDSUM_SUM, nullptr, error);
                  });
}

TEST(ApiErrors, SHP_03_other_dtypes_of_the_same_bytes) {
  expect_mismatch("dtype", {"fp16", "bf16"},
                  [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
                    return allreduce(comm, data.data(), data.data(), 8, rank == 1 ? REDSUM_BF16 : REDSUM_FP16,
                                     REDSUM_SUM, nullptr, error);
                  });
}

TEST(ApiErrors, SHP_03_other_ops) {
  expect_mismatch("op", {"sum", "max"}, [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
    return allreduce(comm, data.data(), data.data(), 100'000, REDSUM_FP32, rank == 1 ? REDSUM_MAX : REDSUM_SUM, nullptr,
                     error);
  });
}

TEST(ApiErrors, SHP_03_other_roots) {
  expect_mismatch("root", {"0", "1"}, [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
    const redsum_tensor tensor{data.data(), data.data(), 64};
    redsum_handle* handle = nullptr;
    if (redsum_broadcast(comm, &tensor, 1, REDSUM_FP32, rank == 0 ? 1 : 0, nullptr, &handle) != REDSUM_OK)
      return REDSUM_INTERNAL;
    const redsum_status status = redsum_wait(handle, -1);
    *error = redsum_handle_error(handle);
    redsum_handle_free(handle);
    return status;
  });
}

TEST(ApiErrors, SHP_04_nothing_on_one_rank) {
  expect_mismatch("count", {}, [](redsum_comm* comm, int rank, std::vector<float>& data, std::string* error) {
    return allreduce(comm, data.data(), data.data(), rank == 0 ? 0 : 4, REDSUM_FP32, REDSUM_SUM, nullptr, error);
  });
}

// A communicator that failed leaves the others of the job alone.
TEST(ApiErrors, a_mismatch_closes_its_communicator_only) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* world, int rank) {
    const std::int32_t both[] = {0, 1};
    redsum_comm* other = nullptr;
    ASSERT_EQ(redsum_comm_create(world, both, 2, &other), REDSUM_OK) << redsum_last_error();
    float value = 1;
    EXPECT_EQ(allreduce(other, &value, &value, 1, REDSUM_FP32, rank == 0 ? REDSUM_SUM : REDSUM_MIN), REDSUM_MISMATCH);
    EXPECT_EQ(allreduce(world, &value, &value, 1, REDSUM_FP32, REDSUM_SUM), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(value, 2.0f);
    EXPECT_EQ(redsum_comm_close(other), REDSUM_OK);
  });
}

// FLT-09: the limit counts from submission, its name and value are in the text, and so is who is missing.
TEST(ApiErrors, FLT_09_a_timeout_names_its_limit_and_who_is_missing) {
  const Pool pool;
  std::atomic<int> ended{0};
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    if (rank == 2) {
      while (ended < 2) std::this_thread::yield();  // it must not leave before the others have given up
      return;
    }
    redsum_call_options options;
    redsum_call_options_init(&options);
    options.timeout_ns = 1'500'000'000;
    float value = 1;
    std::string error;
    EXPECT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP32, REDSUM_SUM, &options, &error), REDSUM_TIMEOUT);
    EXPECT_TRUE(has(error, "operation_timeout is 1.5 s")) << error;
    EXPECT_TRUE(has(error, "not submitted it: 2")) << error;
    EXPECT_EQ(value, 1.0f);
    ++ended;
  });
}

TEST(ApiErrors, a_budget_that_is_too_small_is_told_with_need_and_budget) {
  const Pool pool({1, 1, 1 << 20});
  const std::string job = next_job();
  redsum_comm* comm = nullptr;
  EXPECT_EQ(join(
                pool, job, 0, 1, [](redsum_options& o) { o.chunk_bytes = 1 << 20; }, &comm),
            REDSUM_RESOURCE_EXHAUSTED);
  EXPECT_TRUE(has(redsum_last_error(), "reducer.memory_budget")) << redsum_last_error();
  EXPECT_EQ(comm, nullptr);
}

TEST(ApiErrors, LIF_04_ranks_that_do_not_come_are_named) {
  const Pool pool;
  redsum_comm* comm = nullptr;
  EXPECT_EQ(join(
                pool, next_job(), 0, 4, [](redsum_options& o) { o.connect_timeout_ns = 1'500'000'000; }, &comm),
            REDSUM_TIMEOUT);
  EXPECT_TRUE(has(redsum_last_error(), "1, 2, 3")) << redsum_last_error();
}

TEST(ApiErrors, LIF_04_the_same_rank_twice_names_both) {
  const Pool pool;
  const std::string job = next_job();
  std::atomic<int> refused{0}, missed{0};
  std::vector<std::thread> threads;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      redsum_comm* comm = nullptr;
      const redsum_status status = join(
          pool, job, 0, 4, [](redsum_options& o) { o.connect_timeout_ns = 2'500'000'000; }, &comm);
      const std::string error = redsum_last_error();
      if (status == REDSUM_INVALID_ARGUMENT) {  // at once, with host, process and address of both
        ++refused;
        EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
        const std::string process = ":" + std::to_string(::getpid());
        EXPECT_NE(error.find(process), error.rfind(process)) << error;
        EXPECT_NE(error.find("127.0.0.1:"), error.rfind("127.0.0.1:")) << error;
      } else {
        ++missed;
        EXPECT_EQ(status, REDSUM_TIMEOUT) << error;
        EXPECT_TRUE(has(error, "1, 2, 3")) << error;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(missed, 1);
}

// Ranks must be set up alike. Who comes second is told at once, with the setting and both values; who was first keeps
// its place for a rank that is set up rightly, and reads the same at its limit.
TEST(ApiErrors, OPS_03_a_setting_that_differs_is_named) {
  const Pool pool;
  const std::string job = next_job();
  std::atomic<int> refused{0}, missed{0};
  std::vector<std::thread> threads;
  const auto begun = std::chrono::steady_clock::now();
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      redsum_comm* comm = nullptr;
      const redsum_status status = join(
          pool, job, rank, 2,
          [&](redsum_options& o) {
            o.chunk_bytes = rank == 0 ? 65536 : 131072;
            o.connect_timeout_ns = 1'500'000'000;
          },
          &comm);
      for (const char* word : {"chunk_bytes", "65536", "131072"})
        EXPECT_TRUE(has(redsum_last_error(), word)) << redsum_last_error();
      if (status == REDSUM_MISMATCH) {
        ++refused;
        EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
      } else {
        ++missed;
        EXPECT_EQ(status, REDSUM_TIMEOUT) << redsum_last_error();
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(missed, 1);
}

TEST(ApiErrors, NET_07_nobody_listens) {
  Pool pool;
  pool.stop_coordinator();
  redsum_comm* comm = nullptr;
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_EQ(join(
                pool, next_job(), 0, 1, [](redsum_options& o) { o.connect_timeout_ns = 1'000'000'000; }, &comm),
            REDSUM_TIMEOUT);
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_GE(took, std::chrono::milliseconds(990));
  EXPECT_LT(took, std::chrono::milliseconds(1500));
  for (const char* word : {"127.0.0.1", "attempts", "Connection refused"})
    EXPECT_TRUE(has(redsum_last_error(), word)) << redsum_last_error();
}

}  // namespace
}  // namespace redsum::test
