// SPDX-License-Identifier: Apache-2.0
// The arithmetic contract a second time, written to share nothing with kernels/: formats are tables of all their
// values, rounding is a search for the nearest one, integers are residues. Slow and plain.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "kernels/fold.h"

namespace redsum::kernels::oracle {

class Format {
 public:
  Format(int bits, int exponent_bits, int bias, std::uint32_t first_nan, std::uint32_t infinity, bool saturates,
         std::uint32_t quiet_nan)
      : bits_(bits), first_nan_(first_nan), infinity_(infinity), saturates_(saturates), quiet_nan_(quiet_nan) {
    const int mantissa_bits = bits - 1 - exponent_bits;
    // One value past the largest finite one, to round to when it is nearer.
    const std::uint32_t past = infinity != 0 ? infinity : first_nan;
    for (std::uint32_t m = 0; m <= past; ++m) {
      const int exponent = static_cast<int>(m >> mantissa_bits);
      const double fraction = static_cast<double>(m & ((1U << mantissa_bits) - 1)) / (1U << mantissa_bits);
      values_.push_back(exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
    }
  }

  double decode(std::uint32_t code) const {
    const std::uint32_t magnitude = code & ((1U << (bits_ - 1)) - 1);
    const double sign = (code >> (bits_ - 1)) != 0 ? -1.0 : 1.0;
    if (magnitude >= first_nan_) return std::nan("");
    if (infinity_ != 0 && magnitude == infinity_) return sign * HUGE_VAL;
    return sign * values_[magnitude];
  }

  std::uint32_t encode(double value) const {
    if (std::isnan(value)) return quiet_nan_;
    const std::uint32_t sign = std::signbit(value) ? 1U << (bits_ - 1) : 0;
    const std::uint32_t largest = static_cast<std::uint32_t>(values_.size()) - 2;
    if (std::isinf(value)) return sign | (infinity_ != 0 ? infinity_ : largest);
    const std::uint32_t code = nearest(std::abs(value));
    return sign | (code > largest && saturates_ ? largest : code);
  }

  std::uint32_t quiet_nan() const { return quiet_nan_; }

 private:
  std::uint32_t nearest(double value) const {
    const auto above = std::lower_bound(values_.begin(), values_.end(), value);
    if (above == values_.end()) return static_cast<std::uint32_t>(values_.size()) - 1;
    const auto code = static_cast<std::uint32_t>(above - values_.begin());
    if (code == 0 || *above == value) return code;
    const double up = *above - value;
    const double down = value - values_[code - 1];
    if (up == down) return code % 2 == 0 ? code : code - 1;
    return up < down ? code : code - 1;
  }

  int bits_;
  std::uint32_t first_nan_, infinity_;
  bool saturates_;
  std::uint32_t quiet_nan_;
  std::vector<double> values_;  // by magnitude
};

inline const Format& format(DType type) {
  static const Format fp16(16, 5, 15, 0x7C01, 0x7C00, false, 0x7E00);
  static const Format bf16(16, 8, 127, 0x7F81, 0x7F80, false, 0x7FC0);
  static const Format e4m3(8, 4, 7, 0x7F, 0, true, 0x7F);
  static const Format e5m2(8, 5, 15, 0x7D, 0x7C, true, 0x7E);
  if (type == DType::fp16) return fp16;
  if (type == DType::bf16) return bf16;
  return type == DType::fp8_e4m3 ? e4m3 : e5m2;
}

inline bool is_narrow(DType type) {
  return type >= DType::fp16 && type <= DType::fp8_e5m2;
}
inline bool is_signed_integer(DType type) {
  return type >= DType::int8 && type <= DType::int64;
}

// The type that a complex number's parts have; any other type is its own part.
inline DType part(DType type) {
  if (type == DType::complex64) return DType::fp32;
  return type == DType::complex128 ? DType::fp64 : type;
}

template <class Real>
Real fold_reals(const FoldSpec& spec, std::span<const Real> values) {
  const auto scaled = [](Real x, double factor) {
    volatile Real product = x;  // no compiler may fold the steps into one
    if (static_cast<Real>(factor) != Real{1}) product = product * static_cast<Real>(factor);
    return Real{product};
  };
  volatile Real acc = scaled(values[0], spec.prescale);
  for (std::size_t k = 1; k < values.size(); ++k) {
    const Real a = acc;
    const Real b = scaled(values[k], spec.prescale);
    if (spec.op == Op::sum || spec.op == Op::avg) acc = a + b;
    if (spec.op == Op::prod) acc = a * b;
    if (spec.op != Op::min && spec.op != Op::max) continue;
    const bool nan = std::isnan(a) || std::isnan(b);
    const bool a_first = a < b || (a == b && std::signbit(a) && !std::signbit(b));
    acc = nan ? static_cast<Real>(NAN) : a_first == (spec.op == Op::min) ? a : b;
  }
  if (spec.op == Op::avg) acc = acc / static_cast<Real>(spec.contributors);
  return scaled(acc, spec.postscale);
}

inline std::uint64_t fold_integers(const FoldSpec& spec, std::span<const std::uint64_t> codes) {
  const int bits = static_cast<int>(dtype_bytes(spec.dtype)) * 8;
  const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  const std::uint64_t sign = is_signed_integer(spec.dtype) ? std::uint64_t{1} << (bits - 1) : 0;
  std::uint64_t acc = codes[0] & mask;
  for (std::size_t k = 1; k < codes.size(); ++k) {
    const std::uint64_t x = codes[k] & mask;
    if (spec.op == Op::sum || spec.op == Op::avg) acc = (acc + x) & mask;
    if (spec.op == Op::prod) acc = (acc * x) & mask;
    const bool less = (x ^ sign) < (acc ^ sign);  // flipping the sign bit orders signed codes as unsigned ones
    if ((spec.op == Op::min && less) || (spec.op == Op::max && !less)) acc = x;
  }
  if (spec.op == Op::avg) {
    const bool negative = (acc & sign) != 0;
    const std::uint64_t magnitude = (negative ? (~acc + 1) & mask : acc) / spec.contributors;
    acc = (negative ? ~magnitude + 1 : magnitude) & mask;
  }
  return acc;
}

// Code of the result of one element (of one part of a complex one) from the codes of its contributions.
inline std::uint64_t fold_codes(FoldSpec spec, std::span<const std::uint64_t> codes) {
  const DType type = part(spec.dtype);
  if (spec.contributors == 0) spec.contributors = static_cast<std::uint32_t>(codes.size());
  const bool arithmetic = codes.size() > 1 || spec.prescale != 1.0 || spec.postscale != 1.0 ||
                          (spec.op == Op::avg && spec.contributors != 1);
  if (type == DType::boolean) {
    const auto is_true = [](std::uint64_t code) { return (code & 0xFF) != 0; };
    const bool any = spec.op == Op::sum || spec.op == Op::max;
    return any ? std::any_of(codes.begin(), codes.end(), is_true) : std::all_of(codes.begin(), codes.end(), is_true);
  }
  if (!arithmetic) return codes[0];
  if (!dtype_is_float(type)) return fold_integers(spec, codes);
  if (type == DType::fp64) {
    std::vector<double> values;
    for (const std::uint64_t code : codes) values.push_back(std::bit_cast<double>(code));
    const double result = fold_reals<double>(spec, values);
    return std::isnan(result) ? 0x7FF8000000000000U : std::bit_cast<std::uint64_t>(result);
  }
  std::vector<float> values;
  for (const std::uint64_t code : codes) {
    values.push_back(type == DType::fp32 ? std::bit_cast<float>(static_cast<std::uint32_t>(code))
                                         : static_cast<float>(format(type).decode(static_cast<std::uint32_t>(code))));
  }
  const float result = fold_reals<float>(spec, values);
  if (type == DType::fp32) return std::isnan(result) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(result);
  return format(type).encode(result);
}

}  // namespace redsum::kernels::oracle
