// SPDX-License-Identifier: Apache-2.0
#include "client/finite_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "kernels/convert.h"
#include "kernels/nonfinite.h"
#include "transport/base/log.h"

namespace redsum::client {
namespace {

bool asked_for() {
  const char* value = std::getenv("REDSUM_CHECK_FINITE");
  return value && std::strcmp(value, "1") == 0;
}

// The first element that is NaN or infinite; count: none is.
std::uint64_t first_of(DType dtype, const std::byte* data, std::uint64_t count) {
  constexpr std::uint64_t kBlock = 4096;
  const std::size_t bytes = dtype_bytes(dtype);
  std::uint64_t at = 0;
  while (at < count && kernels::count_nonfinite(dtype, data + at * bytes, std::min(kBlock, count - at)) == 0)
    at += std::min(kBlock, count - at);
  while (at < count && kernels::count_nonfinite(dtype, data + at * bytes, 1) == 0) ++at;
  return at;
}

const char* name_of(double value) {
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

// Of a complex one: of the first part that is not finite.
const char* value_name(DType dtype, const std::byte* element) {
  if (dtype == DType::fp64 || dtype == DType::complex128) {
    double parts[2] = {0, 0};
    std::memcpy(parts, element, dtype_bytes(dtype));
    return name_of(std::isfinite(parts[0]) ? parts[1] : parts[0]);
  }
  float parts[2] = {0, 0};
  if (dtype == DType::complex64)
    std::memcpy(parts, element, sizeof parts);
  else
    kernels::convert(DType::fp32, parts, dtype, element, 1);
  return name_of(static_cast<double>(std::isfinite(parts[0]) ? parts[1] : parts[0]));
}

}  // namespace

FiniteCheck::FiniteCheck() : on_(asked_for()) {}

void FiniteCheck::look(const Call& call, CommunicatorId id, Rank rank) {
  const wire::CallDescription& description = call.description;
  if (!on_ || lines_ > kMostLines || !wire::reduces(description.kind)) return;
  for (const Tensor& tensor : call.tensors) {
    const std::uint64_t at = first_of(description.dtype, tensor.input, tensor.count);
    if (at == tensor.count) continue;
    if (++lines_ > kMostLines)
      return log::warn(
          "more calls have inputs that are not finite; they are named no longer, nonfinite_results of "
          "redsum_stats() goes on counting their results");
    const std::byte* element = tensor.input + at * dtype_bytes(description.dtype);
    return log::warn("rank " + std::to_string(rank.value) + " contributes " + value_name(description.dtype, element) +
                     " to call " + std::to_string(call.sequence) + " of communicator " + std::to_string(id.value) +
                     " (" + description.to_string() + "): tensor " + std::to_string(tensor.index) + ", element " +
                     std::to_string(wire::has_parts(description.kind) ? tensor.first + at : at));
  }
}

}  // namespace redsum::client
