// SPDX-License-Identifier: Apache-2.0
#include "client/call_arguments.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/fold.h"

namespace redsum::client {

Status invalid(std::string text) {
  return {Code::invalid_argument, std::move(text)};
}

Status check_kind(redsum_dtype dtype, redsum_op op) {
  if (static_cast<unsigned>(dtype) >= static_cast<unsigned>(kDTypeCount))
    return invalid("dtype " + std::to_string(static_cast<int>(dtype)) + " is none of 0.." +
                   std::to_string(kDTypeCount - 1));
  if (static_cast<unsigned>(op) >= static_cast<unsigned>(kOpCount))
    return invalid("op " + std::to_string(static_cast<int>(op)) + " is none of 0.." + std::to_string(kOpCount - 1));
  const auto type = static_cast<DType>(dtype);
  if (!reduction_defined(type, static_cast<Op>(op)))
    return {Code::unsupported, std::string(op_name(static_cast<Op>(op))) + " of " + std::string(dtype_name(type)) +
                                   " is not defined; complex numbers have sum and avg"};
  return {};
}

redsum_call_options options_or_default(const redsum_call_options* given) {
  redsum_call_options options;
  redsum_call_options_init(&options);
  if (given)
    std::memcpy(&options, given, std::min(given->struct_bytes ? given->struct_bytes : sizeof options, sizeof options));
  if (given && given->struct_bytes == 0) {  // zero-initialised: zeros mean the defaults
    if (options.wire_dtype == 0) options.wire_dtype = -1;
    if (options.prescale == 0) options.prescale = 1;
    if (options.postscale == 0) options.postscale = 1;
  }
  return options;
}

Status fill_options(const redsum_call_options& options, DurationNs default_timeout, Call& call) {
  wire::CallDescription& description = call.description;
  description.wire_dtype = description.dtype;
  if (options.wire_dtype >= 0 && static_cast<DType>(options.wire_dtype) != description.dtype) {
    const auto wire_dtype = static_cast<DType>(options.wire_dtype);
    if (description.dtype != DType::fp32 || (wire_dtype != DType::bf16 && wire_dtype != DType::fp16) ||
        (description.kind != wire::Kind::allreduce && description.kind != wire::Kind::reduce))
      return {Code::unsupported, "wire dtype " + std::string(dtype_name(wire_dtype)) + " for a " +
                                     std::string(wire::kind_name(description.kind)) + " of " +
                                     std::string(dtype_name(description.dtype)) +
                                     "; an allreduce or reduce of fp32 may travel as bf16 or fp16"};
    description.wire_dtype = wire_dtype;
  }
  description.prescale = options.prescale;
  description.postscale = options.postscale;
  if (!kernels::fold_defined({description.wire_dtype, description.op, 0, options.prescale, options.postscale}))
    return {Code::unsupported, "scale factors for " + std::string(dtype_name(description.dtype)) +
                                   "; floats and complex numbers have them"};
  if (options.key) {
    description.key = options.key;
    if (description.key.size() > 255)
      return invalid("key has " + std::to_string(description.key.size()) + " bytes, at most 255");
  }
  if (options.timeout_ns < 0) return invalid("timeout_ns is " + std::to_string(options.timeout_ns) + "; expected >= 0");
  call.timeout = options.timeout_ns > 0 ? options.timeout_ns : default_timeout;
  call.rollback = options.no_rollback == 0;
  return {};
}

Status fill_tensors(const redsum_tensor* tensors, std::size_t count, bool reads, bool writes, Call& call) {
  if (count != 0 && !tensors) return invalid("tensors is NULL, tensor_count is " + std::to_string(count));
  const std::size_t bytes = dtype_bytes(call.description.dtype);
  const std::size_t alignment = std::min<std::size_t>(bytes, dtype_is_complex(call.description.dtype) ? bytes / 2 : 8);
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 62;
  std::uint64_t first = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const redsum_tensor& tensor = tensors[i];
    const std::string name = "tensor " + std::to_string(i);
    if (tensor.count > kMostBytes / bytes - first) return invalid(name + ": the call has more than 2^62 bytes");
    if (tensor.count == 0) continue;
    const auto in = reinterpret_cast<std::uintptr_t>(tensor.input),
               out = reinterpret_cast<std::uintptr_t>(tensor.output);
    if ((reads && !in) || (writes && !out))
      return invalid(name + ": " + (in ? "output" : "input") + " is NULL, count is " + std::to_string(tensor.count));
    if (in % alignment != 0 || out % alignment != 0)
      return invalid(name + ": an address is not a multiple of " + std::to_string(alignment) + " bytes, as " +
                     std::string(dtype_name(call.description.dtype)) + " needs");
    if (in && out && in != out && in < out + tensor.count * bytes && out < in + tensor.count * bytes)
      return invalid(name + ": output overlaps input without being equal to it");
    call.tensors.push_back(
        {static_cast<const std::byte*>(tensor.input), static_cast<std::byte*>(tensor.output), tensor.count, first});
    call.in_place = call.in_place || in == out;
    first += tensor.count;
  }
  call.description.count = first;
  return {};
}

}  // namespace redsum::client
