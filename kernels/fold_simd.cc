// SPDX-License-Identifier: Apache-2.0
// The fold as it runs: one body, compiled once per instruction set (CMakeLists.txt), reached through a Target. It reads
// every input once and writes once; accumulators live in registers while the inner loop goes over the inputs. The order
// of operations per element is that of the scalar code, so width and unrolling change no bit.
#include "kernels/simd_nonfinite.h"
#include "kernels/simd_vectors.h"
#include "kernels/target.h"

#if defined(REDSUM_KERNELS_AVX512)
#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__)
#error "the avx512 kernels need AVX-512 F, BW, DQ and VL"
#endif
#define REDSUM_KERNELS_TARGET kAvx512Target
#define REDSUM_KERNELS_NAME "avx512"
#elif defined(REDSUM_KERNELS_AVX2)
#if !defined(__AVX2__) || !defined(__F16C__)
#error "the avx2 kernels need AVX2 and F16C"
#endif
#define REDSUM_KERNELS_TARGET kAvx2Target
#define REDSUM_KERNELS_NAME "avx2"
#elif defined(REDSUM_KERNELS_NEON)
#define REDSUM_KERNELS_TARGET kNeonTarget
#define REDSUM_KERNELS_NAME "neon"
#else
#define REDSUM_KERNELS_TARGET kBaselineTarget
#define REDSUM_KERNELS_NAME "baseline"
#endif

namespace redsum::kernels {
namespace {

// Truncating division of integers already written. Up to 32 bits it goes through floating point, which has vector
// instructions and is exact here: a quotient a/d that is no integer is at least 1/d away from one, and the rounding
// error, below |a|/d * 2^-24 (fp32, |a| < 2^16) or |a|/d * 2^-53 (fp64, |a| <= 2^32), is smaller. A divisor too
// large for fp32 still rounds to one above |a|, which gives the right answer, 0.
template <class T>
REDSUM_INLINE void divide(char* out, std::size_t count, std::uint32_t divisor) {
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    __builtin_memcpy(&value, out + i * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) <= 2) {
      value = static_cast<T>(static_cast<std::int32_t>(static_cast<float>(value) / static_cast<float>(divisor)));
    } else if constexpr (sizeof(T) == 4) {
      // The divisor is at least 2, so that unsigned quotients too fit the signed type, whose conversion is cheaper.
      value = static_cast<T>(static_cast<std::int32_t>(static_cast<double>(value) / static_cast<double>(divisor)));
    } else {
      value = value / static_cast<T>(divisor);
    }
    __builtin_memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

// What happens to accumulators after the last input.
template <class E>
struct Finish {
  using Acc = typename E::Acc;
  bool dividing = false;
  bool scaling = false;
  Acc divisor{};
  Acc factor{};

