// SPDX-License-Identifier: Apache-2.0
// Every instruction set against the scalar reference, bit for bit.
#include "tests/kernels/fixture.h"

namespace redsum::kernels {
namespace {

std::vector<std::string_view> vector_isas() {
  std::vector<std::string_view> isas = available_isas();
  std::erase(isas, "scalar");
  return isas;
}

std::string fold_on(std::string_view isa, const FoldSpec& spec, const std::vector<Buffer>& inputs, std::size_t count,
                    std::size_t out_offset = 0) {
  const ForcedIsa forced(isa);
  Buffer out(spec.dtype, count, out_offset);
  fold(spec, out.data(), pointers(inputs), count);
  EXPECT_TRUE(out.guards_intact()) << describe(isa, spec, inputs.size(), count);
  return out.content();
}

void expect_same(const FoldSpec& spec, std::size_t n, std::size_t count, bool stagger = false) {
  const std::vector<Buffer> inputs = sample_inputs(spec.dtype, n, count, n * 7919 + count, stagger);
  const std::string expected = fold_on("scalar", spec, inputs, count, stagger ? 1 : 0);
  for (const std::string_view isa : vector_isas()) {
    ASSERT_EQ(fold_on(isa, spec, inputs, count, stagger ? 1 : 0), expected) << describe(isa, spec, n, count);
  }
}

TEST(TargetFold, EveryTypeOperationWorldAndLength) {
  for (const auto& [type, op] : all_reductions()) {
    for (std::size_t n = 1; n <= 9; ++n) {
      for (std::size_t count = 0; count <= 70; ++count) expect_same({type, op}, n, count);
      for (const std::size_t count : {1023U, 1025U, 4099U}) expect_same({type, op}, n, count);
    }
  }
}

TEST(TargetFold, StartsThatSuitNoRegister) {
  for (const auto& [type, op] : all_reductions()) {
    for (const std::size_t count : {1U, 15U, 16U, 17U, 63U, 64U, 65U, 127U, 255U, 257U, 300U, 519U}) {
      for (const std::size_t n : {1U, 2U, 3U, 5U}) expect_same({type, op}, n, count, true);
    }
  }
}

TEST(TargetFold, DivisorsAndFactors) {
  for (const auto& [type, op] : all_reductions()) {
    for (const std::uint32_t contributors : {1U, 2U, 3U, 7U, 200U, 65537U, 16777217U, 4294967295U}) {
      expect_same({type, op, contributors}, 3, 333);
      expect_same({type, op, contributors}, 1, 333);
    }
    if (!scaling_defined(type)) continue;
    for (const double prescale : {1.0, 0.1, -2.0, 1e-30, 0.0}) {
      for (const double postscale : {1.0, 1.0 / 3.0, 65536.0}) {
        expect_same({type, op, 0, prescale, postscale}, 4, 333);
        expect_same({type, op, 0, prescale, postscale}, 1, 333);
      }
    }
  }
}

TEST(TargetFold, OutputInPlaceOfAnyInput) {
  constexpr std::size_t kCount = 1031;
  for (const std::string_view isa : available_isas()) {
    const ForcedIsa forced(isa);
    for (const auto& [type, op] : all_reductions()) {
      for (const std::size_t n : {1U, 2U, 5U}) {
        const std::vector<Buffer> inputs = sample_inputs(type, n, kCount, 3);
        const std::string expected = fold_on(isa, {type, op}, inputs, kCount);
        for (std::size_t k = 0; k < n; ++k) {
          std::vector<Buffer> mutated = sample_inputs(type, n, kCount, 3);
          fold({type, op}, mutated[k].data(), pointers(mutated), kCount);
          ASSERT_EQ(mutated[k].content(), expected) << describe(isa, {type, op}, n, kCount) << " in place of " << k;
        }
      }
    }
  }
}

// However a vector is cut into calls, and also when a prefix of the inputs was folded before (fp32 keeps its type).
TEST(TargetFold, CutsChangeNoBit) {
  constexpr std::size_t kCount = 997;
  for (const std::string_view isa : available_isas()) {
    for (const auto& [type, op] : all_reductions()) {
      const FoldSpec spec{type, op};
      const std::vector<Buffer> inputs = sample_inputs(type, 4, kCount, 5);
      const std::string expected = fold_on(isa, spec, inputs, kCount);
      const ForcedIsa forced(isa);
      Buffer out(type, kCount);
      std::size_t length = 1;
      for (std::size_t at = 0; at < kCount; at += length, length = length * 2 + 1) {
        std::vector<const void*> starts;
        for (const Buffer& input : inputs) starts.push_back(input.data() + at * dtype_bytes(type));
        length = std::min(length, kCount - at);
        fold(spec, out.data() + at * dtype_bytes(type), starts, length);
      }
      ASSERT_EQ(out.content(), expected) << describe(isa, spec, 4, kCount);
    }
  }
}

TEST(TargetFold, PartialSumsInFp32ContinueTheSameFold) {
  for (const std::string_view isa : available_isas()) {
    const std::vector<Buffer> inputs = sample_inputs(DType::fp32, 4, 500, 9);
    const std::string expected = fold_on(isa, {DType::fp32, Op::avg, 4}, inputs, 500);
    const ForcedIsa forced(isa);
    Buffer partial(DType::fp32, 500);
    const std::vector<const void*> all = pointers(inputs);
    fold({DType::fp32, Op::sum}, partial.data(), std::vector<const void*>{all[0], all[1]}, 500);
    fold({DType::fp32, Op::sum}, partial.data(), std::vector<const void*>{partial.data(), all[2]}, 500);
    fold({DType::fp32, Op::avg, 4}, partial.data(), std::vector<const void*>{partial.data(), all[3]}, 500);
    EXPECT_EQ(partial.content(), expected) << isa;
  }
}

}  // namespace
}  // namespace redsum::kernels
