// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target on every file of a folder, on prefixes of it and on copies with a few bytes changed. Usage:
// replay_X DIR
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "transport/base/prng.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  constexpr std::size_t kPrefixes = 100, kCopies = 200;
  if (argc != 2) return std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]), 2;
  std::error_code error;
  std::size_t files = 0, runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1], error)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
    std::vector<std::uint8_t> bytes(text.begin(), text.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    for (std::size_t i = 0; i < kPrefixes; ++i) {  // copies, so that a sanitizer sees their end
      const std::vector<std::uint8_t> prefix(bytes.begin(),
                                             bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() * i / kPrefixes));
      LLVMFuzzerTestOneInput(prefix.data(), prefix.size());
    }
    redsum::Prng random(bytes.size());
    for (std::size_t i = 0; i < kCopies && !bytes.empty(); ++i) {
      std::vector<std::uint8_t> copy = bytes;
      for (std::uint64_t changes = random.between(1, 4); changes > 0; --changes) {
        const std::uint64_t at = random.below(copy.size());
        copy[at] = static_cast<std::uint8_t>(random.next());
      }
      LLVMFuzzerTestOneInput(copy.data(), copy.size());
    }
    ++files;
    runs += 1 + kPrefixes + kCopies;
  }
  std::printf("%zu inputs of %zu files in %s\n", runs, files, argv[1]);
  if (files == 0) std::fprintf(stderr, "no input in %s %s\n", argv[1], error.message().c_str());
  return files == 0 ? 1 : 0;
}
