// SPDX-License-Identifier: Apache-2.0
// Values with known bits, each from a failure seen in the field (NUM-xx), on every instruction set.
#include "tests/kernels/fixture.h"

namespace redsum::kernels {
namespace {

class FieldValues : public testing::TestWithParam<std::string> {
 protected:
  FieldValues() : forced_(GetParam()) {}

  // Result codes of contributions given as codes, one inner vector per rank.
  static std::vector<std::uint64_t> folded(const FoldSpec& spec, const std::vector<std::vector<std::uint64_t>>& ranks) {
    std::vector<Buffer> inputs;
    for (const auto& codes : ranks) {
      Buffer& input = inputs.emplace_back(spec.dtype, codes.size());
      for (std::size_t i = 0; i < codes.size(); ++i) set_code(input, spec.dtype, i, codes[i]);
    }
    Buffer out(spec.dtype, ranks[0].size());
    fold(spec, out.data(), pointers(inputs), ranks[0].size());
    std::vector<std::uint64_t> result;
    for (std::size_t i = 0; i < ranks[0].size(); ++i) result.push_back(code_at(out, spec.dtype, i));
    return result;
  }

  // One element per rank, repeated to fill registers and rests: every copy must give `expected`.
  static void expect(const FoldSpec& spec, const std::vector<std::uint64_t>& contributions, std::uint64_t expected) {
    for (const std::size_t length : {1U, 3U, 4U, 7U, 8U, 9U, 16U, 17U, 33U, 65U, 300U}) {
      std::vector<std::vector<std::uint64_t>> ranks;
      for (const std::uint64_t code : contributions) ranks.emplace_back(length, code);
      EXPECT_EQ(folded(spec, ranks), std::vector<std::uint64_t>(length, expected))
          << describe(GetParam(), spec, contributions.size(), length);
    }
  }

  static std::uint64_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

 private:
  ForcedIsa forced_;
};

INSTANTIATE_TEST_SUITE_P(Isa, FieldValues, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const std::string_view isa : available_isas()) names.emplace_back(isa);
                           return names;
                         }()),
                         [](const auto& isa) { return isa.param; });

TEST_P(FieldValues, NUM_01_HalfPrecisionMeanDoesNotOverflowOnTheWay) {
  const std::vector<std::uint64_t> contributions(64, 0x6800);  // 2048.0
  expect({DType::fp16, Op::avg}, contributions, 0x6800);
  expect({DType::fp16, Op::sum}, contributions, 0x7C00);
}

TEST_P(FieldValues, NUM_03_TinyGradientsSurviveTheMean) {
  expect({DType::fp16, Op::avg}, std::vector<std::uint64_t>(64, 0x0001), 0x0001);
  // Scaled down before and up after, both in fp32: nothing is lost.
  expect({DType::fp16, Op::sum, 0, 0x1p-40, 0x1p34}, std::vector<std::uint64_t>(64, 0x0001), 0x0001);
}

TEST_P(FieldValues, NUM_04_MeanIsATrueDivision) {
  expect({DType::fp32, Op::avg}, {bits(5), bits(0), bits(0)}, 0x3FD55555);
  expect({DType::fp32, Op::avg}, {bits(7), bits(0), bits(0)}, 0x40155555);
  expect({DType::fp32, Op::avg, 3}, {bits(2), bits(5)}, 0x40155555);
}

TEST_P(FieldValues, NUM_05_FoldsInTheOrderOfTheInputs) {
  expect({DType::fp32, Op::sum}, {bits(1e8F), bits(1), bits(-1e8F), bits(1)}, bits(1));
  expect({DType::fp32, Op::sum}, {bits(1e8F), bits(-1e8F), bits(1), bits(1)}, bits(2));
  expect({DType::fp32, Op::sum}, {bits(1), bits(1e8F), bits(1), bits(-1e8F)}, bits(0));
}

