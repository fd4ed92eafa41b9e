// SPDX-License-Identifier: Apache-2.0
// A fold in steps against the same fold in one call, bit for bit.
#include "kernels/partial.h"

#include "tests/kernels/fixture.h"

namespace redsum::kernels {
namespace {

enum class Out { separate, in_place_of_partial, in_place_of_contribution };

// What travels from rank to rank, and what the last one makes of it. `inputs` may be longer than `count`.
std::string travel(const FoldSpec& spec, std::vector<Buffer> inputs, std::size_t count, Out where) {
  const DType kept = partial_dtype(spec);
  Buffer partial(kept, count, 1);
  const std::vector<Buffer> untouched = inputs;
  if (begins_as_is(spec)) {
    std::copy_n(inputs[0].data(), count * dtype_bytes(kept), partial.data());
  } else {
    begin_partial(spec, partial.data(), inputs[0].data(), count);
  }
  for (std::size_t k = 1; k + 1 < inputs.size(); ++k) {
    if (k % 2 == 0) {  // in place
      extend_partial(spec, partial.data(), partial.data(), inputs[k].data(), count);
      continue;
    }
    Buffer next(kept, count, 1);
    const std::string before = partial.content();
    extend_partial(spec, next.data(), partial.data(), inputs[k].data(), count);
    if (partial.content() != before) return "a partial result that was only to be read has changed";
    std::copy_n(next.data(), next.bytes(), partial.data());
    if (!next.guards_intact()) return "wrote outside the next partial result";
  }
  Buffer& last = inputs.back();
  Buffer separate(spec.dtype, count);
  unsigned char* const out = where == Out::separate              ? separate.data()
                             : where == Out::in_place_of_partial ? partial.data()
                                                                 : last.data();
  finish_partial(spec, out, partial.data(), last.data(), count);
  EXPECT_TRUE(partial.guards_intact() && separate.guards_intact() && last.guards_intact());
  const std::size_t bytes = count * dtype_bytes(spec.dtype);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const bool overwritten = where == Out::in_place_of_contribution && k + 1 == inputs.size();
    const std::size_t from = overwritten ? bytes : 0;  // what lies behind the result stays too
    EXPECT_EQ(inputs[k].content().substr(from), untouched[k].content().substr(from)) << "contribution " << k;
  }
  return {reinterpret_cast<const char*>(out), bytes};
}

void expect_the_fold(const FoldSpec& spec, const std::vector<Buffer>& inputs, std::size_t count) {
  Buffer expected(spec.dtype, count);
  {
    const ForcedIsa scalar("scalar");
    fold(spec, expected.data(), pointers(inputs), count);
  }
  for (const std::string_view isa : available_isas()) {
    const ForcedIsa forced(isa);
    for (const Out where : {Out::separate, Out::in_place_of_partial, Out::in_place_of_contribution}) {
      ASSERT_TRUE(travel(spec, inputs, count, where) == expected.content())
          << describe(isa, spec, inputs.size(), count) << " out " << static_cast<int>(where);
    }
  }
}

// 1 + 1e-10 is a factor for fp64 and none for the others.
std::vector<FoldSpec> specs(DType type, Op op, std::size_t n) {
  const auto contributors = static_cast<std::uint32_t>(n);
  std::vector<FoldSpec> result{{type, op, contributors}};
  if (!scaling_defined(type)) return result;
  for (const auto& [prescale, postscale] : {std::pair{0.1, 1.0}, std::pair{1.0, 1.0 / 3.0}, std::pair{-2.0, 65536.0},
                                            std::pair{1e-30, 1e25}, std::pair{1.0 + 1e-10, 1.0}, std::pair{0.0, 1.0}}) {
    result.push_back({type, op, contributors, prescale, postscale});
  }
  return result;
}

TEST(Partial, EveryTypeOperationScaleAndWorld) {
  for (const auto& [type, op] : all_reductions()) {
    for (std::size_t n = 2; n <= 5; ++n) {
      const std::vector<Buffer> inputs = sample_inputs(type, n, 777, n, true);
      for (const FoldSpec& spec : specs(type, op, n)) expect_the_fold(spec, inputs, 777);
    }
  }
}

// Blocks have 4096 bytes of partial results: 1024, 512 or 256 elements.
TEST(Partial, CountsAroundTheBordersOfBlocks) {
  constexpr std::size_t kCounts[] = {0, 1, 255, 257, 511, 512, 513, 1023, 1024, 1025, 2049};
  for (const auto& [type, op] : all_reductions()) {
    const std::vector<Buffer> inputs = sample_inputs(type, 3, 2049, 11, true);
    for (const FoldSpec& spec : specs(type, op, 3)) {
      for (const std::size_t count : kCounts) expect_the_fold(spec, inputs, count);
    }
  }
}

// Every value of fp8 with every other, between two partial results and at the end: infinities, NaNs, saturation.
TEST(Partial, EveryPairOfFp8) {
  constexpr std::size_t kCount = 65536;
  for (const DType type : {DType::fp8_e4m3, DType::fp8_e5m2}) {
    std::vector<Buffer> inputs(3, Buffer(type, kCount));
    for (std::size_t i = 0; i < kCount; ++i) {
      set_code(inputs[0], type, i, i >> 8);
      set_code(inputs[1], type, i, i & 0xFF);
      set_code(inputs[2], type, i, (i >> 8) ^ 0x80);  // takes the first away again
    }
    for (const Op op : {Op::sum, Op::prod, Op::min, Op::max, Op::avg}) {
      for (const FoldSpec& spec : specs(type, op, 3)) expect_the_fold(spec, inputs, kCount);
      expect_the_fold({type, op, 2}, {inputs[0], inputs[1]}, kCount);
    }
  }
}

// The bits of one element's result, for contributions given as codes.
std::uint64_t result_of(const FoldSpec& spec, const std::vector<std::uint64_t>& codes) {
  std::vector<Buffer> inputs(codes.size(), Buffer(spec.dtype, 1));
  for (std::size_t k = 0; k < codes.size(); ++k) set_code(inputs[k], spec.dtype, 0, codes[k]);
  const std::string bytes = travel(spec, inputs, 1, Out::separate);
  std::uint64_t code = 0;
  std::memcpy(&code, bytes.data(), bytes.size());
  return code;
}

TEST(Partial, RoundsOnceAndDividesOnce) {
  // 256 + 1 + 1 in bf16: rounded on the way, each 1 would be lost.
  EXPECT_EQ(result_of({DType::bf16, Op::sum}, {0x4380, 0x3F80, 0x3F80}), 0x4381U);
  // 448 + 448 - 448 in e4m3: no saturation on the way.
  EXPECT_EQ(result_of({DType::fp8_e4m3, Op::sum}, {0x7E, 0x7E, 0xFE}), 0x7EU);
  EXPECT_EQ(result_of({DType::fp8_e4m3, Op::sum}, {0x7E, 0x7E}), 0x7EU);
  // The average of three times 65504 in fp16, whose sum no fp16 holds.
  EXPECT_EQ(result_of({DType::fp16, Op::avg, 3}, {0x7BFF, 0x7BFF, 0x7BFF}), 0x7BFFU);
  // 1 + 1 + 3 over 3 in fp32 is 5/3 in one true division.
  EXPECT_EQ(result_of({DType::fp32, Op::avg, 3}, {0x3F800000, 0x3F800000, 0x40400000}), 0x3FD55555U);
  // int8: -4 - 2 - 1 is -7, over 3 truncated -2; and 100 + 100 + 1 wraps to -55, over 3 truncated -18.
  EXPECT_EQ(result_of({DType::int8, Op::avg, 3}, {0xFC, 0xFE, 0xFF}), 0xFEU);
  EXPECT_EQ(result_of({DType::int8, Op::avg, 3}, {100, 100, 1}), 0xEEU);
}

TEST(Partial, KeepsSpecialValues) {
  EXPECT_EQ(result_of({DType::fp32, Op::sum}, {0x80000000, 0x80000000, 0x80000000}), 0x80000000U);
  EXPECT_EQ(result_of({DType::bf16, Op::max}, {0x8000, 0x0000, 0x8000}), 0x0000U);
  EXPECT_EQ(result_of({DType::fp16, Op::min}, {0x3C00, 0xFE01, 0x0000}), 0x7E00U);
  EXPECT_EQ(result_of({DType::fp32, Op::max}, {0xFFA00001, 0x3F800000}), 0x7FC00000U);
  EXPECT_EQ(result_of({DType::fp8_e5m2, Op::sum}, {0x7C, 0x7B, 0x7B}), 0x7CU);
  EXPECT_EQ(result_of({DType::boolean, Op::avg, 3}, {0xFF, 0x02, 0x10}), 1U);
  EXPECT_EQ(result_of({DType::boolean, Op::avg, 3}, {0xFF, 0x00, 0x10}), 0U);
}

TEST(Partial, TypeOfPartialResults) {
  for (const auto& [type, op] : all_reductions()) {
    const bool picks = op == Op::min || op == Op::max;
    const bool widened = oracle::is_narrow(type);
    EXPECT_EQ(partial_dtype({type, op}), widened && !picks ? DType::fp32 : type) << dtype_name(type);
    EXPECT_EQ(begins_as_is({type, op}), type != DType::boolean && (picks || !widened)) << dtype_name(type);
    if (!scaling_defined(type)) continue;
    EXPECT_EQ(partial_dtype({type, op, 0, 0.5}), widened ? DType::fp32 : type) << dtype_name(type);
    EXPECT_FALSE(begins_as_is({type, op, 0, 0.5})) << dtype_name(type);
    EXPECT_EQ(partial_dtype({type, op, 0, 1.0, 0.5}), widened && !picks ? DType::fp32 : type) << dtype_name(type);
  }
  EXPECT_TRUE(begins_as_is({DType::complex64, Op::sum, 0, 1.0 + 1e-10}));
  EXPECT_FALSE(begins_as_is({DType::complex128, Op::sum, 0, 1.0 + 1e-10}));
}

TEST(Partial, BeginsWithTheContributionItself) {
  for (const auto& [type, op] : all_reductions()) {
    const FoldSpec spec{type, op};
    if (!begins_as_is(spec)) continue;
    const std::vector<Buffer> inputs = sample_inputs(type, 1, 1031, 4);
    Buffer partial(type, 1031);
    begin_partial(spec, partial.data(), inputs[0].data(), 1031);
    EXPECT_EQ(partial.content(), inputs[0].content()) << dtype_name(type);
  }
  const unsigned char truth[] = {0, 1, 2, 0xFF};
  unsigned char normalised[4];
  begin_partial({DType::boolean, Op::avg}, normalised, truth, 4);
  EXPECT_EQ(std::vector<int>(normalised, normalised + 4), (std::vector<int>{0, 1, 1, 1}));
}

// What needs no conversion is a copy, then one fold over the whole range per step.
TEST(Partial, OneFoldPerStepWhereNothingIsConverted) {
  constexpr std::size_t kCount = 10007;
  for (const FoldSpec spec : {FoldSpec{DType::fp32, Op::avg, 3}, FoldSpec{DType::complex128, Op::sum},
                              FoldSpec{DType::int16, Op::avg, 3}, FoldSpec{DType::bf16, Op::max, 0, 1.0, 0.5}}) {
    std::vector<Buffer> inputs = sample_inputs(spec.dtype, 3, kCount, 8);
    for (Buffer& input : inputs)
      std::memset(input.data(), 0, input.bytes());  // else NaN and infinities are counted too
    Buffer partial(spec.dtype, kCount);
    const std::uint64_t before = isa_work(active_isa()).calls;
    begin_partial(spec, partial.data(), inputs[0].data(), kCount);
    EXPECT_EQ(isa_work(active_isa()).calls - before, 0U) << dtype_name(spec.dtype);
    extend_partial(spec, partial.data(), partial.data(), inputs[1].data(), kCount);
    EXPECT_EQ(isa_work(active_isa()).calls - before, 1U) << dtype_name(spec.dtype);
    finish_partial(spec, partial.data(), partial.data(), inputs[2].data(), kCount);
    EXPECT_EQ(isa_work(active_isa()).calls - before, 2U) << dtype_name(spec.dtype);
  }
}

TEST(PartialDeathTest, BugsOfTheCallerAbort) {
  std::uint16_t x[4] = {}, y[4] = {};
  EXPECT_DEATH(begin_partial({DType::complex64, Op::max}, x, y, 1), "not defined");
  EXPECT_DEATH(extend_partial({DType::int16, Op::sum, 0, 2.0}, x, x, y, 1), "not defined");
  EXPECT_DEATH(begin_partial({DType::bf16, static_cast<Op>(9)}, x, y, 1), "not defined");
  EXPECT_DEATH(finish_partial({static_cast<DType>(99), Op::sum}, x, x, y, 0), "not defined");
  EXPECT_DEATH(finish_partial({DType::int16, Op::avg}, x, x, y, 1), "contributors");
}

}  // namespace
}  // namespace redsum::kernels
