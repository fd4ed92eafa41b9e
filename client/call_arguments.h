// SPDX-License-Identifier: Apache-2.0
// What a caller of the C interface hands over, checked and turned into a Call. Every refusal names the argument, its
// value and what is expected.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "client/call.h"
#include "client/redsum.h"
#include "transport/base/status.h"

namespace redsum::client {

Status invalid(std::string text);  // invalid_argument

// invalid_argument for numbers that are no dtype or op, unsupported for a reduction that is not defined.
Status check_kind(redsum_dtype dtype, redsum_op op);

// The caller's options, as far as its struct_bytes reaches; NULL and all zeros are the defaults.
redsum_call_options options_or_default(const redsum_call_options* given);

// call.description has its kind, dtype and op. Fills wire dtype, scales, key, timeout and rollback.
Status fill_options(const redsum_call_options& options, DurationNs default_timeout, Call& call);

// Fills tensors and count. `reads`, `writes`: whether this rank's inputs and outputs are used at all.
Status fill_tensors(const redsum_tensor* tensors, std::size_t count, bool reads, bool writes, Call& call);

inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;  // of one call
Status check_alignment(const std::string& name, DType dtype, std::uintptr_t address);

// The buffers of a reduce_scatter (input: all parts, output: this rank's) or an all_gather (the other way round).
struct PartsArguments {
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;
  const std::uint64_t* counts = nullptr;  // one for each rank; nullptr: `count` for all
};
// Fills tensors, count and description.parts.
Status fill_parts(const PartsArguments& given, std::uint32_t rank, std::uint32_t members, Call& call);

}  // namespace redsum::client