TEST_P(FieldValues, NUM_07_NonFiniteValuesStayInTheirElement) {
  for (const DType type : {DType::fp32, DType::fp16, DType::bf16}) {
    const std::uint64_t one = type == DType::fp32 ? 0x3F800000 : type == DType::fp16 ? 0x3C00 : 0x3F80;
    const std::uint64_t three = type == DType::fp32 ? 0x40400000 : type == DType::fp16 ? 0x4200 : 0x4040;
    const std::uint64_t infinity = type == DType::fp32 ? 0x7F800000 : type == DType::fp16 ? 0x7C00 : 0x7F80;
    const std::uint64_t nan = type == DType::fp32 ? 0x7FC00000 : type == DType::fp16 ? 0x7E00 : 0x7FC0;
    const std::uint64_t sign = std::uint64_t{1} << (8 * dtype_bytes(type) - 1);
    std::vector<std::vector<std::uint64_t>> ranks(3, std::vector<std::uint64_t>(1000, one));
    ranks[1][17] = nan | sign | 1;
    ranks[1][18] = infinity;
    ranks[2][18] = infinity | sign;
    ranks[2][19] = infinity;
    std::vector<std::uint64_t> expected(1000, three);
    expected[17] = expected[18] = nan;
    expected[19] = infinity;
    EXPECT_EQ(folded({type, Op::sum}, ranks), expected) << dtype_name(type);
  }
}

TEST_P(FieldValues, NUM_09_IntegerMeanTruncatesAndDividesByContributors) {
  expect({DType::int32, Op::avg}, {3, 4}, 3);
  expect({DType::int32, Op::avg}, {0xFFFFFFFD, 0xFFFFFFFC}, 0xFFFFFFFD);  // -7 / 2 -> -3
  expect({DType::int8, Op::avg}, {0xFD, 0xFC}, 0xFD);
  expect({DType::int64, Op::avg}, {~std::uint64_t{2}, ~std::uint64_t{3}}, ~std::uint64_t{2});
  expect({DType::int8, Op::avg, 200}, {0x80}, 0);
  const std::vector<std::uint64_t> mean =
      folded({DType::fp32, Op::avg}, {{bits(2), bits(4), bits(6)}, {bits(4), bits(8), bits(12)}});
  EXPECT_EQ(mean, (std::vector<std::uint64_t>{bits(3), bits(6), bits(9)}));
}

TEST_P(FieldValues, NUM_11_IntegersWrap) {
  expect({DType::int8, Op::sum}, {120, 100}, 0xDC);  // -36
  expect({DType::uint8, Op::sum}, {200, 100}, 44);
  expect({DType::int32, Op::sum}, {0x7FFFFFFF, 1}, 0x80000000);
  expect({DType::int64, Op::sum}, {0x7FFFFFFFFFFFFFFF, 1}, 0x8000000000000000);
  expect({DType::int8, Op::avg}, {120, 100}, 0xEE);  // the wrapped sum -36 / 2
  expect({DType::int16, Op::prod}, {0x7FFF, 0x7FFF}, 1);
  expect({DType::uint16, Op::prod}, {0xFFFF, 0xFFFF}, 1);  // overflows int after promotion
  expect({DType::int32, Op::prod}, {0x80000000, 0xFFFFFFFF}, 0x80000000);
  expect({DType::int64, Op::prod}, {0x8000000000000000, ~std::uint64_t{0}}, 0x8000000000000000);
}

TEST_P(FieldValues, NUM_12_Fp8SaturatesAndKeepsNan) {
  expect({DType::fp8_e4m3, Op::sum}, {0x7E, 0x59}, 0x7E);  // 448 + 18
  expect({DType::fp8_e5m2, Op::sum}, {0x7B, 0x6C}, 0x7B);  // 57344 + 4096
  expect({DType::fp8_e4m3, Op::sum}, {0x7F, 0x38}, 0x7F);
  expect({DType::fp8_e4m3, Op::sum}, {0xFF, 0x38}, 0x7F);
  expect({DType::fp8_e5m2, Op::sum}, {0x7C, 0x3C}, 0x7C);
  expect({DType::fp8_e5m2, Op::sum}, {0x7C, 0xFC}, 0x7E);
}

TEST_P(FieldValues, NUM_12_AllPairsOfFp8) {
  for (const DType type : {DType::fp8_e4m3, DType::fp8_e5m2}) {
    const oracle::Format& format = oracle::format(type);
    std::vector<std::vector<std::uint64_t>> ranks(2);
    std::vector<std::uint64_t> sum, largest;
    for (std::uint32_t a = 0; a < 256; ++a) {
      for (std::uint32_t b = 0; b < 256; ++b) {
        ranks[0].push_back(a);
        ranks[1].push_back(b);
        const double x = format.decode(a), y = format.decode(b);
        sum.push_back(format.encode(x + y));  // exact in double: the one rounding there is
        const double more = std::isnan(x + y) ? NAN : (x > y || (x == y && !std::signbit(x))) ? x : y;
        largest.push_back(std::isnan(x) || std::isnan(y) ? format.quiet_nan()
                          : std::isnan(more)             ? (x > y ? a : b)  // infinities of both signs
                                                         : format.encode(more));
      }
    }
    EXPECT_EQ(folded({type, Op::sum}, ranks), sum) << dtype_name(type);
    EXPECT_EQ(folded({type, Op::max}, ranks), largest) << dtype_name(type);
  }
}

