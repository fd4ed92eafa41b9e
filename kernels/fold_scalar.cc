// SPDX-License-Identifier: Apache-2.0
// The reference: one element at a time, written to be read. It also folds what is left over after the vector code.
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/float_formats.h"
#include "kernels/target.h"

namespace redsum::kernels {
namespace {

template <class T>
T load(const void* buffer, std::size_t i) noexcept {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* buffer, std::size_t i, T value) noexcept {
  std::memcpy(static_cast<char*>(buffer) + i * sizeof(T), &value, sizeof(T));
}

// How an element type is read into its accumulator and written back.
template <class T>
struct Plain {
  using Acc = T;
  static T read(const void* buffer, std::size_t i) noexcept { return load<T>(buffer, i); }
  static void write(void* buffer, std::size_t i, T value) noexcept { store(buffer, i, value); }
};

struct Fp32 : Plain<float> {
  static void write(void* buffer, std::size_t i, float value) noexcept {
    store(buffer, i, std::isnan(value) ? std::bit_cast<float>(kFp32QuietNan) : value);
  }
};

struct Fp64 : Plain<double> {
  static void write(void* buffer, std::size_t i, double value) noexcept {
    store(buffer, i, std::isnan(value) ? std::bit_cast<double>(kFp64QuietNan) : value);
  }
};

template <const FloatFormat& kFormat, class Storage>
struct Narrow {
  using Acc = float;
  static float read(const void* buffer, std::size_t i) noexcept { return widen(kFormat, load<Storage>(buffer, i)); }
  static void write(void* buffer, std::size_t i, float value) noexcept {
    store(buffer, i, static_cast<Storage>(narrow(kFormat, value)));
  }
};
using Fp16 = Narrow<kFp16, std::uint16_t>;
using Bf16 = Narrow<kBf16, std::uint16_t>;
using E4m3 = Narrow<kFp8E4m3, std::uint8_t>;
using E5m2 = Narrow<kFp8E5m2, std::uint8_t>;

struct Boolean {
  using Acc = bool;
  static bool read(const void* buffer, std::size_t i) noexcept { return load<std::uint8_t>(buffer, i) != 0; }
  static void write(void* buffer, std::size_t i, bool value) noexcept {
    store(buffer, i, static_cast<std::uint8_t>(value));
  }
};

template <class T>
T combine_float(Op op, T a, T b) noexcept {
  if (op == Op::sum) return a + b;
  if (op == Op::prod) return a * b;
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  if (a == b) return (std::signbit(a) == (op == Op::min)) ? a : b;  // equal, so it matters for zeros only
  return ((a < b) == (op == Op::min)) ? a : b;
}

template <class T>
T combine_integer(Op op, T a, T b) noexcept {
  if (op == Op::min) return a < b ? a : b;
  if (op == Op::max) return a < b ? b : a;
  // Unsigned and at least 64 bits wide: wraps without undefined behaviour, also where int is wider than T.
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  return static_cast<T>(op == Op::sum ? x + y : x * y);
}

template <class T>
T combine(Op op, T a, T b) noexcept {
  if constexpr (std::is_same_v<T, bool>) {
    return (op == Op::sum || op == Op::max) ? (a || b) : (a && b);
  } else if constexpr (std::is_floating_point_v<T>) {
    return combine_float(op, a, b);
  } else {
    return combine_integer(op, a, b);
  }
}

template <class T>
T finish(const FoldJob& job, T acc) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    if (job.divide) acc = acc / static_cast<T>(job.divisor);
    if (job.postscaled) acc = acc * static_cast<T>(job.postscale);
  } else if constexpr (!std::is_same_v<T, bool>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    if (job.divide) acc = static_cast<T>(static_cast<Wide>(acc) / static_cast<Wide>(job.divisor));
  }
  return acc;
}

template <class Element>
void fold_elements(const FoldJob& job, std::size_t begin) noexcept {
  using Acc = typename Element::Acc;
  const auto contribution = [&job](std::size_t k, std::size_t i) {
    Acc value = Element::read(job.inputs[k], i);
    if constexpr (std::is_floating_point_v<Acc>) {
      if (job.prescaled) value = value * static_cast<Acc>(job.prescale);
    }
    return value;
  };
  for (std::size_t i = begin; i < job.count; ++i) {
    Acc acc = contribution(0, i);
    for (std::size_t k = 1; k < job.input_count; ++k) acc = combine(job.op, acc, contribution(k, i));
    Element::write(job.out, i, finish(job, acc));
  }
}

template <class To, class From>
void convert_elements(void* dst, const void* src, std::size_t begin, std::size_t count) noexcept {
  for (std::size_t i = begin; i < count; ++i) To::write(dst, i, From::read(src, i));
}

std::size_t fold_all(const FoldJob& job) noexcept {
  fold_scalar(job, 0);
  return job.count;
}

std::size_t convert_all(DType dst_type, void* dst, DType src_type, const void* src, std::size_t count) noexcept {
  convert_scalar(dst_type, dst, src_type, src, 0, count);
  return count;
}

}  // namespace

