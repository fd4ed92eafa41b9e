// SPDX-License-Identifier: Apache-2.0
// The element types and reduction operations that redsum knows. The numbers are part of the wire format and of the C
// ABI (redsum.h): append, never renumber.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace redsum {

enum class DType : std::uint8_t {
  fp64 = 0,
  fp32 = 1,
  fp16 = 2,
  bf16 = 3,
  fp8_e4m3 = 4,  // e4m3fn: no infinities
  fp8_e5m2 = 5,
  int8 = 6,
  int16 = 7,
  int32 = 8,
  int64 = 9,
  uint8 = 10,
  uint16 = 11,
  uint32 = 12,
  uint64 = 13,
  boolean = 14,     // one byte, 0 or not 0; results are 0 or 1
  complex64 = 15,   // two fp32
  complex128 = 16,  // two fp64
};
inline constexpr int kDTypeCount = 17;

enum class Op : std::uint8_t { sum = 0, prod = 1, min = 2, max = 3, avg = 4 };
inline constexpr int kOpCount = 5;

// Bytes of one element; 0 for a number that is no dtype.
constexpr std::size_t dtype_bytes(DType type) noexcept {
  constexpr std::uint8_t kBytes[kDTypeCount] = {8, 4, 2, 2, 1, 1, 1, 2, 4, 8, 1, 2, 4, 8, 1, 8, 16};
  const auto i = static_cast<std::size_t>(type);
  return i < kDTypeCount ? kBytes[i] : 0;
}

// Name as users type it: "fp32", "bool", "complex64" ...; "?" for a number that is no dtype.
constexpr std::string_view dtype_name(DType type) noexcept {
  constexpr std::string_view kNames[kDTypeCount] = {"fp64",   "fp32",   "fp16",  "bf16",      "fp8_e4m3",  "fp8_e5m2",
                                                    "int8",   "int16",  "int32", "int64",     "uint8",     "uint16",
                                                    "uint32", "uint64", "bool",  "complex64", "complex128"};
  const auto i = static_cast<std::size_t>(type);
  return i < kDTypeCount ? kNames[i] : std::string_view("?");
}

constexpr std::string_view op_name(Op op) noexcept {
  constexpr std::string_view kNames[kOpCount] = {"sum", "prod", "min", "max", "avg"};
  const auto i = static_cast<std::size_t>(op);
  return i < kOpCount ? kNames[i] : std::string_view("?");
}

constexpr std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (int i = 0; i < kDTypeCount; ++i)
    if (dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  return std::nullopt;
}

constexpr std::optional<Op> op_from_name(std::string_view name) noexcept {
  for (int i = 0; i < kOpCount; ++i)
    if (op_name(static_cast<Op>(i)) == name) return static_cast<Op>(i);
  return std::nullopt;
}

constexpr bool dtype_is_complex(DType type) noexcept {
  return type == DType::complex64 || type == DType::complex128;
}
constexpr bool dtype_is_float(DType type) noexcept {
  return static_cast<std::uint8_t>(type) <= 5;
}

// What the arithmetic contract defines: everything but PROD, MIN and MAX of complex numbers.
constexpr bool reduction_defined(DType type, Op op) noexcept {
  return static_cast<int>(type) < kDTypeCount && static_cast<int>(op) < kOpCount &&
         (!dtype_is_complex(type) || op == Op::sum || op == Op::avg);
}

// Whether a prescale is one, asked of the factor as the accumulator has it: one that rounds to 1 is none.
constexpr bool prescaled(DType type, double prescale) noexcept {
  const bool in_double = type == DType::fp64 || type == DType::complex128;
  return in_double ? prescale != 1.0 : static_cast<float>(prescale) != 1.0F;
}

// The type that folds of some contributions are kept in and travel in until the last one is there: the accumulator,
// which is fp32 for fp16, bf16 and fp8 and the type itself for everything else. MIN and MAX that are not prescaled
// round nothing on the way and keep the type.
constexpr DType partial_dtype(DType type, Op op, double prescale) noexcept {
  if (!dtype_is_float(type) || type == DType::fp64 || type == DType::fp32) return type;
  return (op == Op::min || op == Op::max) && !prescaled(type, prescale) ? type : DType::fp32;
}

}  // namespace redsum
