// SPDX-License-Identifier: Apache-2.0
// Sizes, pointers, keys and numbers at their edges (SHP-xx), through the C interface and a real pool. Counts that
// differ between ranks are in api_errors_test.cc, world sizes and alignment in api_test.cc.
#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdio>
#include <cstring>
#include <map>

#include "client/job.h"
#include "tests/client/pool.h"

namespace redsum::test {
namespace {

redsum_status submit(redsum_comm* comm, std::vector<redsum_tensor> tensors, const char* key, redsum_handle** handle) {
  redsum_call_options options;
  redsum_call_options_init(&options);
  options.key = key;
  return redsum_allreduce(comm, tensors.data(), tensors.size(), REDSUM_FP32, REDSUM_SUM, &options, handle);
}

redsum_status finish(redsum_handle* handle, std::string* error = nullptr) {
  const redsum_status status = redsum_wait(handle, -1);
  if (error) *error = redsum_handle_error(handle);
  redsum_handle_free(handle);
  return status;
}

TEST(Shapes, SHP_04_nothing_is_a_call_as_any_other_whatever_the_pointers) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    float value = rank == 0 ? 3.5f : 1.5f, out = -1;
    redsum_handle* handle = nullptr;
    ASSERT_EQ(submit(comm, {{nullptr, nullptr, 0}}, nullptr, &handle), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(redsum_handle_sequence(handle), 0u);
    EXPECT_EQ(finish(handle), REDSUM_OK);
    ASSERT_EQ(submit(comm, {}, nullptr, &handle), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(finish(handle), REDSUM_OK);
    // Empty pieces between others, with pointers that nobody may follow.
    auto* const nowhere = reinterpret_cast<float*>(std::uintptr_t{3});
    ASSERT_EQ(submit(comm, {{nowhere, nowhere, 0}, {&value, &out, 1}, {nullptr, nowhere, 0}}, nullptr, &handle),
              REDSUM_OK)
        << redsum_last_error();
    EXPECT_EQ(redsum_handle_sequence(handle), 2u);
    EXPECT_EQ(finish(handle), REDSUM_OK);
    EXPECT_EQ(out, 5.0f);
    EXPECT_EQ(value, rank == 0 ? 3.5f : 1.5f);
    for (const auto dtype : {REDSUM_COMPLEX128, REDSUM_BOOL, REDSUM_FP8_E4M3})
      EXPECT_EQ(allreduce(comm, nullptr, nullptr, 0, dtype, REDSUM_SUM), REDSUM_OK);
    const redsum_tensor none{nullptr, nullptr, 0};
    ASSERT_EQ(redsum_broadcast(comm, &none, 1, REDSUM_FP32, 1, nullptr, &handle), REDSUM_OK);
    EXPECT_EQ(finish(handle), REDSUM_OK);
    ASSERT_EQ(redsum_reduce(comm, &none, 1, REDSUM_FP32, REDSUM_SUM, 1, nullptr, &handle), REDSUM_OK);
    EXPECT_EQ(finish(handle), REDSUM_OK);
  });
}

// A strided view is a list of pieces: the elements between them are neither read into the sum nor written.
TEST(Shapes, SHP_06_pieces_with_gaps_are_reduced_where_they_lie) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    std::vector<float> column(8), expected(8);
    for (std::size_t i = 0; i < 8; ++i) {
      column[i] = static_cast<float>(i) + static_cast<float>(rank);
      expected[i] = i % 2 == 0 ? static_cast<float>(2 * i + 1) : column[i];
    }
    std::vector<redsum_tensor> pieces;
    for (std::size_t i = 0; i < 8; i += 2) pieces.push_back({&column[i], &column[i], 1});
    redsum_handle* handle = nullptr;
    ASSERT_EQ(submit(comm, pieces, nullptr, &handle), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(finish(handle), REDSUM_OK);
    EXPECT_EQ(column, expected);

    // 3 x 5 against its transpose: rank 1 keeps column by column what rank 0 keeps row by row.
    std::vector<float> matrix(15);
    pieces.clear();
    for (std::size_t row = 0; row < 3; ++row)
      for (std::size_t at = 0; at < 5; ++at) {
        const std::size_t i = rank == 0 ? row * 5 + at : at * 3 + row;
        matrix[i] = static_cast<float>(10 * row + at);
        pieces.push_back({&matrix[i], &matrix[i], 1});
      }
    std::vector<float> doubled = matrix;
    for (float& value : doubled) value *= 2;
    ASSERT_EQ(submit(comm, pieces, nullptr, &handle), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(finish(handle), REDSUM_OK);
    EXPECT_EQ(matrix, doubled);
  });
}

