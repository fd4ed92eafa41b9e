// SPDX-License-Identifier: Apache-2.0
// The expected values of redsum-perf against values worked out by hand: whoever judges the product must be judged
// first.
#include "bench/perf_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "bench/perf_pattern.h"

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
T fold(redsum_dtype dtype, redsum_op op, const std::vector<T>& contributions, int wire = -1) {
  T result{};
  perf::reference_fold(dtype, wire < 0 ? dtype : static_cast<redsum_dtype>(wire), op,
                       reinterpret_cast<const std::byte*>(contributions.data()), contributions.size(),
                       reinterpret_cast<std::byte*>(&result));
  return result;
}

perf::Format format(redsum_dtype dtype) {
  return *perf::format_of(dtype);
}

TEST(Encode, Fp16ByHand) {
  const perf::Format f = format(REDSUM_FP16);
  EXPECT_EQ(perf::encode(f, 1.0), 0x3C00u);
  EXPECT_EQ(perf::encode(f, -2.0), 0xC000u);
  EXPECT_EQ(perf::encode(f, 65504.0), 0x7BFFu);
  EXPECT_EQ(perf::encode(f, 65519.0), 0x7BFFu);        // below half way to 65536
  EXPECT_EQ(perf::encode(f, 65520.0), 0x7C00u);        // half way: to even, which is infinity
  EXPECT_EQ(perf::encode(f, 0x1p-24), 0x0001u);        // the smallest subnormal
  EXPECT_EQ(perf::encode(f, 0x1p-25), 0x0000u);        // half of it: to even
  EXPECT_EQ(perf::encode(f, 0x1.8p-24), 0x0002u);      // one and a half: to even
  EXPECT_EQ(perf::encode(f, 0x1.FF8p-15), 0x03FFu);    // the largest subnormal, 1023 x 2^-24
  EXPECT_EQ(perf::encode(f, 0x1.FFCp-15), 0x0400u);    // half way to the smallest normal
  EXPECT_EQ(perf::encode(f, 1.0 + 0x1p-11), 0x3C00u);  // half way: to even
  EXPECT_EQ(perf::encode(f, 1.0 + 0x1.8p-10), 0x3C02u);
  EXPECT_EQ(perf::encode(f, 0x1.FFFp0), 0x4000u);  // carries into the exponent
  EXPECT_EQ(perf::encode(f, -0.0), 0x8000u);
  EXPECT_EQ(perf::encode(f, -kInf), 0xFC00u);
  EXPECT_EQ(perf::encode(f, -kNan), 0x7E00u);
}

TEST(Encode, Bf16ByHand) {
  const perf::Format f = format(REDSUM_BF16);
  EXPECT_EQ(perf::encode(f, 1.0), 0x3F80u);
  EXPECT_EQ(perf::encode(f, 3.140625), 0x4049u);
  EXPECT_EQ(perf::encode(f, 1.0 + 0x1p-8), 0x3F80u);
  EXPECT_EQ(perf::encode(f, 1.0 + 0x1.8p-7), 0x3F82u);
  EXPECT_EQ(perf::encode(f, 0x1.FFp127), 0x7F80u);  // rounds up to infinity
  EXPECT_EQ(perf::encode(f, 0x1p-133), 0x0001u);
  EXPECT_EQ(perf::encode(f, kNan), 0x7FC0u);
}

TEST(Encode, Fp8ByHand) {
  const perf::Format e4m3 = format(REDSUM_FP8_E4M3);
  EXPECT_EQ(perf::encode(e4m3, 1.0), 0x38u);
  EXPECT_EQ(perf::encode(e4m3, 448.0), 0x7Eu);
  EXPECT_EQ(perf::encode(e4m3, 1e9), 0x7Eu);  // saturates
  EXPECT_EQ(perf::encode(e4m3, -kInf), 0xFEu);
  EXPECT_EQ(perf::encode(e4m3, kNan), 0x7Fu);
  EXPECT_EQ(perf::encode(e4m3, 0x1p-9), 0x01u);
  EXPECT_EQ(perf::encode(e4m3, 17.0), 0x58u);  // between 16 and 18: to even
  EXPECT_EQ(perf::encode(e4m3, 19.0), 0x5Au);  // between 18 and 20: to even
  const perf::Format e5m2 = format(REDSUM_FP8_E5M2);
  EXPECT_EQ(perf::encode(e5m2, 1.0), 0x3Cu);
  EXPECT_EQ(perf::encode(e5m2, 57344.0), 0x7Bu);
  EXPECT_EQ(perf::encode(e5m2, -1e9), 0xFBu);  // finite overflow saturates
  EXPECT_EQ(perf::encode(e5m2, kInf), 0x7Cu);  // an infinity stays one
  EXPECT_EQ(perf::encode(e5m2, kNan), 0x7Eu);
}

