// SPDX-License-Identifier: Apache-2.0
// Counting elements that are NaN or infinite, by their exponent bits. Included by fold_simd.cc only; see simd_vectors.h
// for why everything is inlined or has internal linkage.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"
#include "kernels/simd_width.h"

namespace redsum::kernels {
namespace {

// kLeast: the least magnitude that is no finite number.
template <class UInt, UInt kLeast>
struct NonFinite {
  using V = Vector<UInt, kLanesOf<UInt>>;
  static constexpr UInt kMagnitude = static_cast<UInt>(static_cast<UInt>(~UInt{0}) >> 1);
  static constexpr UInt kTop = static_cast<UInt>(kMagnitude + 1U);
  static constexpr std::size_t kBlock = 16;  // registers

  // The top bit of a lane is set where its element is one of them.
  static REDSUM_INLINE V marks(const char* p) {
    return (load<V>(p) & (V{} + kMagnitude)) + (V{} + static_cast<UInt>(kTop - kLeast));
  }
  static REDSUM_INLINE bool any(V marked) {
    marked &= V{} + kTop;
    std::uint64_t words[kRegisterBytes / 8], all = 0;
    __builtin_memcpy(words, &marked, sizeof words);
    for (const std::uint64_t word : words) all |= word;
    return all != 0;
  }
  static REDSUM_INLINE std::size_t hits(const char* p, std::size_t registers) {
    V sums{};  // of at most kBlock ones
    for (std::size_t i = 0; i < registers; ++i) sums += marks(p + i * kRegisterBytes) >> (8 * sizeof(UInt) - 1);
    std::size_t total = 0;
    for (int lane = 0; lane < kLanesOf<UInt>; ++lane) total += static_cast<std::size_t>(sums[lane]);
    return total;
  }
  static std::size_t count(const void* data, std::size_t count, std::size_t* found) noexcept {
    const char* p = static_cast<const char*>(data);
    std::size_t registers = count / kLanesOf<UInt>;
    std::size_t total = 0;
    for (; registers >= kBlock; registers -= kBlock, p += kBlock * kRegisterBytes) {
      V seen{};
      for (std::size_t i = 0; i < kBlock; ++i) seen |= marks(p + i * kRegisterBytes);
      if (any(seen)) total += hits(p, kBlock);
    }
    *found = total + hits(p, registers);
    return count / kLanesOf<UInt> * kLanesOf<UInt>;
  }
};

std::size_t nonfinite_registers(DType type, const void* data, std::size_t count, std::size_t* found) noexcept {
  switch (type) {
    case DType::fp64:
      return NonFinite<std::uint64_t, 0x7FF0000000000000U>::count(data, count, found);
    case DType::fp32:
      return NonFinite<std::uint32_t, 0x7F800000U>::count(data, count, found);
    case DType::fp16:
      return NonFinite<std::uint16_t, 0x7C00U>::count(data, count, found);
    case DType::bf16:
      return NonFinite<std::uint16_t, 0x7F80U>::count(data, count, found);
    case DType::fp8_e4m3:
      return NonFinite<std::uint8_t, 0x7FU>::count(data, count, found);
    case DType::fp8_e5m2:
      return NonFinite<std::uint8_t, 0x7CU>::count(data, count, found);
    default:
      return 0;  // has none, or arrives as fp32 and fp64
  }
}

}  // namespace
}  // namespace redsum::kernels
