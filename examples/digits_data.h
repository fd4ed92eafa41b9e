// SPDX-License-Identifier: Apache-2.0
// The UCI handwritten digits: 1,797 images of 8 x 8 pixels, 0 to 16 each, with their labels; and a shuffle that gives
// the same order everywhere.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace digits {

inline constexpr int kPixels = 64;
inline constexpr int kClasses = 10;

struct Data {
  std::vector<float> pixels;  // kPixels per image, 0 to 1; first the images to learn, then those to test
  std::vector<int> labels;
  int train_count = 0;
  int test_count = 0;
  const float* image(int index) const { return pixels.data() + static_cast<std::size_t>(index) * kPixels; }
};

// Reads a (gzipped) CSV file: 64 pixels and a label per line. Shuffles by a fixed seed and keeps the last fifth for the
// test. Returns "" or what is wrong with the file.
std::string load(const std::string& path, Data& data);

// 0 .. count-1 in an order that only depends on the seed.
std::vector<int> shuffled(int count, std::uint64_t seed);

// splitmix64: the next of a sequence of random numbers.
std::uint64_t next_random(std::uint64_t& state);

}  // namespace digits
