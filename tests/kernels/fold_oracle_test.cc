// SPDX-License-Identifier: Apache-2.0
// The scalar reference against an oracle that shares no code with it.
#include "tests/kernels/fixture.h"

namespace redsum::kernels {
namespace {

void expect_oracle(const FoldSpec& spec, std::size_t n, std::size_t count, std::uint64_t seed) {
  const std::vector<Buffer> inputs = sample_inputs(spec.dtype, n, count, seed);
  Buffer out(spec.dtype, count);
  fold(spec, out.data(), pointers(inputs), count);
  for (std::size_t i = 0; i < count * parts(spec.dtype); ++i) {
    std::vector<std::uint64_t> codes;
    for (const Buffer& input : inputs) codes.push_back(code_at(input, spec.dtype, i));
    ASSERT_EQ(code_at(out, spec.dtype, i), oracle::fold_codes(spec, codes))
        << describe("scalar", spec, n, count) << " element " << i;
  }
}

TEST(ScalarFold, GivesTheOraclesBits) {
  const ForcedIsa scalar("scalar");
  for (const auto& [type, op] : all_reductions()) {
    for (std::size_t n = 1; n <= 9; ++n) expect_oracle({type, op}, n, 331, n);
  }
}

TEST(ScalarFold, DividesByTheContributorsItIsTold) {
  const ForcedIsa scalar("scalar");
  for (const auto& [type, op] : all_reductions()) {
    for (const std::uint32_t contributors : {1U, 2U, 7U, 200U, 65537U, 4294967295U}) {
      for (const std::size_t n : {1U, 2U, 5U}) expect_oracle({type, op, contributors}, n, 101, contributors);
    }
  }
}

TEST(ScalarFold, ScalesInTheAccumulator) {
  const ForcedIsa scalar("scalar");
  for (const auto& [type, op] : all_reductions()) {
    if (!scaling_defined(type)) continue;
    for (const double prescale : {1.0, 0.1, -2.0, 1e-30}) {
      for (const double postscale : {1.0, 1.0 / 3.0, 65536.0, 0.0}) {
        for (const std::size_t n : {1U, 2U, 6U}) expect_oracle({type, op, 0, prescale, postscale}, n, 101, n);
      }
    }
  }
}

}  // namespace
}  // namespace redsum::kernels