TEST_P(FieldValues, NUM_14_ZeroKeepsItsSign) {
  expect({DType::fp32, Op::sum}, {0x80000000, 0x80000000}, 0x80000000);
  expect({DType::fp32, Op::sum}, {0x80000000, 0x00000000}, 0x00000000);
  expect({DType::fp32, Op::avg}, {0x80000000}, 0x80000000);
  expect({DType::bf16, Op::sum}, {0x8000, 0x8000, 0x8000}, 0x8000);
  expect({DType::fp8_e4m3, Op::sum}, {0x80, 0x80}, 0x80);
}

TEST_P(FieldValues, MinAndMaxOrderZerosAndKeepNan) {
  for (const auto& [a, b] : {std::pair{0x80000000U, 0U}, std::pair{0U, 0x80000000U}}) {
    expect({DType::fp32, Op::min}, {a, b}, 0x80000000);
    expect({DType::fp32, Op::max}, {a, b}, 0x00000000);
  }
  for (const Op op : {Op::min, Op::max}) {
    expect({DType::fp32, op}, {0x7F800001, bits(1), bits(2)}, 0x7FC00000);
    expect({DType::fp32, op}, {bits(1), 0xFFC00000, bits(2)}, 0x7FC00000);
    expect({DType::fp64, op}, {0, 0x7FF0000000000001}, 0x7FF8000000000000);
  }
}

TEST_P(FieldValues, BoolIsAnyByteButZero) {
  expect({DType::boolean, Op::sum}, {0, 2, 0}, 1);
  expect({DType::boolean, Op::max}, {0, 0}, 0);
  expect({DType::boolean, Op::prod}, {0x80, 0x7F}, 1);
  expect({DType::boolean, Op::min}, {0x80, 0}, 0);
  expect({DType::boolean, Op::avg}, {1, 2, 4}, 1);
  expect({DType::boolean, Op::avg}, {1, 2, 0}, 0);
  expect({DType::boolean, Op::sum}, {0xFF}, 1);
}

TEST_P(FieldValues, OneInputIsCopiedWithItsNanPayload) {
  expect({DType::fp32, Op::sum}, {0xFF812345}, 0xFF812345);
  expect({DType::fp16, Op::avg}, {0xFD01}, 0xFD01);
  expect({DType::fp32, Op::sum, 0, 2.0, 1.0}, {0xFF812345}, 0x7FC00000);
  expect({DType::fp32, Op::sum, 0, 1.0 + 1e-12, 1.0}, {0xFF812345}, 0xFF812345);  // 1 as an fp32 factor
}

TEST_P(FieldValues, NoInputLeavesTheOutputAlone) {
  float out = 4;
  fold({DType::fp32, Op::sum}, &out, {}, 1);
  EXPECT_EQ(out, 4);
}

TEST(FoldDefined, RefusesWhatTheContractLeavesOut) {
  EXPECT_TRUE(fold_defined({DType::complex64, Op::avg, 0, 0.5, 2.0}));
  EXPECT_FALSE(fold_defined({DType::complex64, Op::max}));
  EXPECT_FALSE(fold_defined({DType::int32, Op::sum, 0, 0.5, 1.0}));
  EXPECT_FALSE(fold_defined({DType::boolean, Op::sum, 0, 1.0, 2.0}));
  EXPECT_FALSE(fold_defined({static_cast<DType>(17), Op::sum}));
  EXPECT_FALSE(fold_defined({DType::fp32, static_cast<Op>(99)}));
}

TEST(FoldDeathTest, UndefinedSpecAborts) {
  float x = 0;
  const void* inputs[] = {&x};
  EXPECT_DEATH(fold({DType::complex64, Op::max}, &x, inputs, 1), "fold is not defined");
}

}  // namespace
}  // namespace redsum::kernels
