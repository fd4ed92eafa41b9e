// SPDX-License-Identifier: Apache-2.0
// The vectors that fold_simd.cc computes with: for every element type, how a register of elements is read into
// accumulators, combined and written back. Compiled once per instruction set, so everything here is inlined or has
// internal linkage: an out-of-line copy with AVX-512 in it could be the one that the linker keeps for everybody.
//
// Vectors are the compilers' own (attribute vector_size). Conversions are put together from integer operations, except
// those of fp16 where there are instructions for them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/simd_width.h"

namespace redsum::kernels {
namespace {

REDSUM_INLINE Float splat_bits(std::uint32_t bits) {
  return (Float)(Bits{} + bits);
}

// Arithmetic of fp32 and fp64 accumulators.
template <class T, class UInt>
struct FloatMath {
  using Acc = Vector<T, kLanesOf<T>>;
  using AccBits = Vector<UInt, kLanesOf<T>>;
  static constexpr std::size_t kLanes = kLanesOf<T>;
  static constexpr bool kFloating = true;
  static constexpr bool kIntegral = false;
  static REDSUM_INLINE Acc splat(double x) { return Acc{} + static_cast<T>(x); }

  template <Op kOp>
  static REDSUM_INLINE Acc combine(Acc a, Acc b) {
    if constexpr (kOp == Op::sum) return a + b;
    if constexpr (kOp == Op::prod) return a * b;
    Acc picked;
    if constexpr (kOp == Op::min) picked = a < b ? a : b;
    if constexpr (kOp == Op::max) picked = a > b ? a : b;
    // Equal values differ in no bit, except zeros in their sign.
    AccBits same;
    if constexpr (kOp == Op::min) same = (AccBits)a | (AccBits)b;
    if constexpr (kOp == Op::max) same = (AccBits)a & (AccBits)b;
    picked = (a == b) ? (Acc)same : picked;
    return (a == a) ? picked : a;  // a NaN in b was picked above: every comparison with it is false
  }
};

struct Fp32 : FloatMath<float, std::uint32_t> {
  static constexpr std::size_t kBytes = 4;
  static REDSUM_INLINE Acc read(const char* p) { return load<Acc>(p); }
  static REDSUM_INLINE void write(char* p, Acc v) { store(p, (v == v) ? v : splat_bits(0x7FC00000U)); }
};

struct Fp64 : FloatMath<double, std::uint64_t> {
  static constexpr std::size_t kBytes = 8;
  static REDSUM_INLINE Acc read(const char* p) { return load<Acc>(p); }
  static REDSUM_INLINE void write(char* p, Acc v) {
    const AccBits nan = AccBits{} + 0x7FF8000000000000U;
    store(p, (v == v) ? v : (Acc)nan);
  }
};

struct Bf16 : FloatMath<float, std::uint32_t> {
  static constexpr std::size_t kBytes = 2;
  static REDSUM_INLINE Acc read(const char* p) { return (Acc)(widen(p, std::uint16_t{}) << 16); }
  static REDSUM_INLINE void write(char* p, Acc v) {
    const Bits bits = (Bits)v;
    Bits rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    rounded = (v == v) ? rounded : Bits{} + 0x7FC0U;
    narrow(p, rounded, std::uint16_t{});
  }
};

// Formats with fewer exponent bits than fp32, by integer operations. kMax is the magnitude that larger finite values
// become, kInfinity the one for infinities; magnitudes above kLastNumber are NaN.
template <class Storage, int kMantissa, int kBias, std::uint32_t kMax, std::uint32_t kInfinity,
          std::uint32_t kLastNumber, std::uint32_t kQuietNan>
struct SmallFloat : FloatMath<float, std::uint32_t> {
  static constexpr std::size_t kBytes = sizeof(Storage);
  static constexpr int kSignBit = static_cast<int>(sizeof(Storage)) * 8 - 1;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr bool kHasInfinity = (kInfinity & ((1U << kMantissa) - 1U)) == 0;
  static constexpr std::uint32_t kRebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  static constexpr std::uint32_t kMinNormal = kRebias + (1U << 23);
  static constexpr std::uint32_t kStep = static_cast<std::uint32_t>(128 - kBias - kMantissa)
                                         << 23;  // one subnormal step

  static REDSUM_INLINE Acc read(const char* p) {
    const Bits encoded = widen(p, Storage{});
    const Bits magnitude = encoded & ((1U << kSignBit) - 1U);
    Bits result = (magnitude << kShift) + kRebias;
    const Float subnormal = __builtin_convertvector((Signed)magnitude, Float) * splat_bits(kStep);
    result = ((Signed)magnitude < (1 << kMantissa)) ? (Bits)subnormal : result;
    if constexpr (kHasInfinity) result = (magnitude == kInfinity) ? Bits{} + 0x7F800000U : result;
    result = ((Signed)magnitude > static_cast<std::int32_t>(kLastNumber)) ? Bits{} + 0x7FC00000U : result;
    return (Acc)(result | ((encoded >> kSignBit) << 31));
  }

