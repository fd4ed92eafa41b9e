// SPDX-License-Identifier: Apache-2.0
#include "kernels/dispatch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if defined(REDSUM_HAVE_AVX2)
#include <cpuid.h>
#endif

#include "kernels/convert.h"
#include "kernels/fold.h"
#include "kernels/nonfinite.h"
#include "kernels/target.h"

namespace redsum::kernels {
namespace {

#if defined(REDSUM_HAVE_AVX2)
// f16c by hand: not every compiler's __builtin_cpu_supports() knows the name. The AVX state that it needs from the
// operating system is covered by the question for avx2.
bool has_f16c() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool has_avx2() noexcept {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool has_avx512() noexcept {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

class Registry {
 public:
  static constexpr std::size_t kMaxTargets = 4;

  Registry() noexcept {
    const Target* candidates[kMaxTargets];
    std::size_t candidate_count = 0;
#if defined(REDSUM_HAVE_AVX512)
    if (has_avx512()) candidates[candidate_count++] = &kAvx512Target;
#endif
#if defined(REDSUM_HAVE_AVX2)
    if (has_avx2()) candidates[candidate_count++] = &kAvx2Target;
#endif
#if defined(REDSUM_HAVE_NEON)
    candidates[candidate_count++] = &kNeonTarget;
#endif
#if defined(REDSUM_HAVE_BASELINE)
    candidates[candidate_count++] = &kBaselineTarget;
#endif
    candidates[candidate_count++] = &kScalarTarget;
    count_ = keep_working(candidates, candidate_count, usable_.data());
    const Target& choice = choose_target(usable_.data(), count_, std::getenv("REDSUM_ISA"));
    active_ = index_of(choice.name);
  }

  std::size_t count() const noexcept {
    return count_;
  }
  const Target& at(std::size_t i) const noexcept {
    return *usable_[i];
  }
  std::size_t active() const noexcept {
    return active_.load(std::memory_order_relaxed);
  }
  void activate(std::size_t i) noexcept {
    active_.store(i, std::memory_order_relaxed);
  }

  // count(): no such target.
  std::size_t index_of(std::string_view name) const noexcept {
    std::size_t i = 0;
    while (i < count_ && usable_[i]->name != name) ++i;
    return i;
  }

 private:
  std::array<const Target*, kMaxTargets> usable_{};
  std::size_t count_ = 0;
  std::atomic<std::size_t> active_{0};
};

Registry& registry() noexcept {
  static Registry instance;
  return instance;
}

// Per thread, so that shards do not share a cache line for the sake of tests.
thread_local IsaWork work_done[Registry::kMaxTargets];

void record(std::size_t target, std::size_t elements) noexcept {
  ++work_done[target].calls;
  work_done[target].elements += elements;
}

[[noreturn]] void refuse(const char* what, DType type, int other) noexcept {
  std::fprintf(stderr, "redsum: %s is not defined for dtype %d with %d\n", what, static_cast<int>(type), other);
  std::abort();
}

FoldJob make_job(const FoldSpec& spec, void* out, std::span<const void* const> inputs, std::size_t count) noexcept {
  FoldJob job{};
  job.dtype = spec.dtype;
  job.op = spec.op;
  job.out = out;
  job.inputs = inputs.data();
  job.input_count = inputs.size();
  job.count = count;
  if (dtype_is_complex(spec.dtype)) {
    job.dtype = spec.dtype == DType::complex64 ? DType::fp32 : DType::fp64;
    job.count = 2 * count;
  }
  job.divisor = spec.contributors != 0 ? spec.contributors : static_cast<std::uint32_t>(inputs.size());
  if (spec.op == Op::avg) {
    job.op = spec.dtype == DType::boolean ? Op::prod : Op::sum;
    job.divide = spec.dtype != DType::boolean && job.divisor != 1;
  }
  const bool in_double = job.dtype == DType::fp64;
  job.prescale = in_double ? spec.prescale : static_cast<double>(static_cast<float>(spec.prescale));
  job.postscale = in_double ? spec.postscale : static_cast<double>(static_cast<float>(spec.postscale));
  job.prescaled = job.prescale != 1.0;
  job.postscaled = job.postscale != 1.0;
  return job;
}

// Carries out a fold. False: no element of the result is NaN or infinite; true: one may be.
bool fold_suspect(const FoldSpec& spec, void* out, std::span<const void* const> inputs, std::size_t count) noexcept {
  if (!fold_defined(spec)) refuse("fold", spec.dtype, static_cast<int>(spec.op));
  if (inputs.empty() || count == 0) return false;
  FoldJob job = make_job(spec, out, inputs, count);
  bool suspect = dtype_is_float(job.dtype);
  job.suspect = &suspect;
  if (inputs.size() == 1 && !job.divide && !job.prescaled && !job.postscaled && spec.dtype != DType::boolean) {
    if (out != inputs[0]) std::memcpy(out, inputs[0], count * dtype_bytes(spec.dtype));
    return suspect;
  }
  Registry& targets = registry();
  const std::size_t target = targets.active();
  const std::size_t done = targets.at(target).fold(job);
  record(target, done);
  if (done < job.count) {
    fold_scalar(job, done);
    suspect = suspect || nonfinite_scalar(job.dtype, out, done, job.count) != 0;
  }
  return suspect;
}

// Of a type that is not complex.
std::size_t count_parts(DType type, const void* data, std::size_t count) noexcept {
  Registry& targets = registry();
  const std::size_t target = targets.active();
  std::size_t found = 0;
  const std::size_t done = targets.at(target).nonfinite(type, data, count, &found);
  record(target, done);
  return found + nonfinite_scalar(type, data, done, count);
}

}  // namespace

std::size_t keep_working(const Target* const* candidates, std::size_t count, const Target** working) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (self_test(*candidates[i])) {
      working[kept++] = candidates[i];
    } else {
      std::fprintf(stderr, "redsum: the %s kernels give wrong bits here and are not used\n", candidates[i]->name);
    }
  }
  return kept;
}

const Target& choose_target(const Target* const* usable, std::size_t usable_count, const char* wanted) noexcept {
  if (wanted == nullptr || *wanted == '\0') return *usable[0];
  for (std::size_t i = 0; i < usable_count; ++i) {
    if (std::strcmp(usable[i]->name, wanted) == 0) return *usable[i];
  }
  std::fprintf(stderr, "redsum: REDSUM_ISA=%s is not usable here, taking %s; possible:", wanted, usable[0]->name);
  for (std::size_t i = 0; i < usable_count; ++i) std::fprintf(stderr, " %s", usable[i]->name);
  std::fprintf(stderr, "\n");
  return *usable[0];
}

void fold(const FoldSpec& spec, void* out, std::span<const void* const> inputs, std::size_t count) noexcept {
  fold_suspect(spec, out, inputs, count);
}

std::size_t fold_counting(const FoldSpec& spec, void* out, std::span<const void* const> inputs,
                          std::size_t count) noexcept {
  return fold_suspect(spec, out, inputs, count) ? count_nonfinite(spec.dtype, out, count) : 0;
}

std::size_t count_nonfinite(DType type, const void* data, std::size_t count) noexcept {
  if (dtype_is_float(type)) return count_parts(type, data, count);
  if (!dtype_is_complex(type)) return 0;
  constexpr std::size_t kBlock = 512;
  const DType part = type == DType::complex64 ? DType::fp32 : DType::fp64;
  std::size_t found = 0;
  for (std::size_t at = 0; at < count; at += kBlock) {
    const std::size_t length = std::min(kBlock, count - at);
    const char* block = static_cast<const char*>(data) + at * dtype_bytes(type);
    if (count_parts(part, block, 2 * length) != 0) found += nonfinite_scalar(type, block, 0, length);
  }
  return found;
}

void convert(DType dst_type, void* dst, DType src_type, const void* src, std::size_t count) noexcept {
  if (!convert_defined(dst_type, src_type)) refuse("convert", dst_type, static_cast<int>(src_type));
  if (count == 0) return;
  if (dst_type == src_type) {
    std::memcpy(dst, src, count * dtype_bytes(dst_type));
    return;
  }
  Registry& targets = registry();
  const std::size_t target = targets.active();
  const std::size_t done = targets.at(target).convert(dst_type, dst, src_type, src, count);
  record(target, done);
  if (done < count) convert_scalar(dst_type, dst, src_type, src, done, count);
}

std::string_view active_isa() {
  return registry().at(registry().active()).name;
}

std::vector<std::string_view> available_isas() {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < registry().count(); ++i) names.emplace_back(registry().at(i).name);
  return names;
}

bool force_isa(std::string_view name) {
  const std::size_t i = registry().index_of(name);
  if (i == registry().count()) return false;
  registry().activate(i);
  return true;
}

IsaWork isa_work(std::string_view name) {
  const std::size_t i = registry().index_of(name);
  return i == registry().count() ? IsaWork{} : work_done[i];
}

}  // namespace redsum::kernels
