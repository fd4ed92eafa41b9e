// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_reference.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace perf {
namespace {

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

// NaN results are the positive quiet NaN of their type.
template <typename F>
F canonical(F value) {
  return std::isnan(value) ? std::numeric_limits<F>::quiet_NaN() : value;
}

template <typename F>
F float_step(redsum_op op, F left, F right) {
  if (op == REDSUM_SUM || op == REDSUM_AVG) return left + right;
  if (op == REDSUM_PROD) return left * right;
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<F>::quiet_NaN();
  const bool left_is_less = left < right || (left == right && std::signbit(left) && !std::signbit(right));
  return (op == REDSUM_MIN) == left_is_less ? left : right;
}

// `element` yields rank r's contribution as F.
template <typename F, typename Element>
F float_fold(redsum_op op, std::size_t ranks, Element element) {
  F sum = element(0);
  for (std::size_t r = 1; r < ranks; ++r) sum = float_step(op, sum, element(r));
  if (op == REDSUM_AVG) sum = sum / static_cast<F>(ranks);
  return canonical(sum);
}

template <typename I>
void int_fold(redsum_op op, const std::byte* in, std::size_t ranks, std::byte* out) {
  using U = std::make_unsigned_t<I>;
  I sum = load<I>(in);
  for (std::size_t r = 1; r < ranks; ++r) {
    const I next = load<I>(in + r * sizeof(I));
    const std::uint64_t a = static_cast<U>(sum);
    const std::uint64_t b = static_cast<U>(next);
    if (op == REDSUM_SUM || op == REDSUM_AVG) sum = static_cast<I>(static_cast<U>(a + b));
    if (op == REDSUM_PROD) sum = static_cast<I>(static_cast<U>(a * b));
    if (op == REDSUM_MIN && next < sum) sum = next;
    if (op == REDSUM_MAX && next > sum) sum = next;
  }
  if (op == REDSUM_AVG) {  // truncated toward zero, in a type that holds any divisor
    if constexpr (std::is_signed_v<I>)
      sum = static_cast<I>(static_cast<std::int64_t>(sum) / static_cast<std::int64_t>(ranks));
    else
      sum = static_cast<I>(static_cast<std::uint64_t>(sum) / ranks);
  }
  store(out, sum);
}

void bool_fold(redsum_op op, const std::byte* in, std::size_t ranks, std::byte* out) {
  bool any = false;
  bool all = true;
  for (std::size_t r = 0; r < ranks; ++r) {
    any = any || in[r] != std::byte{0};
    all = all && in[r] != std::byte{0};
  }
  *out = std::byte{(op == REDSUM_SUM || op == REDSUM_MAX) ? any : all};
}

std::size_t bytes_of(const Format& format) {
  return format.exponent_bits + format.mantissa_bits > 7 ? 2 : 1;
}

std::uint32_t load_bits(const Format& format, const std::byte* at) {
  return bytes_of(format) == 2 ? load<std::uint16_t>(at) : load<std::uint8_t>(at);
}

void store_bits(const Format& format, std::byte* at, std::uint32_t bits) {
  if (bytes_of(format) == 2)
    store(at, static_cast<std::uint16_t>(bits));
  else
    store(at, static_cast<std::uint8_t>(bits));
}

void small_float_fold(const Format& format, redsum_op op, const std::byte* in, std::size_t ranks, std::byte* out) {
  if (ranks == 1 && op != REDSUM_AVG) {
    std::memcpy(out, in, bytes_of(format));
    return;
  }
  const float sum = float_fold<float>(op, ranks, [&](std::size_t r) {
    return static_cast<float>(decode(format, load_bits(format, in + r * bytes_of(format))));
  });
  store_bits(format, out, encode(format, static_cast<double>(sum)));
}

// fp32 data that travels as something smaller: round each contribution, sum in fp32, round the result.
void wire_fold(const Format& wire, redsum_op op, const std::byte* in, std::size_t ranks, std::byte* out) {
  const auto through_wire = [&](float value) {
    return static_cast<float>(decode(wire, encode(wire, static_cast<double>(value))));
  };
  const float sum =
      float_fold<float>(op, ranks, [&](std::size_t r) { return through_wire(load<float>(in + r * sizeof(float))); });
  store(out, through_wire(sum));
}

template <typename F>
void plain_float_fold(redsum_op op, const std::byte* in, std::size_t ranks, std::size_t stride, std::byte* out) {
  if (ranks == 1 && op != REDSUM_AVG) {
    std::memcpy(out, in, sizeof(F));
    return;
  }
  store(out, float_fold<F>(op, ranks, [&](std::size_t r) { return load<F>(in + r * stride); }));
}

}  // namespace

std::optional<Format> format_of(redsum_dtype dtype) {
  switch (dtype) {
    case REDSUM_FP16:
      return Format{5, 10, true, false};
    case REDSUM_BF16:
      return Format{8, 7, true, false};
    case REDSUM_FP8_E4M3:
      return Format{4, 3, false, true};
    case REDSUM_FP8_E5M2:
      return Format{5, 2, true, true};
    default:
      return std::nullopt;
  }
}

