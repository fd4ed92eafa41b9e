// SPDX-License-Identifier: Apache-2.0
// A short list of elements, repeated over a buffer of any length: what goes in, and what must come out. The period is a
// prime, so that buffers of gigabytes are filled and checked at memory speed and no piece of a buffer can stand in for
// another without being noticed.
#pragma once
#include <cstddef>
#include <vector>

namespace perf {

inline constexpr std::size_t kPatternPeriod = 65521;  // elements; no chunk size is a multiple of it

void fill_repeated(const std::vector<std::byte>& period, void* buffer, std::size_t bytes);
// How many elements differ from the period's. `buffer` holds elements [first, first + count) of the whole.
std::size_t count_differing(const std::vector<std::byte>& period, std::size_t element_bytes, const void* buffer,
                            std::size_t first, std::size_t count);

}  // namespace perf
