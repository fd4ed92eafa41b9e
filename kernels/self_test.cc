// SPDX-License-Identifier: Apache-2.0
// A few milliseconds at the first use of the kernels: a compiler or processor that gets a conversion wrong on this very
// machine must not corrupt a training run silently.
#include <cstring>

#include "kernels/target.h"

namespace redsum::kernels {
namespace {

constexpr std::size_t kInputs = 3;
constexpr std::size_t kCount = 4 * 64 + 64 + 13;  // four registers of the widest set, one more, and a rest
constexpr std::size_t kBytes = kCount * 8;

struct Buffers {
  // One spare element in front: the vector code must cope with starts that suit no register.
  alignas(64) unsigned char input[kInputs][kBytes + 64];
  alignas(64) unsigned char expected[kBytes];
  alignas(64) unsigned char actual[kBytes + 64];
};

std::uint64_t hash(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

// Bits of one element: any bits at all, but for fp32 and fp64, where chance would give few zeros, NaNs or sums that
// round, often a special value or a number of moderate size. Bytes for bool are 0 half of the time.
std::uint64_t element_bits(DType type, std::uint64_t index) noexcept {
  constexpr std::uint64_t kSpecial32[] = {0x00000000, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC12345, 0xFFA00001,
                                          0x00000001, 0x807FFFFF, 0x7F7FFFFF, 0x33800000, 0x477FF000, 0xC3E80000};
  constexpr std::uint64_t kSpecial64[] = {0x0000000000000000, 0x8000000000000000, 0x7FF0000000000000,
                                          0xFFF0000000000000, 0x7FF8000000012345, 0xFFF4000000000001,
                                          0x0000000000000001, 0x7FEFFFFFFFFFFFFF};
  const std::uint64_t random = hash(index);
  const std::uint64_t choice = random >> 56;
  if (type == DType::boolean) return (choice & 1U) != 0 ? 0 : random;
  if (type == DType::fp32 && choice < 64) return kSpecial32[choice % 12];
  if (type == DType::fp64 && choice < 64) return kSpecial64[choice % 8];
  if (type == DType::fp32 && choice < 192) return (random & 0x81FFFFFFU) | 0x3E000000U;
  if (type == DType::fp64 && choice < 192) return (random & 0x803FFFFFFFFFFFFFU) | 0x3FC0000000000000U;
  return random;
}

void fill(Buffers& buffers, DType type) noexcept {
  const std::size_t bytes = dtype_bytes(type);
  for (std::size_t k = 0; k < kInputs; ++k) {
    for (std::size_t i = 0; i <= kCount; ++i) {
      const std::uint64_t bits = element_bits(type, k * 100003 + i);
      std::memcpy(buffers.input[k] + i * bytes, &bits, bytes);  // the low bytes; on a big-endian machine the high ones
    }
  }
}

bool same_fold(const Target& target, Buffers& buffers, FoldJob job) noexcept {
  const std::size_t bytes = dtype_bytes(job.dtype);
  const void* inputs[kInputs];
  for (std::size_t k = 0; k < kInputs; ++k) inputs[k] = buffers.input[k] + (k % 2) * bytes;
  job.inputs = inputs;
  job.count = kCount;
  job.out = buffers.expected;
  fold_scalar(job, 0);
  job.out = buffers.actual + bytes;
  bool suspect = true;
  job.suspect = &suspect;
  const std::size_t done = target.fold(job);
  if (done > kCount) return false;
  if (!suspect && nonfinite_scalar(job.dtype, job.out, 0, done) != 0) return false;
  fold_scalar(job, done);
  return std::memcmp(buffers.expected, buffers.actual + bytes, kCount * bytes) == 0;
}

bool same_folds(const Target& target, Buffers& buffers, DType type, Op op) noexcept {
  FoldJob job{};
  job.dtype = type;
  job.op = op;
  job.input_count = kInputs;
  job.divisor = 3;
  job.prescale = 0.75;
  job.postscale = 1.5;
  bool same = same_fold(target, buffers, job);
  if (op == Op::sum && type != DType::boolean) {
    job.divide = true;
    same = same && same_fold(target, buffers, job);
  }
  if (dtype_is_float(type)) {
    job.prescaled = true;
    job.postscaled = true;
    same = same && same_fold(target, buffers, job);
  }
  return same;
}

bool same_convert(const Target& target, Buffers& buffers, DType dst, DType src) noexcept {
  const unsigned char* input = buffers.input[0] + dtype_bytes(src);
  convert_scalar(dst, buffers.expected, src, input, 0, kCount);
  unsigned char* actual = buffers.actual + dtype_bytes(dst);
  const std::size_t done = target.convert(dst, actual, src, input, kCount);
  if (done > kCount) return false;
  convert_scalar(dst, actual, src, input, done, kCount);
  return std::memcmp(buffers.expected, actual, kCount * dtype_bytes(dst)) == 0;
}

bool same_count(const Target& target, const Buffers& buffers, DType type) noexcept {
  const unsigned char* data = buffers.input[0] + dtype_bytes(type);
  std::size_t found = 0;
  const std::size_t done = target.nonfinite(type, data, kCount, &found);
  return done <= kCount && found == nonfinite_scalar(type, data, 0, done);
}

}  // namespace

bool self_test(const Target& target) noexcept {
  Buffers buffers{};
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto type = static_cast<DType>(t);
    if (dtype_is_complex(type)) continue;  // never reaches a target
    fill(buffers, type);
    if (!same_count(target, buffers, type)) return false;
    for (const Op op : {Op::sum, Op::prod, Op::min, Op::max}) {
      if (!same_folds(target, buffers, type, op)) return false;
    }
    for (const DType narrow : {DType::fp16, DType::bf16, DType::fp8_e4m3, DType::fp8_e5m2}) {
      if (type == DType::fp32 && !same_convert(target, buffers, narrow, type)) return false;
      if (type == narrow && !same_convert(target, buffers, DType::fp32, type)) return false;
    }
  }
  return true;
}

}  // namespace redsum::kernels