TEST(Encode, InvertsDecodeForEveryValueOfEveryFormat) {
  for (const redsum_dtype dtype : {REDSUM_FP16, REDSUM_BF16, REDSUM_FP8_E4M3, REDSUM_FP8_E5M2}) {
    const perf::Format f = format(dtype);
    const std::uint32_t count = 2u << (f.exponent_bits + f.mantissa_bits);
    for (std::uint32_t bits = 0; bits < count; ++bits) {
      const double value = perf::decode(f, bits);
      if (!std::isnan(value)) {
        ASSERT_EQ(perf::encode(f, value), bits) << dtype;
      }
    }
  }
}

TEST(Fold, AddsInRankOrder) {
  EXPECT_EQ(fold<float>(REDSUM_FP32, REDSUM_SUM, {0x1p24f, 1.0f, 1.0f}), 0x1p24f);      // each 1 is lost
  EXPECT_EQ(fold<float>(REDSUM_FP32, REDSUM_SUM, {1.0f, 1.0f, 0x1p24f}), 0x1p24f + 2);  // here both count
  EXPECT_EQ(fold<float>(REDSUM_FP32, REDSUM_AVG, {1.0f, 2.0f, 2.0f}), 5.0f / 3.0f);
  EXPECT_EQ(fold<double>(REDSUM_FP64, REDSUM_PROD, {3.0, -0.5, 4.0}), -6.0);
  EXPECT_TRUE(std::signbit(fold<float>(REDSUM_FP32, REDSUM_SUM, {-0.0f, -0.0f})));  // copied, not added to zero
}

TEST(Fold, MinAndMaxKnowZerosAndNan) {
  EXPECT_TRUE(std::signbit(fold<float>(REDSUM_FP32, REDSUM_MIN, {0.0f, -0.0f})));
  EXPECT_TRUE(std::signbit(fold<float>(REDSUM_FP32, REDSUM_MIN, {-0.0f, 0.0f})));
  EXPECT_FALSE(std::signbit(fold<double>(REDSUM_FP64, REDSUM_MAX, {-0.0, 0.0})));
  EXPECT_FALSE(std::signbit(fold<double>(REDSUM_FP64, REDSUM_MAX, {0.0, -0.0})));
  for (const redsum_op op : {REDSUM_MIN, REDSUM_MAX}) {
    EXPECT_TRUE(std::isnan(fold<float>(REDSUM_FP32, op, {1.0f, static_cast<float>(kNan), -1.0f})));
  }
  EXPECT_EQ(fold<std::uint64_t>(REDSUM_FP64, REDSUM_MAX, {0x7FF8000000000123u, 0}), 0x7FF8000000000000u);
}

TEST(Fold, SmallFloatsAccumulateInFp32AndRoundOnce) {
  // 1 + 2^-8 + 2^-8 in bf16: rounded after each step it would stay 1; rounded once it is 1 + 2^-7.
  EXPECT_EQ(fold<std::uint16_t>(REDSUM_BF16, REDSUM_SUM, {0x3F80, 0x3B80, 0x3B80}), 0x3F81);
  EXPECT_EQ(fold<std::uint16_t>(REDSUM_FP16, REDSUM_SUM, {0x7BFF, 0x7BFF, 0xFBFF}), 0x7BFF);  // no infinity on the way
  EXPECT_EQ(fold<std::uint8_t>(REDSUM_FP8_E4M3, REDSUM_SUM, {0x7E, 0x7E}), 0x7E);
  EXPECT_EQ(fold<std::uint16_t>(REDSUM_FP16, REDSUM_AVG, {0x3C00, 0x4000}), 0x3E00);  // 1.5
}

