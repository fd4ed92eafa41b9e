// SPDX-License-Identifier: Apache-2.0
// Inputs of a whole buffer and what must come out of it: the crafted elements of perf_reference.h, repeated.
#pragma once
#include <cstddef>
#include <vector>

#include "bench/repeated.h"
#include "client/redsum.h"

namespace perf {

struct PatternSpec {
  redsum_dtype dtype = REDSUM_FP32;
  redsum_dtype wire = REDSUM_FP32;
  redsum_op op = REDSUM_SUM;
  std::size_t rank = 0;
  std::size_t ranks = 1;
};

class Pattern {
 public:
  Pattern(const PatternSpec& spec,
          std::size_t max_count);  // max_count: elements of the longest buffer, to do no more work
  const PatternSpec& spec() const { return spec_; }
  std::size_t element_bytes() const { return element_bytes_; }
  void fill_input(void* buffer, std::size_t count) const;
  // How many elements differ from the exact reduction, whose fold begins at rank `start` and goes on in ascending order
  // modulo the number of ranks. `buffer` holds elements [first, first + count) of the whole.
  std::size_t count_wrong(const void* buffer, std::size_t first, std::size_t count, std::size_t start = 0) {
    return count_differing(reduction(start), element_bytes_, buffer, first, count);
  }
  // The same against what rank `source` contributed.
  std::size_t count_wrong_of(std::size_t source, const void* buffer, std::size_t first, std::size_t count) const {
    return count_differing(inputs_[source], element_bytes_, buffer, first, count);
  }

 private:
  const std::vector<std::byte>& reduction(std::size_t start);
  std::size_t element_bytes_;
  std::size_t period_;
  PatternSpec spec_;
  std::vector<std::vector<std::byte>> inputs_;  // one period of every rank
  std::vector<std::vector<std::byte>>
      reductions_;  // of one period, by the rank that the fold begins at; made when needed
};

}  // namespace perf
