// SPDX-License-Identifier: Apache-2.0
// Inside kernels/ only: what an instruction set's object code offers to the dispatcher. Nothing in this header may have
// code of its own: it is compiled with different instruction sets, and the linker keeps one copy of an inline function.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

namespace redsum::kernels {

// A fold with its defaults worked out. complex64 and complex128 arrive here as twice as many fp32 and fp64.
struct FoldJob {
  DType dtype;
  Op op;                  // sum, prod, min or max
  bool divide;            // AVG: divide the sum by `divisor`
  bool prescaled;         // multiply by `prescale`
  bool postscaled;        // multiply by `postscale`
  std::uint32_t divisor;  // > 1 where `divide` is set
  double prescale;        // already representable in the accumulator type
  double postscale;       // likewise
  void* out;
  const void* const* inputs;
  std::size_t input_count;  // > 0
  std::size_t count;
  // Comes as true. False afterwards: no element of the part that was handled is NaN or infinite.
  bool* suspect;
};

// The calls handle a prefix of the elements, as many as fill whole registers, and say how many those were; the
// dispatcher gives the rest to the scalar code.
struct Target {
  const char* name;
  std::size_t (*fold)(const FoldJob& job) noexcept;
  std::size_t (*convert)(DType dst_type, void* dst, DType src_type, const void* src, std::size_t count) noexcept;
  // *found: as count_nonfinite() of the prefix. Not for complex types.
  std::size_t (*nonfinite)(DType type, const void* data, std::size_t count, std::size_t* found) noexcept;
};

extern const Target kScalarTarget;    // the reference; always there, handles every element
extern const Target kBaselineTarget;  // what any processor of this architecture has
extern const Target kAvx2Target;
extern const Target kAvx512Target;
extern const Target kNeonTarget;

// The scalar code from element `begin` on.
void fold_scalar(const FoldJob& job, std::size_t begin) noexcept;
void convert_scalar(DType dst_type, void* dst, DType src_type, const void* src, std::size_t begin,
                    std::size_t count) noexcept;
std::size_t nonfinite_scalar(DType type, const void* data, std::size_t begin, std::size_t count) noexcept;

// Whether the target gives the bits of the scalar code for every type and operation, on inputs that tell them apart.
bool self_test(const Target& target) noexcept;

// Copies those candidates that pass the self-test to `working`, which has room for all, and says how many they are. A
// target that fails is reported on stderr in one line and can never be chosen.
std::size_t keep_working(const Target* const* candidates, std::size_t count, const Target** working) noexcept;

// The target that `wanted` names (nullptr or "": no wish), else the first; `usable` holds at least one, best first.
// A wish that cannot be met is reported on stderr in one line.
const Target& choose_target(const Target* const* usable, std::size_t usable_count, const char* wanted) noexcept;

}  // namespace redsum::kernels
