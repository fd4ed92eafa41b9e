// SPDX-License-Identifier: Apache-2.0
// The arithmetic of redsum: one call that folds the contributions of a group into a result. The same bits come out on
// every instruction set, for every alignment, and however the elements are cut into calls.
//
// Element i of the result is the left fold of inputs[0][i], inputs[1][i], ... in that order; the first contribution is
// copied, not added to zero. In detail:
// - fp16, bf16, fp8 accumulate in fp32 and are rounded once at the end, to nearest even; fp32 in fp32, fp64 in fp64.
//   Overflow gives an infinity in fp16, bf16, fp32 and fp64. A finite accumulator saturates to the largest finite value
//   in both fp8 types; an infinite one stays infinite in e5m2 and becomes +-448 in e4m3fn, which has no infinity.
// - AVG is one true division of the accumulator by the number of contributors, before rounding.
// - Scale factors are rounded once to the accumulator type; prescale multiplies every contribution, postscale the
//   accumulator after the sum or the division. A factor that is then exactly 1 is not multiplied at all.
// - MIN and MAX propagate NaN and order -0.0 below +0.0.
// - A NaN result is always the positive quiet NaN of its type (fp64 0x7FF8000000000000, fp32 0x7FC00000, fp16 0x7E00,
//   bf16 0x7FC0, e4m3fn 0x7F, e5m2 0x7E): which payload hardware lets through depends on the instruction set.
// - Integers wrap modulo 2^bits. AVG is that wrapped sum divided by the contributors, truncated toward zero.
// - bool: any byte but 0 is true, results are 0 or 1. SUM and MAX are "or", MIN and PROD "and"; AVG is "and" too (the
//   truncated mean: 1 only where every input is true), whatever `contributors` says.
// - Complex numbers: SUM and AVG, on real and imaginary part each.
// - One input, nothing to scale and nothing to divide by (not AVG, or one contributor): a copy of the bits, NaN payload
//   included. bool is normalised even then.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dtype.h"

namespace redsum::kernels {

struct FoldSpec {
  DType dtype = DType::fp32;
  Op op = Op::sum;
  std::uint32_t contributors = 0;  // divisor of AVG; 0: as many as there are inputs
  double prescale = 1.0;
  double postscale = 1.0;
};

// Whether scale factors mean anything for this type: floating point and complex only.
constexpr bool scaling_defined(DType type) noexcept {
  return dtype_is_float(type) || dtype_is_complex(type);
}

// Whether fold() may be called with this spec. What comes from users or peers is checked with it before it gets here.
constexpr bool fold_defined(const FoldSpec& spec) noexcept {
  return reduction_defined(spec.dtype, spec.op) &&
         (scaling_defined(spec.dtype) || (spec.prescale == 1.0 && spec.postscale == 1.0));
}

// Folds `count` elements of every input into `out`. Each pointer needs the alignment of its element only. `out` may be
// the very same pointer as one of the inputs, otherwise it must not overlap any. No input at all leaves `out` as it
// was. Any thread, no allocation, no lock. A spec that fold_defined() refuses is a bug of the caller and aborts the
// process.
void fold(const FoldSpec& spec, void* out, std::span<const void* const> inputs, std::size_t count) noexcept;

}  // namespace redsum::kernels