// Stride 0: one element that stands for several cannot take several results.
TEST(Shapes, SHP_06_memory_that_stands_for_several_elements_is_refused) {
  const Pool pool;
  run_ranks(pool, 1, [&](redsum_comm* comm, int) {
    float data[8] = {};
    redsum_handle* handle = nullptr;
    EXPECT_EQ(submit(comm, {{data, data, 1}, {data, data, 1}}, nullptr, &handle), REDSUM_INVALID_ARGUMENT);
    EXPECT_NE(std::string(redsum_last_error()).find("tensor 1"), std::string::npos) << redsum_last_error();
    // The output of one piece over the input or the output of another, wherever they stand in the list.
    EXPECT_EQ(submit(comm, {{data, data, 4}, {data + 6, data + 6, 2}, {data + 3, data + 3, 2}}, nullptr, &handle),
              REDSUM_INVALID_ARGUMENT);
    EXPECT_EQ(submit(comm, {{data, data + 4, 2}, {data + 5, data + 2, 1}}, nullptr, &handle), REDSUM_INVALID_ARGUMENT);
    // Several contributions from the same memory are fine: it is only read.
    ASSERT_EQ(submit(comm, {{data, data + 4, 2}, {data, data + 6, 2}}, nullptr, &handle), REDSUM_OK)
        << redsum_last_error();
    EXPECT_EQ(finish(handle), REDSUM_OK);
  });
}

TEST(Shapes, SHP_07_a_key_is_no_memory_of_a_buffer) {
  const Pool pool;
  run_ranks(pool, 3, [&](redsum_comm* comm, int) {
    std::vector<std::vector<float>> kept;
    redsum_handle* handle = nullptr;
    for (int i = 0; i < 2; ++i) {
      kept.push_back({3.14159274f, 2.71828175f});
      std::vector<float>& data = kept.back();
      ASSERT_EQ(submit(comm, {{data.data(), data.data(), 2}}, "tmp", &handle), REDSUM_OK) << redsum_last_error();
      EXPECT_EQ(finish(handle), REDSUM_OK);
      EXPECT_EQ(data, (std::vector<float>{3 * 3.14159274f, 3 * 2.71828175f}));
    }
    EXPECT_EQ(kept[0], kept[1]) << "a later call has touched an earlier one's memory";
    std::vector<float> seven(7, 1);
    ASSERT_EQ(submit(comm, {{seven.data(), seven.data(), 7}}, "tmp", &handle), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(finish(handle), REDSUM_OK);
    EXPECT_EQ(seven, std::vector<float>(7, 3));
  });
}

// The second call alone is refused, on every rank alike however far the first one is; it took no sequence.
TEST(Shapes, SHP_07_a_key_names_one_call_at_a_time) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100 * rank));  // the first call is complete on one rank only
    float first = 1, second = 10;
    redsum_handle *handle = nullptr, *refused = nullptr;
    ASSERT_EQ(submit(comm, {{&first, &first, 1}}, "tmp", &handle), REDSUM_OK) << redsum_last_error();
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(submit(comm, {{&second, &second, 1}}, "tmp", &refused), REDSUM_INVALID_ARGUMENT);
    EXPECT_NE(std::string(redsum_last_error()).find("'tmp'"), std::string::npos) << redsum_last_error();
    EXPECT_EQ(finish(handle), REDSUM_OK);
    EXPECT_EQ(first, 2.0f);
    EXPECT_EQ(second, 10.0f);
    ASSERT_EQ(submit(comm, {{&second, &second, 1}}, "tmp", &handle), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(redsum_handle_sequence(handle), 1u);
    while (redsum_test(handle) == 0) std::this_thread::yield();
    redsum_handle* third = nullptr;  // the second was seen complete; its handle still stands
    ASSERT_EQ(submit(comm, {{&first, &first, 1}}, "tmp", &third), REDSUM_OK) << redsum_last_error();
    EXPECT_EQ(finish(handle), REDSUM_OK);
    EXPECT_EQ(submit(comm, {{&second, &second, 1}}, "tmp", &refused), REDSUM_INVALID_ARGUMENT)
        << "a handle gives back its own key only, once";
    EXPECT_EQ(finish(third), REDSUM_OK);
    EXPECT_EQ(second, 20.0f);
  });
}

