// SPDX-License-Identifier: Apache-2.0
#include "kernels/partial.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "kernels/convert.h"
#include "kernels/nonfinite.h"

namespace redsum::kernels {
namespace {

constexpr std::size_t kStageBytes = 4096;  // stays in the first-level cache next to the blocks it is folded with

void require(bool holds, const FoldSpec& spec, const char* what) noexcept {
  if (holds) return;
  std::fprintf(stderr, "redsum: partial fold of dtype %d with op %d: %s\n", static_cast<int>(spec.dtype),
               static_cast<int>(spec.op), what);
  std::abort();
}

void require_defined(const FoldSpec& spec) noexcept {
  require(fold_defined(spec), spec, "not defined");
}

// Contributions can be folded with partial results as they are.
bool direct(const FoldSpec& spec) noexcept {
  return partial_dtype(spec) == spec.dtype && !prescaled(spec.dtype, spec.prescale);
}

// A step between two partial results: no division, no factor.
FoldSpec step_of(const FoldSpec& spec) noexcept {
  const bool divided_later = spec.op == Op::avg && spec.dtype != DType::boolean;
  return {.dtype = partial_dtype(spec), .op = divided_later ? Op::sum : spec.op};
}

// `contribution` in the type of partial results, prescaled. Widening is exact, so the product is the only rounding.
void stage_contribution(const FoldSpec& spec, void* staged, const void* contribution, std::size_t count) noexcept {
  const FoldSpec scale{.dtype = partial_dtype(spec), .op = Op::sum, .prescale = spec.prescale};
  std::array<const void*, 1> input{contribution};
  if (scale.dtype != spec.dtype) {
    convert(scale.dtype, staged, spec.dtype, contribution, count);
    input[0] = staged;
  }
  fold(scale, staged, input, count);  // returns at once where there is no factor and nothing to copy
}

// Calls block(offset, length) for blocks of elements whose partial results fill a stage, the last one maybe shorter.
template <class Block>
void for_each_block(const FoldSpec& spec, std::size_t count, const Block& block) noexcept {
  const std::size_t most = kStageBytes / dtype_bytes(partial_dtype(spec));
  for (std::size_t at = 0; at < count; at += most) block(at, std::min(most, count - at));
}

}  // namespace

DType partial_dtype(const FoldSpec& spec) noexcept {
  return redsum::partial_dtype(spec.dtype, spec.op, spec.prescale);
}

bool begins_as_is(const FoldSpec& spec) noexcept {
  return direct(spec) && spec.dtype != DType::boolean;
}

void begin_partial(const FoldSpec& spec, void* partial, const void* contribution, std::size_t count) noexcept {
  require_defined(spec);
  if (direct(spec)) {
    stage_contribution(spec, partial, contribution, count);
    return;
  }
  auto* const to = static_cast<char*>(partial);
  const auto* const from = static_cast<const char*>(contribution);
  const std::size_t partial_bytes = dtype_bytes(partial_dtype(spec));
  const std::size_t bytes = dtype_bytes(spec.dtype);
  for_each_block(spec, count, [&](std::size_t at, std::size_t length) {
    stage_contribution(spec, to + at * partial_bytes, from + at * bytes, length);
  });
}

void extend_partial(const FoldSpec& spec, void* out, const void* partial, const void* contribution,
                    std::size_t count) noexcept {
  require_defined(spec);
  const FoldSpec step = step_of(spec);
  if (direct(spec)) {
    fold(step, out, std::array<const void*, 2>{partial, contribution}, count);
    return;
  }
  auto* const to = static_cast<char*>(out);
  const auto* const acc = static_cast<const char*>(partial);
  const auto* const from = static_cast<const char*>(contribution);
  const std::size_t partial_bytes = dtype_bytes(step.dtype);
  const std::size_t bytes = dtype_bytes(spec.dtype);
  alignas(64) unsigned char stage[kStageBytes];
  for_each_block(spec, count, [&](std::size_t at, std::size_t length) {
    stage_contribution(spec, stage, from + at * bytes, length);
    const std::size_t offset = at * partial_bytes;
    fold(step, to + offset, std::array<const void*, 2>{acc + offset, stage}, length);
  });
}

std::size_t finish_partial(const FoldSpec& spec, void* out, const void* partial, const void* contribution,
                           std::size_t count) noexcept {
  require_defined(spec);
  require(spec.op != Op::avg || spec.contributors != 0, spec, "an average needs to know its contributors");
  const FoldSpec last{partial_dtype(spec), spec.op, spec.contributors, 1.0, spec.postscale};
  if (direct(spec)) {
    return fold_counting(last, out, std::array<const void*, 2>{partial, contribution}, count);
  }
  auto* const to = static_cast<char*>(out);
  const auto* const acc = static_cast<const char*>(partial);
  const auto* const from = static_cast<const char*>(contribution);
  const std::size_t partial_bytes = dtype_bytes(last.dtype);
  const std::size_t bytes = dtype_bytes(spec.dtype);
  alignas(64) unsigned char stage[kStageBytes];
  std::size_t found = 0;
  // In place of the partial result: a block of `out` ends no later than the block of `partial` that was just read.
  for_each_block(spec, count, [&](std::size_t at, std::size_t length) {
    stage_contribution(spec, stage, from + at * bytes, length);
    fold(last, stage, std::array<const void*, 2>{acc + at * partial_bytes, stage}, length);
    convert(spec.dtype, to + at * bytes, last.dtype, stage, length);  // the one rounding; fp32 and wider: a copy
    found += count_nonfinite(spec.dtype, to + at * bytes, length);
  });
  return found;
}

}  // namespace redsum::kernels
