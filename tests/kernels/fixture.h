// SPDX-License-Identifier: Apache-2.0
// What the fold tests share: buffers with guards, contributions that tell right from wrong, and switching targets.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/fold.h"
#include "tests/kernels/oracle.h"

namespace redsum::kernels {

// Runs on the named target until the end of the scope.
class ForcedIsa {
 public:
  explicit ForcedIsa(std::string_view name) : before_(active_isa()) { EXPECT_TRUE(force_isa(name)) << name; }
  ~ForcedIsa() { force_isa(before_); }
  ForcedIsa(const ForcedIsa&) = delete;
  ForcedIsa& operator=(const ForcedIsa&) = delete;

 private:
  std::string_view before_;
};

// `count` elements that start `offset` elements after an address aligned for any register, guarded on both sides.
class Buffer {
 public:
  Buffer(DType type, std::size_t count, std::size_t offset = 0)
      : bytes_(count * dtype_bytes(type)), front_(kGuard + offset * dtype_bytes(type)) {
    memory_.assign(front_ + bytes_ + 2 * kGuard, kFill);
    base_ = kGuard - reinterpret_cast<std::uintptr_t>(memory_.data()) % kGuard;
    base_ = base_ % kGuard;
  }
  unsigned char* data() { return memory_.data() + base_ + front_; }
  const unsigned char* data() const { return memory_.data() + base_ + front_; }
  std::size_t bytes() const { return bytes_; }
  bool guards_intact() const {
    const auto filled = [](unsigned char c) { return c == kFill; };
    return std::all_of(memory_.data(), data(), filled) &&
           std::all_of(data() + bytes_, memory_.data() + memory_.size(), filled);
  }
  std::string content() const { return {reinterpret_cast<const char*>(data()), bytes_}; }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kFill = 0xA5;
  std::size_t bytes_, front_, base_ = 0;
  std::vector<unsigned char> memory_;
};

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x7FB5D329728EA185U;
  x = (x ^ (x >> 27)) * 0x81DADEF4BC2DD44DU;
  return x ^ (x >> 33);
}

// Code of one element (of one part of a complex one). Small types take any bits; fp32 and fp64 mix special values,
// numbers of one size (so that sums round and cancel), and any bits.
inline std::uint64_t sample_code(DType type, std::uint64_t seed) {
  const std::uint64_t random = mix(seed * 2 + 1);
  const std::uint64_t kind = mix(seed * 2 + 2) % 8;
  constexpr double kReals[] = {0.0, -0.0, HUGE_VAL, -HUGE_VAL, 1.0, -1.0, 3.0e38, 1.4e-45, -1.2e-38, 1e-8, 0.1, 1e308};
  constexpr std::uint32_t kNan32[] = {0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFBFFFFF};
  type = oracle::part(type);
  if (type == DType::boolean) return kind < 4 ? 0 : random;
  if (!dtype_is_float(type)) return random;
  if (type == DType::fp32) {
    if (kind == 0) return kNan32[random % 4];
    if (kind < 3) return std::bit_cast<std::uint32_t>(static_cast<float>(kReals[random % 11]));
    if (kind < 6) return (random & 0x80FFFFFFU) | 0x3F000000U;
    return random & 0xFFFFFFFFU;
  }
  if (type == DType::fp64) {
    if (kind == 0) return (std::uint64_t{kNan32[random % 4]} << 32) | (random >> 32);
    if (kind < 3) return std::bit_cast<std::uint64_t>(kReals[random % 12]);
    if (kind < 6) return (random & 0x801FFFFFFFFFFFFFU) | 0x3FE0000000000000U;
    return random;
  }
  // Half of the small floats near 1, where a handful of them can be summed without overflow.
  const std::uint64_t near_one = type == DType::bf16 ? 0x3F00 : type == DType::fp16 ? 0x3800 : 0x30;
  const std::uint64_t keep = type == DType::bf16 ? 0x80FF : type == DType::fp16 ? 0x8FFF : 0x8F;
  return kind < 4 ? (random & keep) | near_one : random & (dtype_bytes(type) == 2 ? 0xFFFF : 0xFF);
}

inline std::size_t parts(DType type) {
  return dtype_is_complex(type) ? 2 : 1;
}

inline void set_code(Buffer& buffer, DType type, std::size_t i, std::uint64_t code) {
  const std::size_t bytes = dtype_bytes(oracle::part(type));
  std::memcpy(buffer.data() + i * bytes, &code, bytes);
}

inline std::uint64_t code_at(const Buffer& buffer, DType type, std::size_t i) {
  const std::size_t bytes = dtype_bytes(oracle::part(type));
  std::uint64_t code = 0;
  std::memcpy(&code, buffer.data() + i * bytes, bytes);
  return code;
}

// `n` contributions; with `stagger`, each starts at another offset in elements from a register's alignment.
inline std::vector<Buffer> sample_inputs(DType type, std::size_t n, std::size_t count, std::uint64_t seed,
                                         bool stagger = false) {
  std::vector<Buffer> inputs;
  for (std::size_t k = 0; k < n; ++k) {
    inputs.emplace_back(type, count, stagger ? 1 + k % 3 : 0);
    for (std::size_t i = 0; i < count * parts(type); ++i) {
      set_code(inputs[k], type, i, sample_code(type, seed + (k << 40) + i));
    }
  }
  return inputs;
}

inline std::vector<const void*> pointers(const std::vector<Buffer>& buffers) {
  std::vector<const void*> result;
  for (const Buffer& buffer : buffers) result.push_back(buffer.data());
  return result;
}

// Every type and operation that the contract defines.
inline std::vector<std::pair<DType, Op>> all_reductions() {
  std::vector<std::pair<DType, Op>> result;
  for (int t = 0; t < kDTypeCount; ++t) {
    for (int o = 0; o < kOpCount; ++o) {
      const auto type = static_cast<DType>(t);
      const auto op = static_cast<Op>(o);
      if (reduction_defined(type, op)) result.emplace_back(type, op);
    }
  }
  return result;
}

inline std::string describe(std::string_view isa, const FoldSpec& spec, std::size_t n, std::size_t count) {
  return std::string(isa) + " " + std::string(dtype_name(spec.dtype)) + " " + std::string(op_name(spec.op)) +
         " n=" + std::to_string(n) + " count=" + std::to_string(count) +
         " contributors=" + std::to_string(spec.contributors) + " prescale=" + std::to_string(spec.prescale) +
         " postscale=" + std::to_string(spec.postscale);
}

}  // namespace redsum::kernels
