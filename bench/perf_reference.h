// SPDX-License-Identifier: Apache-2.0
// What an all-reduce must return, computed by plain scalar code that shares nothing with the product's kernels: formats
// are decoded and rounded by arithmetic on doubles, not by bit tricks. Pure; used by redsum-perf and its tests.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/redsum.h"

namespace perf {

// A float format of at most 16 bits: value = mantissa x 2^(exponent - bias - mantissa_bits).
struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;  // false: e4m3fn, whose only special value is NaN
  bool saturates;   // finite overflow gives the largest finite value, not an infinity
};
// Nothing for types that are not 16- or 8-bit floats.
std::optional<Format> format_of(redsum_dtype dtype);
double decode(const Format& format, std::uint32_t bits);
std::uint32_t encode(const Format& format, double value);  // nearest even; NaN becomes the positive quiet NaN

// One element of the result: the left fold in rank order of `ranks` contributions that lie one after the other. With a
// `wire` dtype other than `dtype` (fp32 data only) each is rounded to it first, and the result once more.
void reference_fold(redsum_dtype dtype, redsum_dtype wire, redsum_op op, const std::byte* contributions,
                    std::size_t ranks, std::byte* result);

// One contribution, the same in every process and run: element `index` of rank `rank`. Floats have full mantissas, so
// that another order of addition gives other bits; integers fill their type, so that sums wrap; MIN and MAX meet NaN
// and both zeros.
void make_contribution(redsum_dtype dtype, redsum_op op, std::size_t rank, std::size_t ranks, std::size_t index,
                       std::byte* element);

}  // namespace perf
