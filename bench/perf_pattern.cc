// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_pattern.h"

#include <algorithm>
#include <cstring>

#include "bench/perf_reference.h"

namespace perf {

Pattern::Pattern(const PatternSpec& spec, std::size_t max_count)
    : element_bytes_(redsum_dtype_bytes(spec.dtype)),
      period_(std::clamp<std::size_t>(max_count, 1, kPatternPeriod)),
      input_(period_ * element_bytes_),
      expected_(period_ * element_bytes_) {
  std::vector<std::byte> contributions(spec.ranks * element_bytes_);
  for (std::size_t i = 0; i < period_; ++i) {
    for (std::size_t r = 0; r < spec.ranks; ++r) {
      make_contribution(spec.dtype, spec.op, r, spec.ranks, i, contributions.data() + r * element_bytes_);
    }
    std::memcpy(input_.data() + i * element_bytes_, contributions.data() + spec.rank * element_bytes_, element_bytes_);
    reference_fold(spec.dtype, spec.wire, spec.op, contributions.data(), spec.ranks,
                   expected_.data() + i * element_bytes_);
  }
}

void Pattern::fill_input(void* buffer, std::size_t count) const {
  auto* out = static_cast<std::byte*>(buffer);
  for (std::size_t done = 0; done < count; done += period_) {
    std::memcpy(out + done * element_bytes_, input_.data(), std::min(period_, count - done) * element_bytes_);
  }
}

std::size_t Pattern::count_wrong(const void* buffer, std::size_t count) const {
  const auto* in = static_cast<const std::byte*>(buffer);
  std::size_t wrong = 0;
  for (std::size_t done = 0; done < count; done += period_) {
    const std::size_t part = std::min(period_, count - done);
    if (std::memcmp(in + done * element_bytes_, expected_.data(), part * element_bytes_) == 0) continue;
    for (std::size_t i = 0; i < part; ++i) {
      const std::size_t at = i * element_bytes_;
      if (std::memcmp(in + done * element_bytes_ + at, expected_.data() + at, element_bytes_) != 0) ++wrong;
    }
  }
  return wrong;
}

}  // namespace perf
