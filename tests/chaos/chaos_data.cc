// SPDX-License-Identifier: Apache-2.0
#include "tests/chaos/chaos_data.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace redsum::chaos {
namespace {

constexpr std::size_t kPeriod = 1021;  // a prime: no multiple of it is a whole number of chunks

std::uint64_t mix(std::uint64_t state) {
  state = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
  state = (state ^ (state >> 27)) * 0x94d049bb133111ebu;
  return state ^ (state >> 31);
}

std::size_t place(std::uint64_t sequence, int rank) {
  return mix((sequence + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(rank)) % kPeriod;
}

// Numbers that swallow each other when they are added. None is 0 or so large that four of them overflow when
// multiplied.
double touchy(std::size_t i) {
  constexpr double kSizes[] = {1e8, 1, -1e8, 0.5, 3, -2.25, 65504, 1e-3, -7, 1e4};
  const std::uint64_t drawn = mix(i + 1);
  return kSizes[drawn % std::size(kSizes)] * (1 + static_cast<double>((drawn >> 32) % 1000) / 999);
}

// How a stored value becomes the accumulator's, and back, rounded once.
template <typename T>
struct Format {
  using Stored = T;
  using Sum = T;
  static Sum wide(Stored value) { return value; }
  static Stored round(Sum value) { return value; }
};

struct Bf16 {
  using Stored = std::uint16_t;
  using Sum = float;
  static Sum wide(Stored value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16); }
  static Stored round(Sum value) {  // to nearest even; there are no NaNs here
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<Stored>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
};

template <typename F>
class PatternOf final : public Pattern {
  using Stored = typename F::Stored;
  using Sum = typename F::Sum;

 public:
  PatternOf() : table_(kPeriod) {
    for (std::size_t i = 0; i < kPeriod; ++i) table_[i] = F::round(static_cast<Sum>(touchy(i)));
  }

  void fill(std::vector<std::byte>& data, std::size_t count, std::uint64_t sequence, int rank) const override {
    data.resize(count * sizeof(Stored));
    repeat(period_of(sequence, rank), data);
  }

  std::optional<std::string> changed(const std::vector<std::byte>& data, std::size_t count, std::uint64_t sequence,
                                     int rank) const override {
    return difference(period_of(sequence, rank), data, count);
  }

  std::optional<std::string> wrong(const std::vector<std::byte>& data, std::size_t count, std::uint64_t sequence,
                                   int size, redsum_op op) const override {
    std::vector<Stored> expected(kPeriod);
    for (std::size_t i = 0; i < kPeriod; ++i) {
      Sum sum = F::wide(value(sequence, 0, i));
      for (int rank = 1; rank < size; ++rank) {
        const Sum next = F::wide(value(sequence, rank, i));
        sum = op == REDSUM_PROD ? sum * next : sum + next;
      }
      expected[i] = F::round(op == REDSUM_AVG ? sum / static_cast<Sum>(size) : sum);
    }
    return difference(expected, data, count);
  }

 private:
  Stored value(std::uint64_t sequence, int rank, std::size_t i) const {
    return table_[(i + place(sequence, rank)) % kPeriod];
  }

  std::vector<Stored> period_of(std::uint64_t sequence, int rank) const {
    std::vector<Stored> period = table_;
    std::rotate(period.begin(), period.begin() + static_cast<std::ptrdiff_t>(place(sequence, rank)), period.end());
    return period;
  }

  static void repeat(const std::vector<Stored>& period, std::vector<std::byte>& data) {
    const std::size_t bytes = period.size() * sizeof(Stored);
    for (std::size_t at = 0; at < data.size(); at += bytes)
      std::memcpy(&data[at], period.data(), std::min(bytes, data.size() - at));
  }

  static std::optional<std::string> difference(const std::vector<Stored>& period, const std::vector<std::byte>& data,
                                               std::size_t count) {
    for (std::size_t at = 0; at < count; at += period.size()) {
      const std::size_t some = std::min(period.size(), count - at);
      if (std::memcmp(&data[at * sizeof(Stored)], period.data(), some * sizeof(Stored)) == 0) continue;
      for (std::size_t i = 0; i < some; ++i) {
        Stored got;
        std::memcpy(&got, &data[(at + i) * sizeof got], sizeof got);
        if (std::memcmp(&got, &period[i], sizeof got) != 0)
          return "element " + std::to_string(at + i) + " of " + std::to_string(count) + " is " +
                 std::to_string(F::wide(got)) + ", not " + std::to_string(F::wide(period[i]));
      }
    }
    return std::nullopt;
  }

  std::vector<Stored> table_;
};

}  // namespace

std::unique_ptr<Pattern> make_pattern(redsum_dtype dtype) {
  switch (dtype) {
    case REDSUM_FP64:
      return std::make_unique<PatternOf<Format<double>>>();
    case REDSUM_BF16:
      return std::make_unique<PatternOf<Bf16>>();
    case REDSUM_INT64:
      return std::make_unique<PatternOf<Format<std::int64_t>>>();
    default:
      return std::make_unique<PatternOf<Format<float>>>();
  }
}

}  // namespace redsum::chaos
