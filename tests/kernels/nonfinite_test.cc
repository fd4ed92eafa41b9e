// SPDX-License-Identifier: Apache-2.0
// How many elements are NaN or infinite, against a look at each, on every instruction set.
#include "kernels/nonfinite.h"

#include <cmath>

#include "tests/kernels/fixture.h"

namespace redsum::kernels {
namespace {

class NonFinite : public testing::TestWithParam<std::string> {
 protected:
  NonFinite() : forced_(GetParam()) {}
  ForcedIsa forced_;
};
INSTANTIATE_TEST_SUITE_P(Isa, NonFinite, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const std::string_view isa : available_isas()) names.emplace_back(isa);
                           return names;
                         }()),
                         [](const auto& isa) { return isa.param; });

// By its value, not by its bits.
bool finite(const Buffer& buffer, DType type, std::size_t i) {
  const std::uint64_t code = code_at(buffer, type, i);
  const DType part = oracle::part(type);
  if (!dtype_is_float(part)) return true;
  if (part == DType::fp64) return std::isfinite(std::bit_cast<double>(code));
  if (part == DType::fp32) return std::isfinite(std::bit_cast<float>(static_cast<std::uint32_t>(code)));
  return std::isfinite(oracle::format(part).decode(static_cast<std::uint32_t>(code)));
}

std::size_t naive(const Buffer& buffer, DType type, std::size_t count) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    bool all = true;
    for (std::size_t part = 0; part < parts(type); ++part) all = all && finite(buffer, type, i * parts(type) + part);
    found += all ? 0 : 1;
  }
  return found;
}

TEST_P(NonFinite, CountsAsALookAtEachDoes) {
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    for (std::size_t count = 0; count <= 70; ++count) {
      const Buffer data = sample_inputs(type, 1, count, 17 * count, true)[0];
      EXPECT_EQ(count_nonfinite(type, data.data(), count), naive(data, type, count)) << dtype_name(type) << count;
    }
    const Buffer data = sample_inputs(type, 1, 5003, 99, true)[0];
    EXPECT_EQ(count_nonfinite(type, data.data(), 5003), naive(data, type, 5003)) << dtype_name(type);
    EXPECT_EQ(naive(data, type, 5003) != 0, dtype_is_float(type) || dtype_is_complex(type));
  }
}

TEST_P(NonFinite, EveryBitPatternOfTheSmallTypes) {
  for (const DType type : {DType::fp16, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2, DType::int8, DType::uint16}) {
    const std::size_t patterns = std::size_t{1} << (8 * dtype_bytes(type));
    Buffer all(type, patterns, 1);
    for (std::size_t i = 0; i < patterns; ++i) set_code(all, type, i, i);
    EXPECT_EQ(count_nonfinite(type, all.data(), patterns), naive(all, type, patterns)) << dtype_name(type);
    for (std::size_t i = 0; i < patterns; ++i)
      ASSERT_EQ(count_nonfinite(type, all.data() + i * dtype_bytes(type), 1), finite(all, type, i) ? 0U : 1U)
          << dtype_name(type) << " " << i;
  }
}

// What is counted must be what is written, wherever it lies in the registers: also what only rounding makes infinite.
TEST_P(NonFinite, AFoldFindsEveryOneOfItsResult) {
  for (const auto& [type, op] : all_reductions()) {
    const FoldSpec spec{type, op};
    for (const std::size_t count : {1U, 70U, 517U}) {
      const std::vector<Buffer> inputs = sample_inputs(type, 3, count, 5, true);
      Buffer out(type, count, 1);
      const std::size_t found = fold_counting(spec, out.data(), pointers(inputs), count);
      EXPECT_EQ(found, naive(out, type, count)) << describe(GetParam(), spec, 3, count);
    }
  }
}

TEST_P(NonFinite, ASingleOneIsFoundInEveryPlace) {
  struct Case {
    DType type;
    std::uint64_t filler, a, b;  // a + b is not finite, filler + filler is
  };
  constexpr std::size_t kCount = 300;
  for (const Case& one : {Case{DType::fp32, 0x3F000000, 0x7F7FFFFF, 0x7F7FFFFF},
                          {DType::fp32, 0x42000000, 0x7FC00001, 0},
                          {DType::fp32, 0x00000001, 0xFF800000, 0},
                          {DType::fp64, 0, 0x7FF0000000000000, 1},
                          {DType::fp16, 0x3000, 0x7BFF, 0x4C00},
                          {DType::fp16, 0x7000, 0x7C00, 0xFC00},
                          {DType::bf16, 0x3F80, 0x7F7F, 0x7B00},
                          {DType::bf16, 0x7E00, 0x7FFF, 0x7FFF},
                          {DType::fp8_e4m3, 0x30, 0x7F, 0},
                          {DType::fp8_e5m2, 0x7B, 0x7C, 0}}) {
    Buffer a(one.type, kCount), b(one.type, kCount), out(one.type, kCount);
    for (std::size_t i = 0; i < kCount; ++i) set_code(a, one.type, i, one.filler), set_code(b, one.type, i, one.filler);
    const void* inputs[] = {a.data(), b.data()};
    const FoldSpec spec{one.type, Op::sum};
    EXPECT_EQ(fold_counting(spec, out.data(), inputs, kCount), 0U) << dtype_name(one.type) << " " << one.filler;
    for (std::size_t i = 0; i < kCount; ++i) {
      set_code(a, one.type, i, one.a), set_code(b, one.type, i, one.b);
      ASSERT_EQ(fold_counting(spec, out.data(), inputs, kCount), 1U) << dtype_name(one.type) << " " << i;
      ASSERT_FALSE(finite(out, one.type, i));
      set_code(a, one.type, i, one.filler), set_code(b, one.type, i, one.filler);
    }
  }
}

TEST_P(NonFinite, ACopyIsCountedToo) {
  float in[] = {1, INFINITY, NAN, 3}, out[4] = {};
  const void* inputs[] = {in};
  EXPECT_EQ(fold_counting({DType::fp32, Op::sum}, out, inputs, 4), 2U);
  EXPECT_EQ(fold_counting({DType::complex64, Op::sum}, out, inputs, 2), 2U);
  in[1] = 1;
  EXPECT_EQ(fold_counting({DType::complex64, Op::sum}, out, inputs, 2), 1U);
}

}  // namespace
}  // namespace redsum::kernels