  explicit REDSUM_INLINE Finish(const FoldJob& job) {
    if constexpr (E::kFloating) {
      dividing = job.divide;
      scaling = job.postscaled;
      divisor = E::splat(job.divisor);
      factor = E::splat(job.postscale);
    }
  }
  REDSUM_INLINE Acc scaled(Acc acc) const {
    if constexpr (E::kFloating) {
      if (dividing) acc = acc / divisor;
      if (scaling) acc = acc * factor;
    }
    return acc;
  }
};

// Writes four registers. One test tells that no result is NaN or infinite, and spares the four of write(). False: one
// may be.
template <class E>
REDSUM_INLINE bool write_four(char* p, typename E::Acc a, typename E::Acc b, typename E::Acc c, typename E::Acc d) {
  constexpr std::size_t kStride = E::kLanes * E::kBytes;
  if constexpr (E::kFloating) {
    if (__builtin_expect(all_below(E::kLeast, a, b, c, d), 1)) {
      E::write_number(p, a);
      E::write_number(p + kStride, b);
      E::write_number(p + 2 * kStride, c);
      E::write_number(p + 3 * kStride, d);
      return true;
    }
  }
  E::write(p, a);
  E::write(p + kStride, b);
  E::write(p + 2 * kStride, c);
  E::write(p + 3 * kStride, d);
  return !E::kFloating;
}

template <class E, Op kOp, bool kPrescaled>
std::size_t fold_loop(const FoldJob& job) noexcept {
  using Acc = typename E::Acc;
  constexpr std::size_t kLanes = E::kLanes;
  constexpr std::size_t kStride = kLanes * E::kBytes;  // bytes in memory of one register of accumulators
  const Finish<E> finish(job);
  Acc prescale{};
  if constexpr (kPrescaled) prescale = E::splat(job.prescale);
  const auto read = [&prescale](const char* p) __attribute__((always_inline)) {
    if constexpr (kPrescaled) return E::read(p) * prescale;
    (void)prescale;
    return E::read(p);
  };
  const auto input = [&job](std::size_t k) __attribute__((always_inline)) {
    return static_cast<const char*>(job.inputs[k]);
  };
  char* const out = static_cast<char*>(job.out);
  const std::size_t inputs = job.input_count;
  const std::size_t bytes = job.count / kLanes * kStride;
  std::size_t at = 0;
  bool finite = true;
  for (; at + 4 * kStride <= bytes; at += 4 * kStride) {
    const char* p = input(0) + at;
    Acc a = read(p), b = read(p + kStride), c = read(p + 2 * kStride), d = read(p + 3 * kStride);
    for (std::size_t k = 1; k < inputs; ++k) {
      p = input(k) + at;
      a = E::template combine<kOp>(a, read(p));
      b = E::template combine<kOp>(b, read(p + kStride));
      c = E::template combine<kOp>(c, read(p + 2 * kStride));
      d = E::template combine<kOp>(d, read(p + 3 * kStride));
    }
    finite &= write_four<E>(out + at, finish.scaled(a), finish.scaled(b), finish.scaled(c), finish.scaled(d));
    if constexpr (E::kIntegral) {
      if (job.divide) divide<typename E::Element>(out + at, 4 * kLanes, job.divisor);
    }
  }
  for (; at < bytes; at += kStride) {
    Acc a = read(input(0) + at);
    for (std::size_t k = 1; k < inputs; ++k) a = E::template combine<kOp>(a, read(input(k) + at));
    a = finish.scaled(a);
    if constexpr (E::kFloating) finite &= !any_top(mark(a, E::kLeast));
    E::write(out + at, a);
    if constexpr (E::kIntegral) {
      if (job.divide) divide<typename E::Element>(out + at, kLanes, job.divisor);
    }
  }
  *job.suspect = !finite;
  return job.count / kLanes * kLanes;
}

template <class E, Op kOp>
std::size_t fold_scaled(const FoldJob& job) noexcept {
  if constexpr (E::kFloating) {
    if (job.prescaled) return fold_loop<E, kOp, true>(job);
  }
  return fold_loop<E, kOp, false>(job);
}

template <class E>
std::size_t fold_op(const FoldJob& job) noexcept {
  switch (job.op) {
    case Op::sum:
      return fold_scaled<E, Op::sum>(job);
    case Op::prod:
      return fold_scaled<E, Op::prod>(job);
    case Op::min:
      return fold_scaled<E, Op::min>(job);
    case Op::max:
      return fold_scaled<E, Op::max>(job);
    case Op::avg:
      break;  // arrives as a sum with a divisor
  }
  return 0;
}

std::size_t fold_registers(const FoldJob& job) noexcept {
  switch (job.dtype) {
    case DType::fp64:
      return fold_op<Fp64>(job);
    case DType::fp32:
      return fold_op<Fp32>(job);
    case DType::fp16:
      return fold_op<Fp16>(job);
    case DType::bf16:
      return fold_op<Bf16>(job);
    case DType::fp8_e4m3:
      return fold_op<E4m3>(job);
    case DType::fp8_e5m2:
      return fold_op<E5m2>(job);
    case DType::int8:
      return fold_op<Integer<std::int8_t, std::uint8_t>>(job);
    case DType::int16:
      return fold_op<Integer<std::int16_t, std::uint16_t>>(job);
    case DType::int32:
      return fold_op<Integer<std::int32_t, std::uint32_t>>(job);
    case DType::int64:
      return fold_op<Integer<std::int64_t, std::uint64_t>>(job);
    case DType::uint8:
      return fold_op<Integer<std::uint8_t, std::uint8_t>>(job);
    case DType::uint16:
      return fold_op<Integer<std::uint16_t, std::uint16_t>>(job);
    case DType::uint32:
      return fold_op<Integer<std::uint32_t, std::uint32_t>>(job);
    case DType::uint64:
      return fold_op<Integer<std::uint64_t, std::uint64_t>>(job);
    case DType::boolean:
      return fold_op<Boolean>(job);
    case DType::complex64:
    case DType::complex128:
      break;  // arrive as fp32 and fp64
  }
  return 0;
}

template <class To, class From>
std::size_t convert_loop(void* dst, const void* src, std::size_t count) noexcept {
  constexpr std::size_t kLanes = kLanes32;
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
  std::size_t done = 0;
  for (; done + kLanes <= count; done += kLanes) {
    To::write(to + done * To::kBytes, From::read(from + done * From::kBytes));
  }
  return done;
}

std::size_t convert_registers(DType dst_type, void* dst, DType src_type, const void* src, std::size_t count) noexcept {
  if (src_type == DType::fp32) {
    if (dst_type == DType::fp16) return convert_loop<Fp16, Fp32>(dst, src, count);
    if (dst_type == DType::bf16) return convert_loop<Bf16, Fp32>(dst, src, count);
    if (dst_type == DType::fp8_e4m3) return convert_loop<E4m3, Fp32>(dst, src, count);
    if (dst_type == DType::fp8_e5m2) return convert_loop<E5m2, Fp32>(dst, src, count);
  } else if (dst_type == DType::fp32) {
    if (src_type == DType::fp16) return convert_loop<Fp32, Fp16>(dst, src, count);
    if (src_type == DType::bf16) return convert_loop<Fp32, Bf16>(dst, src, count);
    if (src_type == DType::fp8_e4m3) return convert_loop<Fp32, E4m3>(dst, src, count);
    if (src_type == DType::fp8_e5m2) return convert_loop<Fp32, E5m2>(dst, src, count);
  }
  return 0;
}

}  // namespace

const Target REDSUM_KERNELS_TARGET{REDSUM_KERNELS_NAME, fold_registers, convert_registers, nonfinite_registers};

}  // namespace redsum::kernels