void fold_scalar(const FoldJob& job, std::size_t begin) noexcept {
  switch (job.dtype) {
    case DType::fp64:
      return fold_elements<Fp64>(job, begin);
    case DType::fp32:
      return fold_elements<Fp32>(job, begin);
    case DType::fp16:
      return fold_elements<Fp16>(job, begin);
    case DType::bf16:
      return fold_elements<Bf16>(job, begin);
    case DType::fp8_e4m3:
      return fold_elements<E4m3>(job, begin);
    case DType::fp8_e5m2:
      return fold_elements<E5m2>(job, begin);
    case DType::int8:
      return fold_elements<Plain<std::int8_t>>(job, begin);
    case DType::int16:
      return fold_elements<Plain<std::int16_t>>(job, begin);
    case DType::int32:
      return fold_elements<Plain<std::int32_t>>(job, begin);
    case DType::int64:
      return fold_elements<Plain<std::int64_t>>(job, begin);
    case DType::uint8:
      return fold_elements<Plain<std::uint8_t>>(job, begin);
    case DType::uint16:
      return fold_elements<Plain<std::uint16_t>>(job, begin);
    case DType::uint32:
      return fold_elements<Plain<std::uint32_t>>(job, begin);
    case DType::uint64:
      return fold_elements<Plain<std::uint64_t>>(job, begin);
    case DType::boolean:
      return fold_elements<Boolean>(job, begin);
    case DType::complex64:
    case DType::complex128:
      return;  // arrive as fp32 and fp64
  }
}

void convert_scalar(DType dst_type, void* dst, DType src_type, const void* src, std::size_t begin,
                    std::size_t count) noexcept {
  if (src_type == DType::fp32) {
    if (dst_type == DType::fp16) convert_elements<Fp16, Fp32>(dst, src, begin, count);
    if (dst_type == DType::bf16) convert_elements<Bf16, Fp32>(dst, src, begin, count);
    if (dst_type == DType::fp8_e4m3) convert_elements<E4m3, Fp32>(dst, src, begin, count);
    if (dst_type == DType::fp8_e5m2) convert_elements<E5m2, Fp32>(dst, src, begin, count);
  } else {
    if (src_type == DType::fp16) convert_elements<Fp32, Fp16>(dst, src, begin, count);
    if (src_type == DType::bf16) convert_elements<Fp32, Bf16>(dst, src, begin, count);
    if (src_type == DType::fp8_e4m3) convert_elements<Fp32, E4m3>(dst, src, begin, count);
    if (src_type == DType::fp8_e5m2) convert_elements<Fp32, E5m2>(dst, src, begin, count);
  }
}

namespace {

// least: the least magnitude that is no finite number; parts: how many of these make an element.
template <class UInt>
std::size_t nonfinite_elements(const void* data, std::size_t begin, std::size_t count, UInt least,
                               std::size_t parts = 1) noexcept {
  std::size_t found = 0;
  for (std::size_t i = begin; i < count; ++i) {
    bool finite = true;
    for (std::size_t part = 0; part < parts; ++part) {
      const auto code = load<UInt>(data, i * parts + part);
      finite = finite && static_cast<UInt>(code & static_cast<UInt>(~UInt{0}) >> 1) < least;
    }
    found += finite ? 0 : 1;
  }
  return found;
}

std::size_t nonfinite_all(DType type, const void* data, std::size_t count, std::size_t* found) noexcept {
  *found = nonfinite_scalar(type, data, 0, count);
  return count;
}

}  // namespace

std::size_t nonfinite_scalar(DType type, const void* data, std::size_t begin, std::size_t count) noexcept {
  constexpr std::uint32_t kInfinity32 = 0x7F800000U;
  constexpr std::uint64_t kInfinity64 = 0x7FF0000000000000U;
  const auto after = [](const FloatFormat& format) { return format.max_finite + 1; };
  switch (type) {
    case DType::fp64:
      return nonfinite_elements(data, begin, count, kInfinity64);
    case DType::fp32:
      return nonfinite_elements(data, begin, count, kInfinity32);
    case DType::fp16:
      return nonfinite_elements(data, begin, count, static_cast<std::uint16_t>(after(kFp16)));
    case DType::bf16:
      return nonfinite_elements(data, begin, count, static_cast<std::uint16_t>(after(kBf16)));
    case DType::fp8_e4m3:
      return nonfinite_elements(data, begin, count, static_cast<std::uint8_t>(after(kFp8E4m3)));
    case DType::fp8_e5m2:
      return nonfinite_elements(data, begin, count, static_cast<std::uint8_t>(after(kFp8E5m2)));
    case DType::complex64:
      return nonfinite_elements(data, begin, count, kInfinity32, 2);
    case DType::complex128:
      return nonfinite_elements(data, begin, count, kInfinity64, 2);
    default:
      return 0;
  }
}

const Target kScalarTarget{"scalar", fold_all, convert_all, nonfinite_all};

}  // namespace redsum::kernels
