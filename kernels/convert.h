// SPDX-License-Identifier: Apache-2.0
// Conversions between a buffer's element type and the type that travels on the wire.
#pragma once
#include <cstddef>

#include "kernels/dtype.h"

namespace redsum::kernels {

// Defined: fp32 to and from fp16, bf16 and the two fp8 types, and every type to itself.
constexpr bool convert_defined(DType dst, DType src) noexcept {
  constexpr auto kNarrow = [](DType t) { return t >= DType::fp16 && t <= DType::fp8_e5m2; };
  if (static_cast<int>(dst) >= kDTypeCount || static_cast<int>(src) >= kDTypeCount) return false;
  return dst == src || (dst == DType::fp32 && kNarrow(src)) || (src == DType::fp32 && kNarrow(dst));
}

// Converts `count` elements. Rounds to nearest even, once, as fold() does: overflow gives an infinity in fp16 and bf16
// and saturates in fp8; NaN becomes the positive quiet NaN of `dst_type`. A type to itself copies bits. The buffers
// must not overlap and need the alignment of their element only. Same bits on every instruction set; any thread. A pair
// that convert_defined() refuses is a bug of the caller and aborts the process.
void convert(DType dst_type, void* dst, DType src_type, const void* src, std::size_t count) noexcept;

}  // namespace redsum::kernels