  static REDSUM_INLINE void write(char* p, Acc v) {
    const Bits bits = (Bits)v;
    const Bits magnitude = bits & 0x7FFFFFFFU;
    Bits result = (magnitude - kRebias + ((1U << (kShift - 1)) - 1U) + ((magnitude >> kShift) & 1U)) >> kShift;
    // Below the normal range the addition of 2^23 steps leaves the rounded number of steps in the low bits.
    constexpr std::uint32_t kAnchor = kStep + (23U << 23);
    const Bits steps = (Bits)((Float)magnitude + splat_bits(kAnchor)) - kAnchor;
    result = ((Signed)magnitude < static_cast<std::int32_t>(kMinNormal)) ? steps : result;
    result = ((Signed)result > static_cast<std::int32_t>(kMax)) ? Bits{} + kMax : result;
    result = (magnitude == 0x7F800000U) ? Bits{} + kInfinity : result;
    result |= (bits >> 31) << kSignBit;
    result = (v == v) ? result : Bits{} + kQuietNan;
    narrow(p, result, Storage{});
  }
};

using E4m3 = SmallFloat<std::uint8_t, 3, 7, 0x7E, 0x7E, 0x7E, 0x7F>;
using E5m2 = SmallFloat<std::uint8_t, 2, 15, 0x7B, 0x7C, 0x7C, 0x7E>;

#if defined(REDSUM_KERNELS_AVX512) || defined(REDSUM_KERNELS_AVX2) || defined(REDSUM_KERNELS_NEON)
struct Fp16 : FloatMath<float, std::uint32_t> {
  static constexpr std::size_t kBytes = 2;
  static REDSUM_INLINE Acc read(const char* p) {
#if defined(REDSUM_KERNELS_AVX512)
    return (Acc)_mm512_cvtph_ps(load<__m256i>(p));
#elif defined(REDSUM_KERNELS_AVX2)
    return (Acc)_mm256_cvtph_ps(load<__m128i>(p));
#else
    return (Acc)vcvt_f32_f16(vreinterpret_f16_u16(load<uint16x4_t>(p)));
#endif
  }
  static REDSUM_INLINE void write(char* p, Acc v) {
    v = (v == v) ? v : splat_bits(0x7FC00000U);
#if defined(REDSUM_KERNELS_AVX512)
    store(p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(REDSUM_KERNELS_AVX2)
    store(p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
    store(p, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v)));
#endif
  }
};
#else
using Fp16 = SmallFloat<std::uint16_t, 10, 15, 0x7C00, 0x7C00, 0x7C00, 0x7E00>;
#endif

// Integers: sums and products in the unsigned type, where wrapping is defined.
template <class T, class UInt>
struct Integer {
  using Element = T;
  using Acc = Vector<T, kLanesOf<T>>;
  using Wrapping = Vector<UInt, kLanesOf<T>>;
  static constexpr std::size_t kLanes = kLanesOf<T>;
  static constexpr std::size_t kBytes = sizeof(T);
  static constexpr bool kFloating = false;
  static constexpr bool kIntegral = true;
  static REDSUM_INLINE Acc read(const char* p) { return load<Acc>(p); }
  static REDSUM_INLINE void write(char* p, Acc v) { store(p, v); }

  template <Op kOp>
  static REDSUM_INLINE Acc combine(Acc a, Acc b) {
    if constexpr (kOp == Op::sum) return (Acc)((Wrapping)a + (Wrapping)b);
    if constexpr (kOp == Op::prod) return (Acc)((Wrapping)a * (Wrapping)b);
    if constexpr (kOp == Op::min) return a < b ? a : b;
    if constexpr (kOp == Op::max) return a > b ? a : b;
  }
};

// Accumulated as all ones for true.
struct Boolean {
  using Acc = Vector<std::uint8_t, kRegisterBytes>;
  static constexpr std::size_t kLanes = kRegisterBytes;
  static constexpr std::size_t kBytes = 1;
  static constexpr bool kFloating = false;
  static constexpr bool kIntegral = false;
  static REDSUM_INLINE Acc read(const char* p) { return (Acc)(load<Acc>(p) != 0); }
  static REDSUM_INLINE void write(char* p, Acc v) { store(p, v & 1); }

  template <Op kOp>
  static REDSUM_INLINE Acc combine(Acc a, Acc b) {
    if constexpr (kOp == Op::sum || kOp == Op::max) return a | b;
    return a & b;
  }
};

}  // namespace
}  // namespace redsum::kernels
