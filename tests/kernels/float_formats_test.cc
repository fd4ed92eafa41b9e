// SPDX-License-Identifier: Apache-2.0
#include "kernels/float_formats.h"

#include <gtest/gtest.h>

#include "tests/kernels/oracle.h"

namespace redsum::kernels {
namespace {

struct Case {
  DType type;
  const FloatFormat& format;
};
const Case kCases[] = {
    {DType::fp16, kFp16}, {DType::bf16, kBf16}, {DType::fp8_e4m3, kFp8E4m3}, {DType::fp8_e5m2, kFp8E5m2}};

std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

TEST(FloatFormats, EveryPatternWidensToItsValueAndComesBack) {
  for (const Case& c : kCases) {
    const oracle::Format& expected = oracle::format(c.type);
    for (std::uint32_t code = 0; code < 1U << c.format.bits; ++code) {
      const float value = widen(c.format, code);
      const double exact = expected.decode(code);
      if (std::isnan(exact)) {
        ASSERT_EQ(bits_of(value), kFp32QuietNan) << code;
        ASSERT_EQ(narrow(c.format, value), expected.quiet_nan()) << code;
      } else {
        ASSERT_EQ(value, exact) << code;
        ASSERT_EQ(std::signbit(value), std::signbit(exact)) << code;
        ASSERT_EQ(narrow(c.format, value), code);
      }
    }
  }
}

// Between every two neighbours: just below the middle, the middle, just above; and the neighbours' own neighbours.
TEST(FloatFormats, RoundsToNearestEvenAtEveryTie) {
  for (const Case& c : kCases) {
    const oracle::Format& expected = oracle::format(c.type);
    for (std::uint32_t code = 0; code < c.format.max_finite; ++code) {
      const float low = widen(c.format, code);
      const float high = widen(c.format, code + 1);
      const float middle = low + (high - low) / 2;
      for (const float x : {low, std::nextafter(low, INFINITY), std::nextafter(middle, 0.0F), middle,
                            std::nextafter(middle, INFINITY), std::nextafter(high, 0.0F)}) {
        ASSERT_EQ(narrow(c.format, x), expected.encode(x)) << dtype_name(c.type) << " " << bits_of(x);
        ASSERT_EQ(narrow(c.format, -x), expected.encode(-static_cast<double>(x))) << bits_of(x);
      }
    }
  }
}

TEST(FloatFormats, AgreesWithTheNearestValueAllOverTheRangeOfFp32) {
  for (const Case& c : kCases) {
    const oracle::Format& expected = oracle::format(c.type);
    for (std::uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 9973) {
      const float x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
      ASSERT_EQ(narrow(c.format, x), expected.encode(x)) << dtype_name(c.type) << " " << bits;
    }
  }
}

TEST(FloatFormats, KnownBits) {
  static_assert(fp16_from_float(65504.0F) == 0x7BFF && fp16_from_float(65519.99F) == 0x7BFF);
  static_assert(fp16_from_float(65520.0F) == 0x7C00 && fp16_from_float(-65520.0F) == 0xFC00);
  static_assert(fp16_from_float(0x1p-24F) == 0x0001 && fp16_from_float(0x1p-25F) == 0x0000);
  static_assert(fp16_from_float(0x1.8p-25F) == 0x0001 && fp16_from_float(0x1.8p-24F) == 0x0002);
  static_assert(fp16_from_float(2049.0F) == 0x6800 && fp16_from_float(2051.0F) == 0x6802);
  static_assert(bf16_from_float(0x1.01p0F) == 0x3F80 && bf16_from_float(0x1.03p0F) == 0x3F82);
  static_assert(bf16_from_float(0x1.FFp127F) == 0x7F80 && bf16_from_float(0x1.FEp127F) == 0x7F7F);
  static_assert(bf16_from_float(0x1p-134F) == 0x0000 && bf16_from_float(0x1.8p-134F) == 0x0001);
  static_assert(fp8_e4m3_from_float(448.0F) == 0x7E && fp8_e4m3_from_float(1e30F) == 0x7E);
  static_assert(fp8_e4m3_from_float(-INFINITY) == 0xFE && fp8_e4m3_from_float(0x1p-10F) == 0x00);
  static_assert(fp8_e5m2_from_float(1e30F) == 0x7B && fp8_e5m2_from_float(-INFINITY) == 0xFC);
  static_assert(float_from_fp16(0x3C00) == 1.0F && float_from_bf16(0x3F80) == 1.0F);
  static_assert(float_from_fp8_e4m3(0x38) == 1.0F && float_from_fp8_e5m2(0x3C) == 1.0F);
  EXPECT_EQ(fp16_from_float(-NAN), 0x7E00);
  EXPECT_EQ(bf16_from_float(-NAN), 0x7FC0);
  EXPECT_EQ(fp8_e4m3_from_float(-NAN), 0x7F);
  EXPECT_EQ(fp8_e5m2_from_float(-NAN), 0x7E);
}

}  // namespace
}  // namespace redsum::kernels
