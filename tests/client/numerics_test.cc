// SPDX-License-Identifier: Apache-2.0
// Values with known bits, each from a failure seen in the field (NUM-xx), through the C interface and a real pool. The
// kernels have the same values on every instruction set in tests/kernels/fold_values_test.cc.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "client/redsum.hpp"
#include "tests/client/pool.h"
#include "tests/kernels/oracle.h"

namespace redsum::test {
namespace {

// What each rank contributes and what every rank must get, as bits of the element.
struct Known {
  redsum_dtype dtype;
  redsum_op op;
  std::vector<std::uint64_t> contributions;
  std::uint64_t expected;
};

std::uint64_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

std::vector<std::byte> filled(std::size_t element, std::size_t count, std::uint64_t code) {
  std::vector<std::byte> data(element * count);
  for (std::size_t i = 0; i < count; ++i) std::memcpy(data.data() + i * element, &code, element);
  return data;
}

// Every length around a vector's body and tail must give the expected bits in each element.
void expect(redsum_comm* comm, int rank, const Known& known) {
  const std::size_t element = redsum_dtype_bytes(known.dtype);
  for (const std::size_t count : {1u, 3u, 4u, 7u, 8u, 9u, 16u, 17u, 5000u}) {
    auto data = filled(element, count, known.contributions[static_cast<std::size_t>(rank)]);
    ASSERT_EQ(allreduce(comm, data.data(), data.data(), count, known.dtype, known.op), REDSUM_OK)
        << redsum_last_error();
    EXPECT_EQ(data, filled(element, count, known.expected))
        << "dtype " << known.dtype << ", op " << known.op << ", count " << count;
  }
}

// The cases, all of one world size.
void expect_all(const std::vector<Known>& cases) {
  const Pool pool({2, 1});
  run_ranks(pool, static_cast<int>(cases[0].contributions.size()), [&](redsum_comm* comm, int rank) {
    for (const Known& known : cases) expect(comm, rank, known);
  });
}

TEST(Numerics, NUM_01_NUM_03_the_mean_of_64_halves_neither_overflows_nor_vanishes_on_the_way) {
  const std::vector<std::uint64_t> large(64, 0x6800), tiny(64, 0x0001);  // 2048.0 and 2^-24
  expect_all({{REDSUM_FP16, REDSUM_AVG, large, 0x6800},
              {REDSUM_FP16, REDSUM_SUM, large, 0x7C00},
              {REDSUM_FP16, REDSUM_AVG, tiny, 0x0001}});
}

TEST(Numerics, NUM_03_scale_factors_are_applied_in_fp32) {
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int) {
    redsum_call_options options;
    redsum_call_options_init(&options);
    options.prescale = 0x1p-40;  // below everything that fp16 can hold
    options.postscale = 0x1p40;
    std::uint16_t value = 0x0001;
    ASSERT_EQ(allreduce(comm, &value, &value, 1, REDSUM_FP16, REDSUM_SUM, &options), REDSUM_OK);
    EXPECT_EQ(value, 0x0002);
  });
}

TEST(Numerics, NUM_04_the_mean_is_a_true_division) {
  expect_all({{REDSUM_FP32, REDSUM_AVG, {bits(5), bits(0), bits(0)}, 0x3FD55555},
              {REDSUM_FP32, REDSUM_AVG, {bits(7), bits(0), bits(0)}, 0x40155555},
              {REDSUM_FP32, REDSUM_AVG, {bits(0), bits(3), bits(4)}, 0x40155555}});
  expect_all({{REDSUM_FP32, REDSUM_AVG, {bits(5)}, bits(5)}});  // world size 1
}

TEST(Numerics, NUM_09_the_mean_of_integers_truncates_and_the_divisor_is_the_number_of_contributors) {
  expect_all({{REDSUM_INT32, REDSUM_AVG, {3, 4}, 3},
              {REDSUM_INT32, REDSUM_AVG, {0xFFFFFFFD, 0xFFFFFFFC}, 0xFFFFFFFD}});  // -7 / 2 -> -3
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    std::vector<float> data = rank == 0 ? std::vector<float>{2, 4, 6} : std::vector<float>{4, 8, 12};
    ASSERT_EQ(allreduce(comm, data.data(), data.data(), 3, REDSUM_FP32, REDSUM_AVG), REDSUM_OK);
    EXPECT_EQ(data, (std::vector<float>{3, 6, 9}));
  });
}

