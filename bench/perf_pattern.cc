// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_pattern.h"

#include <algorithm>
#include <cstring>

#include "bench/perf_reference.h"

namespace perf {

Pattern::Pattern(const PatternSpec& spec, std::size_t max_count)
    : rank_(spec.rank),
      element_bytes_(redsum_dtype_bytes(spec.dtype)),
      period_(std::clamp<std::size_t>(max_count, 1, kPatternPeriod)),
      inputs_(spec.ranks, std::vector<std::byte>(period_ * element_bytes_)),
      reduction_(period_ * element_bytes_) {
  std::vector<std::byte> contributions(spec.ranks * element_bytes_);
  for (std::size_t i = 0; i < period_; ++i) {
    for (std::size_t r = 0; r < spec.ranks; ++r) {
      std::byte* contribution = contributions.data() + r * element_bytes_;
      make_contribution(spec.dtype, spec.op, r, spec.ranks, i, contribution);
      std::memcpy(inputs_[r].data() + i * element_bytes_, contribution, element_bytes_);
    }
    reference_fold(spec.dtype, spec.wire, spec.op, contributions.data(), spec.ranks,
                   reduction_.data() + i * element_bytes_);
  }
}

void Pattern::fill_input(void* buffer, std::size_t count) const {
  fill_repeated(inputs_[rank_], buffer, count * element_bytes_);
}

}  // namespace perf
