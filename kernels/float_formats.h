// SPDX-License-Identifier: Apache-2.0
// fp16, bf16 and the two fp8 types to and from fp32, one value at a time: the reference for the vector code. Integer
// arithmetic where rounding happens, so that neither compiler flags nor the floating-point environment matter.
//
// Widening is exact. Narrowing rounds to nearest even with gradual underflow; overflow gives an infinity in fp16 and
// bf16, and saturates to the largest finite value in fp8 (an fp32 infinity stays one in e5m2 and becomes +-448 in
// e4m3fn). Any NaN becomes the positive quiet NaN of the result type.
#pragma once
#include <bit>
#include <cstdint>

namespace redsum::kernels {

// A binary interchange format by its encoding; "magnitude" is all bits but the sign.
struct FloatFormat {
  int bits;
  int mantissa_bits;
  int bias;
  std::uint32_t max_finite;   // magnitude of the largest finite value
  std::uint32_t overflow;     // magnitude that a finite value rounds to when it is too large
  std::uint32_t infinity;     // magnitude that an infinity becomes
  std::uint32_t last_number;  // magnitudes above this one are NaN
  std::uint32_t quiet_nan;
};
inline constexpr FloatFormat kFp16{16, 10, 15, 0x7BFF, 0x7C00, 0x7C00, 0x7C00, 0x7E00};
inline constexpr FloatFormat kBf16{16, 7, 127, 0x7F7F, 0x7F80, 0x7F80, 0x7F80, 0x7FC0};
inline constexpr FloatFormat kFp8E4m3{8, 3, 7, 0x7E, 0x7E, 0x7E, 0x7E, 0x7F};
inline constexpr FloatFormat kFp8E5m2{8, 2, 15, 0x7B, 0x7B, 0x7C, 0x7C, 0x7E};

inline constexpr std::uint32_t kFp32QuietNan = 0x7FC00000U;
inline constexpr std::uint64_t kFp64QuietNan = 0x7FF8000000000000U;

constexpr float widen(const FloatFormat& f, std::uint32_t encoded) noexcept {
  const std::uint32_t magnitude = encoded & ((1U << (f.bits - 1)) - 1);
  const std::uint32_t sign = (encoded >> (f.bits - 1)) << 31;
  if (magnitude > f.last_number) return std::bit_cast<float>(kFp32QuietNan);
  if (magnitude > f.max_finite) return std::bit_cast<float>(sign | 0x7F800000U);
  std::uint32_t result = magnitude << (23 - f.mantissa_bits);
  if (f.bias == 127) return std::bit_cast<float>(sign | result);  // same exponent range, subnormals included
  if ((magnitude >> f.mantissa_bits) == 0) {                      // subnormal here, normal in fp32
    const float step = std::bit_cast<float>(static_cast<std::uint32_t>(128 - f.bias - f.mantissa_bits) << 23);
    result = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * step);
  } else {
    result += static_cast<std::uint32_t>(127 - f.bias) << 23;
  }
  return std::bit_cast<float>(sign | result);
}

constexpr std::uint32_t narrow(const FloatFormat& f, float value) noexcept {
  const auto source = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = source & 0x7FFFFFFFU;
  const std::uint32_t sign = (source >> 31) << (f.bits - 1);
  if (magnitude > 0x7F800000U) return f.quiet_nan;
  if (magnitude == 0x7F800000U) return sign | f.infinity;
  const std::uint32_t min_normal = static_cast<std::uint32_t>(128 - f.bias) << 23;
  std::uint32_t wide = 0;  // the result with `shift` more bits
  int shift = 23 - f.mantissa_bits;
  if (magnitude >= min_normal) {
    wide = magnitude - (static_cast<std::uint32_t>(127 - f.bias) << 23);
  } else {
    const int exponent = static_cast<int>(magnitude >> 23);
    wide = exponent == 0 ? magnitude : ((magnitude & 0x7FFFFFU) | 0x800000U);
    shift += 128 - f.bias - (exponent == 0 ? 1 : exponent);
    if (shift > 31) return sign;  // far below half of the smallest subnormal
  }
  std::uint32_t result = wide >> shift;
  const std::uint32_t rest = wide & ((1U << shift) - 1);
  const std::uint32_t half = 1U << (shift - 1);
  if (rest > half || (rest == half && (result & 1) != 0)) ++result;
  return sign | (result > f.max_finite ? f.overflow : result);
}

constexpr float float_from_fp16(std::uint16_t x) noexcept {
  return widen(kFp16, x);
}
constexpr float float_from_bf16(std::uint16_t x) noexcept {
  return widen(kBf16, x);
}
constexpr float float_from_fp8_e4m3(std::uint8_t x) noexcept {
  return widen(kFp8E4m3, x);
}
constexpr float float_from_fp8_e5m2(std::uint8_t x) noexcept {
  return widen(kFp8E5m2, x);
}

constexpr std::uint16_t fp16_from_float(float x) noexcept {
  return static_cast<std::uint16_t>(narrow(kFp16, x));
}
constexpr std::uint16_t bf16_from_float(float x) noexcept {
  return static_cast<std::uint16_t>(narrow(kBf16, x));
}
constexpr std::uint8_t fp8_e4m3_from_float(float x) noexcept {
  return static_cast<std::uint8_t>(narrow(kFp8E4m3, x));
}
constexpr std::uint8_t fp8_e5m2_from_float(float x) noexcept {
  return static_cast<std::uint8_t>(narrow(kFp8E5m2, x));
}

}  // namespace redsum::kernels