TEST(Fold, IntegersWrapAndAverageTowardZero) {
  EXPECT_EQ(fold<std::int8_t>(REDSUM_INT8, REDSUM_SUM, {127, 1}), -128);
  EXPECT_EQ(fold<std::int8_t>(REDSUM_INT8, REDSUM_AVG, {-3, -4}), -3);
  EXPECT_EQ(fold<std::int8_t>(REDSUM_INT8, REDSUM_AVG, {127, 127}), -1);  // the wrapped sum, -2, halved
  EXPECT_EQ(fold<std::int8_t>(REDSUM_INT8, REDSUM_PROD, {-128, -1}), -128);
  EXPECT_EQ(fold<std::uint16_t>(REDSUM_UINT16, REDSUM_PROD, {0xFFFF, 0xFFFF}), 1);
  EXPECT_EQ(fold<std::int64_t>(REDSUM_INT64, REDSUM_SUM, {std::numeric_limits<std::int64_t>::max(), 1}),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(fold<std::uint64_t>(REDSUM_UINT64, REDSUM_MAX, {1, ~std::uint64_t{0}}), ~std::uint64_t{0});
  EXPECT_EQ(fold<std::int32_t>(REDSUM_INT32, REDSUM_MIN, {1, -1}), -1);
}

TEST(Fold, BoolIsOrAndAnd) {
  using Bytes = std::vector<std::uint8_t>;
  for (const redsum_op op : {REDSUM_SUM, REDSUM_MAX}) {
    EXPECT_EQ(fold<std::uint8_t>(REDSUM_BOOL, op, Bytes{0, 4}), 1);
    EXPECT_EQ(fold<std::uint8_t>(REDSUM_BOOL, op, Bytes{0, 0}), 0);
  }
  for (const redsum_op op : {REDSUM_PROD, REDSUM_MIN, REDSUM_AVG}) {
    EXPECT_EQ(fold<std::uint8_t>(REDSUM_BOOL, op, Bytes{2, 4}), 1);
    EXPECT_EQ(fold<std::uint8_t>(REDSUM_BOOL, op, Bytes{2, 0}), 0);
  }
  EXPECT_EQ(fold<std::uint8_t>(REDSUM_BOOL, REDSUM_SUM, Bytes{9}), 1);
}

TEST(Fold, WireTypeRoundsEachContributionAndTheResult) {
  const float third = 1.0f / 3.0f;  // bf16: 0x3EAB = 0.333984375
  EXPECT_EQ(fold<float>(REDSUM_FP32, REDSUM_SUM, {third}, REDSUM_BF16), 0.333984375f);
  EXPECT_EQ(fold<float>(REDSUM_FP32, REDSUM_SUM, {1.0f, 0x1p-9f, 0x1p-9f}, REDSUM_BF16), 1.0f);
  EXPECT_EQ(fold<float>(REDSUM_FP32, REDSUM_SUM, {1.0f, 0x1p-8f, 0x1p-8f}, REDSUM_BF16), 1.0f + 0x1p-7f);
}

TEST(Pattern, NoticesEveryKindOfDamage) {
  const perf::PatternSpec spec{REDSUM_FP32, REDSUM_FP32, REDSUM_SUM, 0, 1};  // alone: the result is the input
  const std::size_t count = perf::kPatternPeriod * 2 + 77;
  perf::Pattern pattern(spec, count);
  std::vector<float> buffer(count);
  pattern.fill_input(buffer.data(), count);
  EXPECT_EQ(pattern.count_wrong(buffer.data(), 0, count), 0u);
  const float kept = buffer[count - 1];
  buffer[count - 1] = std::nextafter(kept, 1e9f);
  EXPECT_EQ(pattern.count_wrong(buffer.data(), 0, count), 1u);
  buffer[count - 1] = kept;
  std::vector<float> shifted = buffer;  // a chunk in another chunk's place
  std::memcpy(shifted.data(), buffer.data() + 16384, 16384 * sizeof(float));
  EXPECT_GT(pattern.count_wrong(shifted.data(), 0, count), 16000u);
}

TEST(Pattern, RanksDifferAndOrderMatters) {
  // Folding the crafted fp32 inputs in reverse must give other bits somewhere, or the check could not see a wrong
  // order.
  std::size_t differing = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    std::vector<float> forward(4);
    for (std::size_t r = 0; r < 4; ++r) {
      perf::make_contribution(REDSUM_FP32, REDSUM_SUM, r, 4, i, reinterpret_cast<std::byte*>(&forward[r]));
    }
    const std::vector<float> backward(forward.rbegin(), forward.rend());
    if (fold<float>(REDSUM_FP32, REDSUM_SUM, forward) != fold<float>(REDSUM_FP32, REDSUM_SUM, backward)) ++differing;
  }
  EXPECT_GT(differing, 100u);
}

}  // namespace
