// SPDX-License-Identifier: Apache-2.0
#include "transport/base/incarnation.h"

#include <atomic>
#include <chrono>
#include <random>

namespace redsum {

// Nanoseconds since 1970, of which the lowest 12 bits tell processes apart.
Incarnation new_incarnation() {
  constexpr Incarnation kLow = 0xFFF;
  static const Incarnation process = std::random_device()() & kLow;
  static std::atomic<Incarnation> last{0};
  const auto now = static_cast<Incarnation>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
  Incarnation before = last.load(), next;
  do {
    next = (now & ~kLow) | process;
    if (next <= before) next = before + kLow + 1;
  } while (!last.compare_exchange_weak(before, next));
  return next;
}

}  // namespace redsum
