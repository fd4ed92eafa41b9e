// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch.h"

#include <cstdlib>

#include "kernels/target.h"
#include "tests/kernels/fixture.h"

namespace redsum::kernels {
namespace {

bool available(std::string_view name) {
  const std::vector<std::string_view> isas = available_isas();
  return std::find(isas.begin(), isas.end(), name) != isas.end();
}

TEST(Dispatch, ForcedTargetIsTheOneThatRuns) {
  for (const std::string_view forced_name : available_isas()) {
    const ForcedIsa forced(forced_name);
    EXPECT_EQ(active_isa(), forced_name);
    for (const auto& [type, op] : all_reductions()) {
      std::vector<IsaWork> before;
      for (const std::string_view isa : available_isas()) before.push_back(isa_work(isa));
      const std::vector<Buffer> inputs = sample_inputs(type, 2, 256, 1);
      Buffer out(type, 256);
      fold({type, op}, out.data(), pointers(inputs), 256);
      std::size_t i = 0;
      for (const std::string_view isa : available_isas()) {
        const IsaWork after = isa_work(isa);
        const bool ran = isa == forced_name;
        EXPECT_EQ(after.calls - before[i].calls, ran ? 1U : 0U) << isa << " while " << forced_name << " is forced";
        EXPECT_EQ(after.elements - before[i].elements, ran ? 256 * parts(type) : 0U);
        ++i;
      }
    }
  }
}

TEST(Dispatch, UnknownNameChangesNothing) {
  const std::string before(active_isa());
  EXPECT_FALSE(force_isa("no-such-isa"));
  EXPECT_FALSE(force_isa(""));
  EXPECT_EQ(active_isa(), before);
  EXPECT_EQ(isa_work("no-such-isa").calls, 0U);
}

TEST(Dispatch, ScalarIsAlwaysTheLastResort) {
  EXPECT_EQ(available_isas().back(), "scalar");
  EXPECT_TRUE(self_test(kScalarTarget));
#if defined(__x86_64__)
  EXPECT_TRUE(available("baseline"));
  EXPECT_EQ(available("avx2"), __builtin_cpu_supports("avx2") != 0);
#elif defined(__aarch64__)
  EXPECT_TRUE(available("neon"));
#endif
}

// A target that is wrong in one bit of one type, or claims too much, must not pass.
DType broken_type;
Op broken_op;
std::size_t broken_fold(const FoldJob& job) noexcept {
  const std::size_t done = kScalarTarget.fold(job);
  if (job.dtype == broken_type && job.op == broken_op) static_cast<unsigned char*>(job.out)[0] ^= 1U;
  return done;
}
std::size_t broken_convert(DType dst_type, void* dst, DType src_type, const void* src, std::size_t count) noexcept {
  kScalarTarget.convert(dst_type, dst, src_type, src, count);
  if (dst_type == broken_type) static_cast<unsigned char*>(dst)[0] ^= 1U;
  return count;
}
std::size_t fold_without_division(const FoldJob& job) noexcept {
  FoldJob other = job;
  other.divide = other.divide && job.dtype != broken_type;
  return kScalarTarget.fold(other);
}
std::size_t fold_without_factors(const FoldJob& job) noexcept {
  FoldJob other = job;
  if (job.dtype == broken_type) other.prescaled = other.postscaled = false;
  return kScalarTarget.fold(other);
}
std::size_t greedy_fold(const FoldJob& job) noexcept {
  return job.count + 1;
}

TEST(SelfTest, FindsAWrongBitInAnyTypeAndOperation) {
  const Target broken{"broken", broken_fold, kScalarTarget.convert, kScalarTarget.nonfinite};
  for (const auto& [type, op] : all_reductions()) {
    if (dtype_is_complex(type) || op == Op::avg) continue;
    broken_type = type;
    broken_op = op;
    EXPECT_FALSE(self_test(broken)) << dtype_name(type) << " " << op_name(op);
  }
  EXPECT_FALSE(self_test(Target{"greedy", greedy_fold, kScalarTarget.convert, kScalarTarget.nonfinite}));
}

TEST(SelfTest, FindsAMissingDivisionOrFactor) {
  for (const auto& [type, op] : all_reductions()) {
    if (dtype_is_complex(type) || type == DType::boolean || op != Op::avg) continue;
    broken_type = type;
    EXPECT_FALSE(self_test(Target{"broken", fold_without_division, kScalarTarget.convert, kScalarTarget.nonfinite}))
        << dtype_name(type);
    if (!scaling_defined(type)) continue;
    EXPECT_FALSE(self_test(Target{"broken", fold_without_factors, kScalarTarget.convert, kScalarTarget.nonfinite}))
        << dtype_name(type);
  }
}

TEST(SelfTest, ATargetThatFailsIsNeverUsable) {
  const Target greedy{"greedy", greedy_fold, kScalarTarget.convert, kScalarTarget.nonfinite};
  const Target* const candidates[] = {&greedy, &kScalarTarget};
  const Target* working[2] = {};
  testing::internal::CaptureStderr();
  EXPECT_EQ(keep_working(candidates, 2, working), 1U);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "redsum: the greedy kernels give wrong bits here and are not used\n");
  EXPECT_EQ(working[0], &kScalarTarget);
}

TEST(SelfTest, FindsAWrongConversion) {
  const Target broken{"broken", kScalarTarget.fold, broken_convert, kScalarTarget.nonfinite};
  for (const DType type : {DType::fp32, DType::fp16, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    broken_type = type;
    EXPECT_FALSE(self_test(broken)) << dtype_name(type);
  }
}

std::size_t nonfinite_without_the_last(DType type, const void* data, std::size_t count, std::size_t* found) noexcept {
  *found = nonfinite_scalar(type, data, 0, count) - (type == broken_type ? 1 : 0);
  return count;
}
std::size_t trusting_fold(const FoldJob& job) noexcept {
  *job.suspect = job.dtype != broken_type;
  return kScalarTarget.fold(job);
}

TEST(SelfTest, FindsAWrongCount) {
  for (const DType type : {DType::fp64, DType::fp32, DType::fp16, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2}) {
    broken_type = type;
    EXPECT_FALSE(self_test(Target{"broken", kScalarTarget.fold, kScalarTarget.convert, nonfinite_without_the_last}))
        << dtype_name(type);
    EXPECT_FALSE(self_test(Target{"broken", trusting_fold, kScalarTarget.convert, kScalarTarget.nonfinite}))
        << dtype_name(type);
  }
}

TEST(ChooseTarget, TakesTheWishOrTheBest) {
  const Target best{"best", kScalarTarget.fold, kScalarTarget.convert, kScalarTarget.nonfinite};
  const Target* const usable[] = {&best, &kScalarTarget};
  EXPECT_EQ(&choose_target(usable, 2, nullptr), &best);
  EXPECT_EQ(&choose_target(usable, 2, ""), &best);
  EXPECT_EQ(&choose_target(usable, 2, "scalar"), &kScalarTarget);
  testing::internal::CaptureStderr();
  EXPECT_EQ(&choose_target(usable, 2, "avx9"), &best);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "redsum: REDSUM_ISA=avx9 is not usable here, taking best; possible: best scalar\n");
}

// Run once per value of REDSUM_ISA by CMakeLists.txt; without the variable it checks the automatic choice.
TEST(IsaFromEnvironment, IsObeyedWhereUsable) {
  const char* wanted = std::getenv("REDSUM_ISA");
  const bool usable = wanted != nullptr && available(wanted);
  EXPECT_EQ(active_isa(), usable ? std::string_view(wanted) : available_isas().front());
  const IsaWork before = isa_work(active_isa());
  const std::vector<Buffer> inputs = sample_inputs(DType::bf16, 3, 4096, 1);
  Buffer out(DType::bf16, 4096);
  fold({DType::bf16, Op::sum}, out.data(), pointers(inputs), 4096);
  EXPECT_EQ(isa_work(active_isa()).elements - before.elements, 4096U);
}

}  // namespace
}  // namespace redsum::kernels
