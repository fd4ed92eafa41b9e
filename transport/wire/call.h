// SPDX-License-Identifier: Apache-2.0
// What a rank asked for in one collective. All ranks must ask for the same: the signature travels in every header, and
// the description goes over the control connection when ranks have to be told how they differ.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/dtype.h"
#include "transport/wire/header.h"

namespace redsum::wire {

// Who folds.
enum class Via : std::uint8_t { reducers = 0, ring = 1 };
inline constexpr int kViaCount = 2;
constexpr std::string_view via_name(Via via) noexcept {
  return via == Via::ring ? "ring" : "reducers";
}

struct CallDescription {
  Kind kind = Kind::allreduce;
  DType dtype = DType::fp32;
  DType wire_dtype = DType::fp32;
  Op op = Op::sum;
  std::uint32_t root = 0;   // where has_root(kind)
  std::uint64_t count = 0;  // elements of the whole call, all tensors together; all_to_all: 0, each pair has its own
  double prescale = 1.0;
  double postscale = 1.0;
  std::string key;                   // empty: calls match by order
  std::vector<std::uint64_t> parts;  // reduce_scatter, all_gather: elements of each rank; empty: equal parts
  Via via = Via::reducers;

  bool operator==(const CallDescription&) const = default;
  std::uint64_t part(std::uint32_t rank, std::uint32_t members) const {
    return parts.empty() ? count / members : parts[rank];
  }
  std::uint64_t signature() const noexcept;
  std::string to_string() const;  // "allreduce of 4096 fp32 (wire bf16), sum"
};

// The first field in which two calls differ, for a message: name and both values as text. Empty name: they agree.
struct Difference {
  std::string field, left, right;
};
Difference difference(const CallDescription& left, const CallDescription& right);

}  // namespace redsum::wire