double decode(const Format& format, std::uint32_t bits) {
  const std::uint32_t top = (1u << format.exponent_bits) - 1;
  const std::uint32_t exponent = bits >> format.mantissa_bits & top;
  const std::uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const double sign = (bits >> (format.exponent_bits + format.mantissa_bits) & 1) != 0 ? -1.0 : 1.0;
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  if (exponent == top && format.infinities) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == top && mantissa == (1u << format.mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  return sign *
         std::ldexp(mantissa + (1u << format.mantissa_bits), static_cast<int>(exponent) - bias - format.mantissa_bits);
}

std::uint32_t encode(const Format& format, double value) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const std::uint32_t top = (1u << format.exponent_bits) - 1;
  const std::uint32_t mantissa_mask = (1u << format.mantissa_bits) - 1;
  const std::uint32_t infinity = top << format.mantissa_bits;
  const std::uint32_t largest = format.infinities ? infinity - 1 : (infinity | mantissa_mask) - 1;
  const std::uint32_t sign = std::signbit(value) ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  if (std::isnan(value)) {
    return format.infinities ? infinity | 1u << (format.mantissa_bits - 1) : infinity | mantissa_mask;
  }
  if (std::isinf(value)) return sign | (format.infinities ? infinity : largest);
  // The distance between neighbours of |value| in the format, then |value| in whole multiples of it (nearest even).
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  const int lowest = 1 - bias;
  const int quantum = (exponent - 1 < lowest ? lowest : exponent - 1) - format.mantissa_bits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(std::fabs(value), -quantum)), quantum);
  if (rounded > decode(format, largest)) return sign | (format.saturates ? largest : infinity);
  if (rounded < std::ldexp(1.0, lowest)) {
    return sign | static_cast<std::uint32_t>(std::ldexp(rounded, format.mantissa_bits - lowest));
  }
  (void)std::frexp(rounded, &exponent);
  const double mantissa = std::ldexp(rounded, format.mantissa_bits - (exponent - 1));
  return sign | static_cast<std::uint32_t>(exponent - 1 + bias) << format.mantissa_bits |
         (static_cast<std::uint32_t>(mantissa) & mantissa_mask);
}

void reference_fold(redsum_dtype dtype, redsum_dtype wire, redsum_op op, const std::byte* in, std::size_t ranks,
                    std::byte* out) {
  if (dtype == REDSUM_FP32 && wire != dtype) return wire_fold(*format_of(wire), op, in, ranks, out);
  if (const auto format = format_of(dtype)) return small_float_fold(*format, op, in, ranks, out);
  switch (dtype) {
    case REDSUM_FP64:
      return plain_float_fold<double>(op, in, ranks, 8, out);
    case REDSUM_FP32:
      return plain_float_fold<float>(op, in, ranks, 4, out);
    case REDSUM_COMPLEX64:
      for (std::size_t part = 0; part < 8; part += 4) plain_float_fold<float>(op, in + part, ranks, 8, out + part);
      return;
    case REDSUM_COMPLEX128:
      for (std::size_t part = 0; part < 16; part += 8) plain_float_fold<double>(op, in + part, ranks, 16, out + part);
      return;
    case REDSUM_INT8:
      return int_fold<std::int8_t>(op, in, ranks, out);
    case REDSUM_INT16:
      return int_fold<std::int16_t>(op, in, ranks, out);
    case REDSUM_INT32:
      return int_fold<std::int32_t>(op, in, ranks, out);
    case REDSUM_INT64:
      return int_fold<std::int64_t>(op, in, ranks, out);
    case REDSUM_UINT8:
      return int_fold<std::uint8_t>(op, in, ranks, out);
    case REDSUM_UINT16:
      return int_fold<std::uint16_t>(op, in, ranks, out);
    case REDSUM_UINT32:
      return int_fold<std::uint32_t>(op, in, ranks, out);
    case REDSUM_UINT64:
      return int_fold<std::uint64_t>(op, in, ranks, out);
    case REDSUM_BOOL:
      return bool_fold(op, in, ranks, out);
    default:
      return;
  }
}

namespace {

std::uint64_t mix(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// Any magnitude from 2^-3 to 2^spread for sums; for products around 1, so that they stay in every format's range.
double make_value(redsum_op op, std::uint64_t bits, unsigned spread) {
  const double fraction = static_cast<double>(bits >> 11) * 0x1p-53;  // [0, 1)
  const double sign = (bits & 1) != 0 ? -1.0 : 1.0;
  if (op == REDSUM_PROD) return sign * (0.75 + 0.5 * fraction);
  return sign * std::ldexp(1.0 + fraction, static_cast<int>((bits >> 1) % (spread + 4)) - 3);
}

}  // namespace

void make_contribution(redsum_dtype dtype, redsum_op op, std::size_t rank, std::size_t ranks, std::size_t index,
                       std::byte* element) {
  const std::uint64_t bits = mix(mix(index * 0x100000001B3u + rank) + static_cast<std::uint64_t>(dtype));
  const auto format = format_of(dtype);
  double value = make_value(op, bits, dtype == REDSUM_FP8_E4M3 ? 7 : 4);
  const bool real = format || dtype == REDSUM_FP32 || dtype == REDSUM_FP64;
  if (real && (op == REDSUM_MIN || op == REDSUM_MAX)) {
    if (index % 61 == 7) value = (rank + index) % 2 == 0 ? 0.0 : -0.0;
    if (index % 97 == 5 && rank == index % ranks) value = std::numeric_limits<double>::quiet_NaN();
  }
  if (format) return store_bits(*format, element, encode(*format, value));
  switch (dtype) {
    case REDSUM_FP64:
      return store(element, value);
    case REDSUM_FP32:
      return store(element, static_cast<float>(value));
    case REDSUM_COMPLEX64:
      store(element, static_cast<float>(value));
      return store(element + 4, static_cast<float>(make_value(op, mix(bits), 4)));
    case REDSUM_COMPLEX128:
      store(element, value);
      return store(element + 8, make_value(op, mix(bits), 4));
    case REDSUM_BOOL:
      return store(element, static_cast<std::uint8_t>((bits >> 8 & 1) != 0 ? (bits >> 16 & 0xFE) + 1 : 0));
    default:
      std::memcpy(element, &bits, redsum_dtype_bytes(dtype));
      return;
  }
}

}  // namespace perf