// The same average by number, by name and through the C++ wrapper; what is no op is refused at the call.
TEST(Numerics, NUM_10_every_way_to_say_avg_gives_the_average) {
  const Pool pool;
  const std::string job = next_job();
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      Options options;
      options.coordinator = pool.address();
      options.job_id = job;
      options.rank = rank;
      options.world_size = 2;
      Communicator world(options);
      const float mine = rank == 0 ? 1.0f : 3.0f;
      std::vector<float> data{mine};
      world.allreduce(data, REDSUM_AVG).wait();
      EXPECT_EQ(data[0], 2.0f);
      redsum_op op = REDSUM_SUM;
      ASSERT_EQ(redsum_op_from_name("avg", &op), REDSUM_OK);
      data[0] = mine;
      world.allreduce(data, op).wait();
      EXPECT_EQ(data[0], 2.0f);
      op = REDSUM_SUM;
      for (const char* wrong : {"avrage", "", "avg ", "99"})
        EXPECT_EQ(redsum_op_from_name(wrong, &op), REDSUM_INVALID_ARGUMENT) << wrong;
      EXPECT_EQ(op, REDSUM_SUM);
      const int number = 7;
      std::memcpy(&op, &number, sizeof op);  // as a C program may pass it
      try {
        world.allreduce(data, op).wait();
        ADD_FAILURE() << "op 7 was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), REDSUM_INVALID_ARGUMENT) << error.what();
        EXPECT_NE(error.text().find("op 7"), std::string::npos) << error.what();
      }
      world.barrier();
    });
  for (std::thread& thread : ranks) thread.join();
}

TEST(Numerics, NUM_11_integers_wrap) {
  expect_all({{REDSUM_INT8, REDSUM_SUM, {120, 100}, 0xDC},
              {REDSUM_UINT8, REDSUM_SUM, {200, 100}, 44},
              {REDSUM_INT32, REDSUM_SUM, {0x7FFFFFFF, 1}, 0x80000000},
              {REDSUM_INT64, REDSUM_SUM, {0x7FFFFFFFFFFFFFFF, 1}, 0x8000000000000000},
              {REDSUM_INT16, REDSUM_PROD, {0x7FFF, 0x7FFF}, 1}});
}

TEST(Numerics, NUM_12_fp8_is_summed_as_numbers_saturates_and_keeps_NaN) {
  expect_all({{REDSUM_FP8_E4M3, REDSUM_SUM, {0x7E, 0x59}, 0x7E},    // 448 + 18
              {REDSUM_FP8_E5M2, REDSUM_SUM, {0x7B, 0x6C}, 0x7B},    // 57344 + 4096
              {REDSUM_FP8_E4M3, REDSUM_SUM, {0x7F, 0x38}, 0x7F}});  // NaN + 1
  const Pool pool;
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    for (const auto& [dtype, type] :
         {std::pair(REDSUM_FP8_E4M3, DType::fp8_e4m3), {REDSUM_FP8_E5M2, DType::fp8_e5m2}}) {
      const kernels::oracle::Format& format = kernels::oracle::format(type);
      std::vector<std::uint8_t> data, expected;
      for (std::uint32_t pair = 0; pair < 65536; ++pair) {
        const std::uint32_t a = pair >> 8, b = pair & 255;
        data.push_back(static_cast<std::uint8_t>(rank == 0 ? a : b));
        expected.push_back(static_cast<std::uint8_t>(format.encode(format.decode(a) + format.decode(b))));
      }
      ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), dtype, REDSUM_SUM), REDSUM_OK);
      EXPECT_EQ(data, expected) << dtype;
    }
  });
}

TEST(Numerics, NUM_14_zero_keeps_its_sign) {
  expect_all({{REDSUM_FP32, REDSUM_SUM, {0x80000000, 0x80000000}, 0x80000000},
              {REDSUM_FP32, REDSUM_SUM, {0x80000000, 0x00000000}, 0x00000000}});
  expect_all({{REDSUM_FP32, REDSUM_AVG, {0x80000000}, 0x80000000}});
}

}  // namespace
}  // namespace redsum::test
