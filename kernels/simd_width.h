// SPDX-License-Identifier: Apache-2.0
// The vector types of an instruction set, and the steps between its element widths: 8 or 16 bits in memory, 32 bits in
// the accumulator. __builtin_convertvector says the same everywhere, but g++ 12 takes it apart lane by lane.
// Included by simd_vectors.h only; see there for why everything is inlined or has internal linkage.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(REDSUM_KERNELS_AVX512) || defined(REDSUM_KERNELS_AVX2) || defined(__SSE2__)
#include <immintrin.h>
#elif defined(REDSUM_KERNELS_NEON)
#include <arm_neon.h>
#endif

#define REDSUM_INLINE inline __attribute__((always_inline))

namespace redsum::kernels {
namespace {

#if defined(REDSUM_KERNELS_AVX512)
constexpr int kRegisterBytes = 64;
#elif defined(REDSUM_KERNELS_AVX2)
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif

template <class T, int kLanes>
struct VectorOf {
  typedef T type __attribute__((vector_size(sizeof(T) * kLanes)));
};
template <class T, int kLanes>
using Vector = typename VectorOf<T, kLanes>::type;

template <class T>
constexpr int kLanesOf = kRegisterBytes / static_cast<int>(sizeof(T));

constexpr int kLanes32 = kLanesOf<float>;
using Float = Vector<float, kLanes32>;
using Bits = Vector<std::uint32_t, kLanes32>;
using Signed = Vector<std::int32_t, kLanes32>;
using Half = Vector<std::uint16_t, kLanes32>;  // the bits of fp16 values

template <class V>
REDSUM_INLINE V load(const char* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}

template <class V>
REDSUM_INLINE void store(char* p, V v) {
  __builtin_memcpy(p, &v, sizeof(v));
}

using Double = Vector<double, kLanesOf<double>>;
using Bits64 = Vector<std::uint64_t, kLanesOf<std::uint64_t>>;

// Whether the top bit of some lane is set.
#if defined(REDSUM_KERNELS_AVX512)
REDSUM_INLINE bool any_top(Bits v) {
  return _mm512_movepi32_mask((__m512i)v) != 0;
}
REDSUM_INLINE bool any_top(Bits64 v) {
  return _mm512_movepi64_mask((__m512i)v) != 0;
}
#elif defined(REDSUM_KERNELS_AVX2)
REDSUM_INLINE bool any_top(Bits v) {
  return _mm256_movemask_ps((__m256)v) != 0;
}
REDSUM_INLINE bool any_top(Bits64 v) {
  return _mm256_movemask_pd((__m256d)v) != 0;
}
#else
template <class V>
REDSUM_INLINE bool any_top(V v) {
  v >>= 8 * sizeof(v[0]) - 1;
  std::uint64_t words[kRegisterBytes / 8], all = 0;
  __builtin_memcpy(words, &v, sizeof words);
  for (const std::uint64_t word : words) all |= word;
  return all != 0;
}
#endif

// kLanes32 unsigned elements of 8 or 16 bits to 32 bits and back; what is narrowed fits. Where fp16 has instructions
// (REDSUM_HALF_INSTRUCTIONS): bytes to 16 bits, and the conversions from and to fp16.
#if defined(REDSUM_KERNELS_AVX512)
REDSUM_INLINE Bits widen(const char* p, std::uint16_t) {
  return (Bits)_mm512_cvtepu16_epi32(load<__m256i>(p));
}
REDSUM_INLINE Bits widen(const char* p, std::uint8_t) {
  return (Bits)_mm512_cvtepu8_epi32(load<__m128i>(p));
}
REDSUM_INLINE void narrow(char* p, Bits v, std::uint16_t) {
  store(p, _mm512_cvtepi32_epi16((__m512i)v));
}
REDSUM_INLINE void narrow(char* p, Bits v, std::uint8_t) {
  store(p, _mm512_cvtepi32_epi8((__m512i)v));
}
REDSUM_INLINE Half half_from_bytes(const char* p) {
  return (Half)_mm256_cvtepu8_epi16(load<__m128i>(p));
}
REDSUM_INLINE Float float_from_half(Half h) {
  return (Float)_mm512_cvtph_ps((__m256i)h);
}
REDSUM_INLINE Half half_from_float(Float v) {
  return (Half)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
}
#define REDSUM_HALF_INSTRUCTIONS
#elif defined(REDSUM_KERNELS_AVX2)
REDSUM_INLINE Bits widen(const char* p, std::uint16_t) {
  return (Bits)_mm256_cvtepu16_epi32(load<__m128i>(p));
}
REDSUM_INLINE Bits widen(const char* p, std::uint8_t) {
  return (Bits)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(load<long long>(p)));
}
REDSUM_INLINE __m128i pack16(Bits v) {
  return _mm_packus_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
}
REDSUM_INLINE void narrow(char* p, Bits v, std::uint16_t) {
  store(p, pack16(v));
}
REDSUM_INLINE void narrow(char* p, Bits v, std::uint8_t) {
  store(p, _mm_cvtsi128_si64(_mm_packus_epi16(pack16(v), _mm_setzero_si128())));
}
REDSUM_INLINE Half half_from_bytes(const char* p) {
  return (Half)_mm_cvtepu8_epi16(_mm_cvtsi64_si128(load<long long>(p)));
}
REDSUM_INLINE Float float_from_half(Half h) {
  return (Float)_mm256_cvtph_ps((__m128i)h);
}
REDSUM_INLINE Half half_from_float(Float v) {
  return (Half)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
}
#define REDSUM_HALF_INSTRUCTIONS
#elif defined(__SSE2__)
REDSUM_INLINE Bits widen(const char* p, std::uint16_t) {
  return (Bits)_mm_unpacklo_epi16(_mm_cvtsi64_si128(load<long long>(p)), _mm_setzero_si128());
}
REDSUM_INLINE Bits widen(const char* p, std::uint8_t) {
  const __m128i bytes = _mm_unpacklo_epi8(_mm_cvtsi32_si128(load<int>(p)), _mm_setzero_si128());
  return (Bits)_mm_unpacklo_epi16(bytes, _mm_setzero_si128());
}
// SSE2 packs signed values only: sign-extended from 16 bits they fit.
REDSUM_INLINE void narrow(char* p, Bits v, std::uint16_t) {
  const __m128i extended = (__m128i)((Signed)(v << 16) >> 16);
  store(p, _mm_cvtsi128_si64(_mm_packs_epi32(extended, extended)));
}
REDSUM_INLINE void narrow(char* p, Bits v, std::uint8_t) {
  const __m128i words = _mm_packs_epi32((__m128i)v, (__m128i)v);
  store(p, _mm_cvtsi128_si32(_mm_packus_epi16(words, words)));
}
#elif defined(REDSUM_KERNELS_NEON)
REDSUM_INLINE Bits widen(const char* p, std::uint16_t) {
  return (Bits)vmovl_u16(load<uint16x4_t>(p));
}
REDSUM_INLINE Half half_from_bytes(const char* p) {
  const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(load<std::uint32_t>(p)));
  return (Half)vget_low_u16(vmovl_u8(bytes));
}
REDSUM_INLINE Bits widen(const char* p, std::uint8_t) {
  return (Bits)vmovl_u16((uint16x4_t)half_from_bytes(p));
}
REDSUM_INLINE void narrow(char* p, Bits v, std::uint16_t) {
  store(p, vmovn_u32((uint32x4_t)v));
}
REDSUM_INLINE void narrow(char* p, Bits v, std::uint8_t) {
  const uint16x4_t words = vmovn_u32((uint32x4_t)v);
  store(p, vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words))), 0));
}
REDSUM_INLINE Float float_from_half(Half h) {
  return (Float)vcvt_f32_f16(vreinterpret_f16_u16((uint16x4_t)h));
}
REDSUM_INLINE Half half_from_float(Float v) {
  return (Half)vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)v));
}
#define REDSUM_HALF_INSTRUCTIONS
#else
template <class Storage>
REDSUM_INLINE Bits widen(const char* p, Storage) {
  return __builtin_convertvector(load<Vector<Storage, kLanes32>>(p), Bits);
}
template <class Storage>
REDSUM_INLINE void narrow(char* p, Bits v, Storage) {
  store(p, __builtin_convertvector(v, Vector<Storage, kLanes32>));
}
#endif

}  // namespace
}  // namespace redsum::kernels
