// SPDX-License-Identifier: Apache-2.0
// A small seeded generator (splitmix64, public domain algorithm by S. Vigna) whose sequence is the same on every
// compiler and machine, which std::uniform_* does not promise. For simulation, tests and jitter; never for secrets.
#pragma once
#include <cstdint>

namespace redsum {

class Prng {
 public:
  explicit Prng(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound); 0 for bound 0. The bias of the remainder does not matter here.
  std::uint64_t below(std::uint64_t bound) noexcept { return bound == 0 ? 0 : next() % bound; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept { return low + below(high - low + 1); }
  bool chance(std::uint64_t percent) noexcept { return below(100) < percent; }

 private:
  std::uint64_t state_;
};

}  // namespace redsum
