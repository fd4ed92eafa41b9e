// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/schedule.h"

#include <numeric>

namespace redsum::wire {

std::vector<std::uint16_t> make_schedule(std::span<const std::uint32_t> weights) {
  std::uint32_t divisor = 0;
  for (const std::uint32_t w : weights) divisor = std::gcd(divisor, w);
  std::vector<std::uint16_t> schedule;
  if (divisor == 0) return schedule;
  std::int64_t total = 0;
  for (const std::uint32_t w : weights) total += w / divisor;
  // Smooth weighted round-robin: each turn everybody gains its weight, the richest is taken and pays the total.
  std::vector<std::int64_t> credit(weights.size(), 0);
  for (std::int64_t turn = 0; turn < total; ++turn) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      credit[i] += weights[i] / divisor;
      if (credit[i] > credit[best]) best = i;
    }
    credit[best] -= total;
    schedule.push_back(static_cast<std::uint16_t>(best));
  }
  return schedule;
}

}  // namespace redsum::wire