// The calls of a communicator have an order; another order on another rank is told with the keys that met.
TEST(Shapes, SHP_08_keys_in_another_order_are_a_mismatch_that_names_both) {
  const Pool pool({2, 1});
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    std::vector<float> data(200, 1);
    std::vector<redsum_handle*> handles;
    for (int i = 0; i < 200; ++i) {
      const std::string key = "key_" + std::to_string(rank == 0 ? i : 199 - i);
      redsum_handle* handle = nullptr;
      float* const at = &data[static_cast<std::size_t>(i)];
      if (submit(comm, {{at, at, 1}}, key.c_str(), &handle) == REDSUM_OK) handles.push_back(handle);
    }
    ASSERT_FALSE(handles.empty());
    for (redsum_handle* handle : handles) {
      std::string error;
      EXPECT_EQ(finish(handle, &error), REDSUM_MISMATCH) << error;
      int call = -1, mine = -1, theirs = -1;
      const char* const at = std::strstr(error.c_str(), "call ");
      ASSERT_TRUE(at != nullptr) << error;
      ASSERT_EQ(
          std::sscanf(at, "call %d differs in key: rank 0 has 'key_%d', rank 1 has 'key_%d'", &call, &mine, &theirs), 3)
          << error;
      EXPECT_EQ(mine, call) << error;
      EXPECT_EQ(theirs, 199 - call) << error;
    }
    EXPECT_EQ(data, std::vector<float>(200, 1)) << "an input has changed";
  });
}

// A rank that leaves out one call and stops: who waits learns which call and which rank, within its limit.
TEST(Shapes, SHP_08_a_call_that_one_rank_leaves_out_is_named) {
  const Pool pool;
  std::atomic<bool> told{false};
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    float value = 1;
    redsum_handle* handle = nullptr;
    for (int i = 0; i < 57; ++i) {
      ASSERT_EQ(submit(comm, {{&value, &value, 1}}, ("key_" + std::to_string(i)).c_str(), &handle), REDSUM_OK);
      EXPECT_EQ(finish(handle), REDSUM_OK);
    }
    if (rank == 1) {
      while (!told) std::this_thread::yield();
      return;
    }
    redsum_call_options options;
    redsum_call_options_init(&options);
    options.key = "key_57";
    options.timeout_ns = 2 * kSecond;
    std::string error;
    EXPECT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP32, REDSUM_SUM, &options, &error), REDSUM_TIMEOUT);
    EXPECT_NE(error.find("key_57"), std::string::npos) << error;
    EXPECT_NE(error.find("not submitted it: 1"), std::string::npos) << error;
    told = true;
  });
}

TEST(Shapes, SHP_10_complex_numbers_are_summed_as_such_and_have_no_order) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    const std::complex<float> mine = rank == 0 ? std::complex<float>{1, 2} : std::complex<float>{3, -1};
    std::complex<float> value = mine;
    for (const redsum_op op : {REDSUM_PROD, REDSUM_MIN, REDSUM_MAX}) {
      EXPECT_EQ(allreduce(comm, &value, &value, 1, REDSUM_COMPLEX64, op), REDSUM_UNSUPPORTED);
      EXPECT_EQ(value, mine);
    }
    ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_COMPLEX64, REDSUM_SUM), REDSUM_OK);
    EXPECT_EQ(value, (std::complex<float>{4, 1}));
    value = mine;
    ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_COMPLEX64, REDSUM_AVG), REDSUM_OK);
    EXPECT_EQ(value, (std::complex<float>{2, 0.5f}));
  });
}

