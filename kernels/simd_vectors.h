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

// The top bit of a lane is set where the magnitude is `least` or more.
REDSUM_INLINE Bits mark(Float v, std::uint32_t least) {
  return ((Bits)v & 0x7FFFFFFFU) + (0x80000000U - least);
}
REDSUM_INLINE Bits64 mark(Double v, std::uint64_t least) {
  return ((Bits64)v & 0x7FFFFFFFFFFFFFFFU) + (0x8000000000000000U - least);
}
// Whether all magnitudes are below `least`, which is 2 or more. Mostly they are below 2, which one bit of their
// exponents tells; the integer tests are those that cost the same for subnormal numbers.
template <class Acc, class UInt>
REDSUM_INLINE bool all_below(UInt least, Acc a, Acc b, Acc c, Acc d) {
  using Mask = decltype(mark(a, least));
  const Mask together = ((Mask)a | (Mask)b) | ((Mask)c | (Mask)d);
  if (__builtin_expect(!any_top(together + together), 1)) return true;
  return !any_top((mark(a, least) | mark(b, least)) | (mark(c, least) | mark(d, least)));
}

// Arithmetic of fp32 and fp64 accumulators. Every type has
// - kLeast, the least magnitude of an accumulator that may not become a finite element,
// - write(), and write_number() for smaller ones.
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
  static constexpr std::uint32_t kLeast = 0x7F800000U;
  static REDSUM_INLINE Acc read(const char* p) { return load<Acc>(p); }
  static REDSUM_INLINE void write(char* p, Acc v) { store(p, (v == v) ? v : splat_bits(0x7FC00000U)); }
  static REDSUM_INLINE void write_number(char* p, Acc v) { store(p, v); }
};

struct Fp64 : FloatMath<double, std::uint64_t> {
  static constexpr std::size_t kBytes = 8;
  static constexpr std::uint64_t kLeast = 0x7FF0000000000000U;
  static REDSUM_INLINE Acc read(const char* p) { return load<Acc>(p); }
  static REDSUM_INLINE void write(char* p, Acc v) {
    const AccBits nan = AccBits{} + 0x7FF8000000000000U;
    store(p, (v == v) ? v : (Acc)nan);
  }
  static REDSUM_INLINE void write_number(char* p, Acc v) { store(p, v); }
};

struct Bf16 : FloatMath<float, std::uint32_t> {
  static constexpr std::size_t kBytes = 2;
  static constexpr std::uint32_t kLeast = 0x7F7F8000U;  // rounds to an infinity
  static REDSUM_INLINE Acc read(const char* p) { return (Acc)(widen(p, std::uint16_t{}) << 16); }
  // The element, in the upper half.
  static REDSUM_INLINE Bits rounded(Acc v) { return (Bits)v + 0x7FFFU + (((Bits)v >> 16) & 1U); }
  static REDSUM_INLINE void write(char* p, Acc v) {
    narrow(p, (v == v) ? rounded(v) >> 16 : Bits{} + 0x7FC0U, std::uint16_t{});
  }
  static REDSUM_INLINE void write_number(char* p, Acc v) { narrow(p, rounded(v) >> 16, std::uint16_t{}); }
};

constexpr std::uint32_t kLeastHalf = 0x477FF000U;  // 65520 rounds to an infinity in fp16; fp8 saturates

// Formats with fewer exponent bits than fp32, by integer operations. kMax is the magnitude that larger finite values
// become, kInfinity the one for infinities; magnitudes above kLastNumber are NaN.
template <class Storage, int kMantissa, int kBias, std::uint32_t kMax, std::uint32_t kInfinity,
          std::uint32_t kLastNumber, std::uint32_t kQuietNan>
struct SmallFloat : FloatMath<float, std::uint32_t> {
  static constexpr std::uint32_t kLeast = sizeof(Storage) == 2 ? kLeastHalf : 0x7F800000U;
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
  static REDSUM_INLINE void write_number(char* p, Acc v) { write(p, v); }
};

using PortableE4m3 = SmallFloat<std::uint8_t, 3, 7, 0x7E, 0x7E, 0x7E, 0x7F>;
using PortableE5m2 = SmallFloat<std::uint8_t, 2, 15, 0x7B, 0x7C, 0x7C, 0x7E>;

#if defined(REDSUM_HALF_INSTRUCTIONS)  // see simd_width.h
struct Fp16 : FloatMath<float, std::uint32_t> {
  static constexpr std::size_t kBytes = 2;
  static constexpr std::uint32_t kLeast = kLeastHalf;
  static REDSUM_INLINE Acc read(const char* p) { return float_from_half(load<Half>(p)); }
  static REDSUM_INLINE void write(char* p, Acc v) { store(p, half_from_float((v == v) ? v : splat_bits(0x7FC00000U))); }
  static REDSUM_INLINE void write_number(char* p, Acc v) { store(p, half_from_float(v)); }
};

// With its fields moved into place an e4m3fn value is an fp16 value 2^8 times smaller; its NaN would be 480.
struct E4m3 : PortableE4m3 {
  static REDSUM_INLINE Acc read(const char* p) {
    const Half bytes = half_from_bytes(p);
    const Acc value = float_from_half(((bytes & 0x7F) << 7) | ((bytes & 0x80) << 8)) * splat(256);
    return ((Bits)value & 0x7FFFFFFFU) == 0x43F00000U ? splat_bits(0x7FC00000U) : value;
  }
};

// e5m2 is the upper half of an fp16 value.
struct E5m2 : PortableE5m2 {
  static REDSUM_INLINE Acc read(const char* p) { return float_from_half(half_from_bytes(p) << 8); }
};
#else
using Fp16 = SmallFloat<std::uint16_t, 10, 15, 0x7C00, 0x7C00, 0x7C00, 0x7E00>;
using E4m3 = PortableE4m3;
using E5m2 = PortableE5m2;
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
