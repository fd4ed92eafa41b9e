// SPDX-License-Identifier: Apache-2.0
#include "kernels/convert.h"

#include "tests/kernels/fixture.h"

namespace redsum::kernels {
namespace {

constexpr DType kNarrow[] = {DType::fp16, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2};

TEST(Convert, DefinedPairs) {
  EXPECT_TRUE(convert_defined(DType::bf16, DType::fp32));
  EXPECT_TRUE(convert_defined(DType::fp32, DType::fp16));
  EXPECT_TRUE(convert_defined(DType::int64, DType::int64));
  EXPECT_FALSE(convert_defined(DType::bf16, DType::fp16));
  EXPECT_FALSE(convert_defined(DType::fp32, DType::fp64));
  EXPECT_FALSE(convert_defined(DType::fp32, DType::int8));
  EXPECT_FALSE(convert_defined(static_cast<DType>(99), static_cast<DType>(99)));
}

TEST(Convert, EveryPatternWidensAndComesBack) {
  for (const std::string_view isa : available_isas()) {
    const ForcedIsa forced(isa);
    for (const DType type : kNarrow) {
      const std::size_t count = std::size_t{1} << (8 * dtype_bytes(type));
      Buffer source(type, count), wide(DType::fp32, count), back(type, count);
      for (std::size_t i = 0; i < count; ++i) set_code(source, type, i, i);
      convert(DType::fp32, wide.data(), type, source.data(), count);
      convert(type, back.data(), DType::fp32, wide.data(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto code = static_cast<std::uint32_t>(i);
        const double value = oracle::format(type).decode(code);
        const bool nan = std::isnan(value);
        ASSERT_EQ(code_at(wide, DType::fp32, i),
                  nan ? 0x7FC00000U : std::bit_cast<std::uint32_t>(static_cast<float>(value)))
            << isa << " " << dtype_name(type) << " " << i;
        ASSERT_EQ(code_at(back, type, i), nan ? oracle::format(type).quiet_nan() : i) << isa << " " << i;
      }
    }
  }
}

// Every neighbour pair's middle and what is next to it, in vector bodies and rests alike.
TEST(Convert, RoundsAsTheOracleDoes) {
  for (const DType type : kNarrow) {
    std::vector<float> values;
    for (std::uint32_t bits = 0; bits < 0xFFF00000U; bits += 0x00010007U) values.push_back(std::bit_cast<float>(bits));
    const std::uint32_t step = type == DType::bf16 ? 0x8000U : type == DType::fp16 ? 0x1000U : 0x80000U;
    for (std::uint64_t middle = step; middle <= 0xFFFFFFFFU; middle += std::uint64_t{step} * 2) {
      if (type == DType::bf16 && middle % 0x70000 != step) continue;
      for (const std::uint64_t bits : {middle - 1, middle, middle + 1}) {
        values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
      }
    }
    Buffer source(DType::fp32, values.size(), 1);
    std::memcpy(source.data(), values.data(), source.bytes());
    Buffer expected(type, values.size());
    for (std::size_t i = 0; i < values.size(); ++i) set_code(expected, type, i, oracle::format(type).encode(values[i]));
    for (const std::string_view isa : available_isas()) {
      const ForcedIsa forced(isa);
      Buffer out(type, values.size(), 1);
      convert(type, out.data(), DType::fp32, source.data(), values.size());
      ASSERT_TRUE(out.content() == expected.content()) << isa << " " << dtype_name(type);
      ASSERT_TRUE(out.guards_intact());
    }
  }
}

TEST(Convert, EveryLengthOnEveryTarget) {
  for (const std::string_view isa : available_isas()) {
    for (const DType type : kNarrow) {
      for (std::size_t count = 0; count <= 70; ++count) {
        for (const auto& [dst, src] : {std::pair{type, DType::fp32}, std::pair{DType::fp32, type}}) {
          const Buffer source = std::move(sample_inputs(src, 1, count, count, true)[0]);
          Buffer expected(dst, count, 1), actual(dst, count, 1);
          {
            const ForcedIsa forced("scalar");
            convert(dst, expected.data(), src, source.data(), count);
          }
          const ForcedIsa forced(isa);
          convert(dst, actual.data(), src, source.data(), count);
          ASSERT_EQ(actual.content(), expected.content()) << isa << " " << dtype_name(dst) << " " << count;
          ASSERT_TRUE(actual.guards_intact());
        }
      }
    }
  }
}

TEST(Convert, ATypeToItselfCopiesBits) {
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    const Buffer source = std::move(sample_inputs(type, 1, 77, 1)[0]);
    Buffer out(type, 77);
    convert(type, out.data(), type, source.data(), 77);
    EXPECT_EQ(out.content(), source.content()) << dtype_name(type);
  }
}

TEST(ConvertDeathTest, UndefinedPairAborts) {
  float x = 0;
  double y = 0;
  EXPECT_DEATH(convert(DType::fp32, &x, DType::fp64, &y, 1), "convert is not defined");
}

}  // namespace
}  // namespace redsum::kernels