// The C interface takes dense memory only; a rank whose batch touched no row contributes zeros and is a contributor.
TEST(Shapes, SHP_11_a_rank_without_entries_takes_part_and_counts) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    const std::multimap<std::size_t, float> entries =
        rank == 0 ? std::multimap<std::size_t, float>{} : std::multimap<std::size_t, float>{{1, 5}, {1, 2}, {3, 1}};
    for (const redsum_op op : {REDSUM_SUM, REDSUM_AVG}) {
      std::vector<float> dense(4);
      for (const auto& [row, value] : entries) dense[row] += value;
      ASSERT_EQ(allreduce(comm, dense.data(), dense.data(), 4, REDSUM_FP32, op), REDSUM_OK);
      EXPECT_EQ(dense, op == REDSUM_SUM ? (std::vector<float>{0, 7, 0, 1}) : (std::vector<float>{0, 3.5f, 0, 0.5f}));
    }
  });
}

// Also where the other ranks name their own memory as the output.
TEST(Shapes, SHP_13_reduce_in_place_leaves_the_other_ranks_alone) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    std::vector<std::int64_t> data =
        rank == 0 ? std::vector<std::int64_t>{1, 2, 3, 4} : std::vector<std::int64_t>{4, 5, 6, 7};
    const std::vector<std::int64_t> expected = rank == 0 ? std::vector<std::int64_t>{5, 7, 9, 11} : data;
    const redsum_tensor tensor{data.data(), data.data(), data.size()};
    redsum_handle* handle = nullptr;
    ASSERT_EQ(redsum_reduce(comm, &tensor, 1, REDSUM_INT64, REDSUM_SUM, 0, nullptr, &handle), REDSUM_OK);
    EXPECT_EQ(finish(handle), REDSUM_OK);
    EXPECT_EQ(data, expected);
  });
}

// One rank whose calls begin with the sequence that the test asks for: what redsum_allreduce does with a fresh job.
void calls_from(const Pool& pool, const std::string& job_id, std::uint32_t rank, Sequence first) {
  client::Options options;
  options.coordinators = {pool.address()};
  options.job_id = job_id;
  options.pool_key = wire::key_from_secret("");
  options.rank = rank;
  options.world_size = 2;
  const auto job = client::Job::join(options);
  ASSERT_TRUE(job.has_value()) << job.error().to_string();
  for (Sequence i = 0; i < 6; ++i) {
    std::vector<float> data(i % 2 == 0 ? 10 : 100'000, static_cast<float>(rank + 1));  // small and bulk
    auto call = std::make_shared<client::Call>();
    call->description.dtype = call->description.wire_dtype = DType::fp32;
    call->description.count = data.size();
    auto* const bytes = reinterpret_cast<std::byte*>(data.data());
    call->tensors.push_back({bytes, bytes, data.size(), 0});
    call->in_place = true;
    call->sequence = first + i;
    call->submitted = monotonic_now();
    call->deadline = call->submitted + 20 * kSecond;
    (*job)->submit(CommunicatorId(0), call);
    ASSERT_TRUE(call->wait_until(call->deadline + kSecond));
    ASSERT_TRUE(call->status().ok()) << call->status().to_string();
    EXPECT_EQ(std::count(data.begin(), data.end(), 3.0f), static_cast<std::ptrdiff_t>(data.size())) << first + i;
  }
  (*job)->leave(first + 6);
}

TEST(Shapes, SHP_15_sequences_pass_31_and_32_bits) {
  const Pool pool({2, 1});
  for (const Sequence first : {(Sequence{1} << 31) - 2, (Sequence{1} << 32) - 2, (Sequence{1} << 53) - 2}) {
    const std::string job = next_job();
    std::thread other([&] { calls_from(pool, job, 1, first); });
    calls_from(pool, job, 0, first);
    other.join();
  }
}

}  // namespace
}  // namespace redsum::test
