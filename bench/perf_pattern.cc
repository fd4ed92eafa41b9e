// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_pattern.h"

#include <algorithm>
#include <cstring>

#include "bench/perf_reference.h"

namespace perf {

Pattern::Pattern(const PatternSpec& spec, std::size_t max_count)
    : element_bytes_(redsum_dtype_bytes(spec.dtype)),
      period_(std::clamp<std::size_t>(max_count, 1, kPatternPeriod)),
      spec_(spec),
      inputs_(spec.ranks, std::vector<std::byte>(period_ * element_bytes_)),
      reductions_(spec.ranks) {
  for (std::size_t i = 0; i < period_; ++i) {
    for (std::size_t r = 0; r < spec.ranks; ++r) {
      make_contribution(spec.dtype, spec.op, r, spec.ranks, i, inputs_[r].data() + i * element_bytes_);
    }
  }
}

const std::vector<std::byte>& Pattern::reduction(std::size_t start) {
  std::vector<std::byte>& made = reductions_[start];
  if (!made.empty()) return made;
  made.resize(period_ * element_bytes_);
  std::vector<std::byte> contributions(spec_.ranks * element_bytes_);
  for (std::size_t i = 0; i < period_; ++i) {
    for (std::size_t k = 0; k < spec_.ranks; ++k) {
      const std::vector<std::byte>& input = inputs_[(start + k) % spec_.ranks];
      std::memcpy(contributions.data() + k * element_bytes_, input.data() + i * element_bytes_, element_bytes_);
    }
    reference_fold(spec_.dtype, spec_.wire, spec_.op, contributions.data(), spec_.ranks,
                   made.data() + i * element_bytes_);
  }
  return made;
}

void Pattern::fill_input(void* buffer, std::size_t count) const {
  fill_repeated(inputs_[spec_.rank], buffer, count * element_bytes_);
}

}  // namespace perf
