// SPDX-License-Identifier: Apache-2.0
// What a rank's output of one call must be, and where in it: parts lie where they would lie in place, also in memory of
// their own. Pure.
#pragma once
#include <cstddef>
#include <cstdint>

#include "bench/perf_options.h"
#include "bench/perf_order.h"
#include "bench/perf_pattern.h"

namespace perf {

// How many elements of `output` are wrong after a call of `count` elements in all. The pattern knows the rank and how
// many there are; the root is rank 0.
std::size_t count_wrong_of_call(Collective collective, const FoldOrder& order, Pattern& pattern,
                                const std::byte* output, std::uint64_t count);

}  // namespace perf
