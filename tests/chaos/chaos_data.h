// SPDX-License-Identifier: Apache-2.0
// What the ranks of a chaos job contribute to collective number `sequence`, and what must come out of it: the left fold
// in rank order, in plain scalar code that shares nothing with the library.
//
// Every rank reads one table of values whose sum depends on the order of addition, from a place that depends on the
// sequence and the rank. So a fold in another order, a contribution that is lost, counted twice or of another call, and
// a chunk in the wrong place all give other bits, while an expectation costs one period of the table whatever the
// count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/redsum.h"

namespace redsum::chaos {

struct Shape {
  redsum_dtype dtype;
  redsum_op op;
  std::size_t count;
  bool in_place;
};

// A step is one call of each, all in flight together. The counts are odd: the last chunk is never full.
inline constexpr Shape kShapes[] = {
    {REDSUM_FP32, REDSUM_SUM, (1 << 19) + 3, true},
    {REDSUM_BF16, REDSUM_AVG, (1 << 18) + 5, true},
    {REDSUM_FP32, REDSUM_SUM, 1025, true},
    {REDSUM_FP64, REDSUM_SUM, (1 << 15) + 1, false},
    {REDSUM_FP32, REDSUM_PROD, (1 << 16) + 7, true},
    {REDSUM_BF16, REDSUM_SUM, 3001, false},
    {REDSUM_FP64, REDSUM_AVG, 333, true},
    {REDSUM_INT64, REDSUM_SUM, (1 << 14) + 9, false},
};

// The values of one element type.
class Pattern {
 public:
  virtual ~Pattern() = default;
  virtual void fill(std::vector<std::byte>& data, std::size_t count, std::uint64_t sequence, int rank) const = 0;
  // Where `data` is not what `rank` contributed (fill), or not the result of `size` ranks; nothing where it is.
  virtual std::optional<std::string> changed(const std::vector<std::byte>& data, std::size_t count,
                                             std::uint64_t sequence, int rank) const = 0;
  virtual std::optional<std::string> wrong(const std::vector<std::byte>& data, std::size_t count,
                                           std::uint64_t sequence, int size, redsum_op op) const = 0;
};

std::unique_ptr<Pattern> make_pattern(redsum_dtype dtype);  // of a dtype that kShapes names

}  // namespace redsum::chaos
