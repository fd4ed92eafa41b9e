// SPDX-License-Identifier: Apache-2.0
// A fold that travels: each rank adds its contribution to the partial result that arrived from the rank before, and the
// last one finishes. begin_partial(), extend_partial() for every contribution in the middle and finish_partial() over
// n >= 2 contributions give, bit for bit, what fold() gives for the same contributions in that order with
// `contributors` n, on every instruction set and however the elements are cut into calls.
#pragma once
#include <cstddef>

#include "kernels/fold.h"

namespace redsum::kernels {

// As partial_dtype(type, op, prescale) of dtype.h.
DType partial_dtype(const FoldSpec& spec) noexcept;

// Whether begin_partial() is a mere copy of the bits (not for bool, which it normalises). Callers then send the input
// itself as the first partial result and save that copy.
bool begins_as_is(const FoldSpec& spec) noexcept;

// For all three: every rank passes the same spec, and `count` is of elements. Each pointer needs the alignment of its
// element only. Any thread, no allocation, no lock. A spec that fold_defined() refuses is a bug of the caller and
// aborts the process. Where contributions are neither converted nor prescaled, extending and finishing are one fold()
// over the whole range; otherwise they go through a few KiB of stack.

// The first contribution as a partial result. The two must not overlap.
void begin_partial(const FoldSpec& spec, void* partial, const void* contribution, std::size_t count) noexcept;

// out = partial op contribution. `out` may be the very same pointer as `partial`, otherwise nothing may overlap.
void extend_partial(const FoldSpec& spec, void* out, const void* partial, const void* contribution,
                    std::size_t count) noexcept;

// The last contribution, then AVG's division, postscale and one rounding to spec.dtype. `out` may be the very same
// pointer as `partial` or as `contribution`, otherwise nothing may overlap. AVG needs spec.contributors: how many came
// before cannot be seen here, and 0 aborts the process. Returns count_nonfinite() of the result.
std::size_t finish_partial(const FoldSpec& spec, void* out, const void* partial, const void* contribution,
                           std::size_t count) noexcept;

}  // namespace redsum::kernels
