// SPDX-License-Identifier: Apache-2.0
// How many elements are NaN or infinite. With it one can tell on which step, and on which rank, numbers went bad.
#pragma once
#include <cstddef>
#include <span>

#include "kernels/fold.h"

namespace redsum::kernels {

// Elements that are NaN or infinite. A complex one counts once, whether one part is or both; integers and bool have
// none, e4m3fn has NaN alone. `data` needs the alignment of its element only. Any thread, no allocation, no lock.
std::size_t count_nonfinite(DType type, const void* data, std::size_t count) noexcept;

// As fold(), and count_nonfinite() of the result. It is read again only where the fold has met something that may be
// non-finite; otherwise the answer costs an addition per register.
std::size_t fold_counting(const FoldSpec& spec, void* out, std::span<const void* const> inputs,
                          std::size_t count) noexcept;

}  // namespace redsum::kernels
