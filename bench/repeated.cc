// SPDX-License-Identifier: Apache-2.0
#include "bench/repeated.h"

#include <algorithm>
#include <cstring>

namespace perf {

void fill_repeated(const std::vector<std::byte>& period, void* buffer, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(buffer);
  for (std::size_t done = 0; done < bytes; done += period.size()) {
    std::memcpy(out + done, period.data(), std::min(period.size(), bytes - done));
  }
}

std::size_t count_differing(const std::vector<std::byte>& period, std::size_t element_bytes, const void* buffer,
                            std::size_t first, std::size_t count) {
  const auto* in = static_cast<const std::byte*>(buffer);
  const std::size_t period_count = period.size() / element_bytes;
  std::size_t wrong = 0;
  for (std::size_t done = 0, part = 0; done < count; done += part) {
    const std::size_t phase = (first + done) % period_count;
    part = std::min(period_count - phase, count - done);
    const std::byte* expected = period.data() + phase * element_bytes;
    if (std::memcmp(in + done * element_bytes, expected, part * element_bytes) == 0) continue;
    for (std::size_t i = 0; i < part; ++i) {
      const std::size_t at = i * element_bytes;
      if (std::memcmp(in + done * element_bytes + at, expected + at, element_bytes) != 0) ++wrong;
    }
  }
  return wrong;
}

}  // namespace perf
