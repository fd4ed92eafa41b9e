// SPDX-License-Identifier: Apache-2.0
#include "client/call_arguments.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "client/overlap.h"
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
  redsum_call_options options{};
  options.struct_bytes = sizeof options;
  options.wire_dtype = -1;
  options.prescale = options.postscale = 1.0;
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
        wire::has_one_source(description.kind) || wire::is_exchange(description.kind))
      return {Code::unsupported, "wire dtype " + std::string(dtype_name(wire_dtype)) + " for a " +
                                     std::string(wire::kind_name(description.kind)) + " of " +
                                     std::string(dtype_name(description.dtype)) +
                                     "; reductions of fp32 may travel as bf16 or fp16"};
    description.wire_dtype = wire_dtype;
  }
  if (wire::is_exchange(description.kind) && (options.prescale != 1.0 || options.postscale != 1.0))
    return {Code::unsupported,
            "scale factors for a " + std::string(wire::kind_name(description.kind)) + "; reductions have them"};
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
  if (options.ring != 0) description.via = wire::Via::ring;
  return {};
}

Status check_alignment(const std::string& name, DType dtype, std::uintptr_t address) {
  const std::size_t bytes = dtype_bytes(dtype);
  const std::size_t alignment = std::min<std::size_t>(bytes, dtype_is_complex(dtype) ? bytes / 2 : 8);
  if (address % alignment == 0) return {};
  return invalid(name + ": an address is not a multiple of " + std::to_string(alignment) + " bytes, as " +
                 std::string(dtype_name(dtype)) + " needs");
}

// Results come in any order and may land before all inputs were read: no piece may lie where another is written.
static Status check_pieces(const Call& call, bool reads, bool writes) {
  if (call.tensors.size() < 2) return {};
  // The root of a broadcast has its input copied to an output of its own.
  const bool copies = call.description.kind == wire::Kind::broadcast;
  const std::size_t element = dtype_bytes(call.description.dtype);
  std::vector<Extent> extents;
  extents.reserve(2 * call.tensors.size());
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const Tensor& tensor = call.tensors[i];
    const bool apart = tensor.output && tensor.output != tensor.input;
    const bool written = tensor.output && (writes || (copies && apart));
    const auto add = [&](const void* at, bool is_written) {
      extents.push_back({reinterpret_cast<std::uintptr_t>(at), tensor.count * element, is_written, i});
    };
    if (written) add(tensor.output, true);
    if (tensor.input && reads && (apart || !written)) add(tensor.input, false);
  }
  const auto found = find_overlap(extents);
  if (!found) return {};
  return invalid("tensor " + std::to_string(found->piece) + " overlaps tensor " + std::to_string(found->other) +
                 " where one of them is written; give every piece memory of its own");
}

Status fill_tensors(const redsum_tensor* tensors, std::size_t count, bool reads, bool writes, Call& call) {
  if (count != 0 && !tensors) return invalid("tensors is NULL, tensor_count is " + std::to_string(count));
  const std::size_t bytes = dtype_bytes(call.description.dtype);
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
    REDSUM_RETURN_IF_ERROR(check_alignment(name, call.description.dtype, in | out));
    if (in && out && in != out && in < out + tensor.count * bytes && out < in + tensor.count * bytes)
      return invalid(name + ": output overlaps input without being equal to it");
    call.tensors.push_back(
        {static_cast<const std::byte*>(tensor.input), static_cast<std::byte*>(tensor.output), tensor.count, first, i});
    call.in_place = call.in_place || in == out;
    first += tensor.count;
  }
  call.description.count = first;
  return check_pieces(call, reads, writes);
}

Status fill_parts(const PartsArguments& given, std::uint32_t rank, std::uint32_t members, Call& call) {
  wire::CallDescription& description = call.description;
  const std::size_t bytes = dtype_bytes(description.dtype);
  // Equal counts are the same call as equal parts, on whichever rank either was written.
  if (given.counts && std::any_of(given.counts, given.counts + members, [&](auto c) { return c != given.counts[0]; }))
    description.parts.assign(given.counts, given.counts + members);
  std::uint64_t first = 0, own_first = 0;
  for (std::uint32_t r = 0; r < members; ++r) {
    const std::uint64_t part = given.counts ? given.counts[r] : given.count;
    if (r == rank) own_first = first;
    if (part > kMostBytes / bytes - first) return invalid("the call has more than 2^62 bytes");
    first += part;
  }
  description.count = first;
  if (first == 0) return {};
  const bool scatters = description.kind == wire::Kind::reduce_scatter;
  const std::uint64_t own = description.part(rank, members);
  const auto in = reinterpret_cast<std::uintptr_t>(given.input), out = reinterpret_cast<std::uintptr_t>(given.output);
  if ((!in && (scatters || own != 0)) || (!out && (!scatters || own != 0)))
    return invalid(std::string(in ? "output" : "input") + " is NULL, this rank has " + std::to_string(own) + " of " +
                   std::to_string(first) + " elements");
  REDSUM_RETURN_IF_ERROR(check_alignment("input or output", description.dtype, in | out));
  const std::uintptr_t whole = scatters ? in : out, part = scatters ? out : in;
  const std::uintptr_t own_at = whole + own_first * bytes;
  if (own != 0 && part != own_at && part < whole + first * bytes && whole < part + own * bytes)
    return invalid("input and output overlap; in place, this rank's part is " + std::to_string(own_first * bytes) +
                   " bytes behind the beginning of the whole");
  call.in_place = own != 0 && part == own_at;
  const auto* input = static_cast<const std::byte*>(given.input);
  auto* output = static_cast<std::byte*>(given.output);
  const auto add = [&](std::uint64_t at, std::uint64_t count, bool is_own) {
    if (count == 0) return;
    const std::byte* from = scatters ? input + at * bytes : is_own ? input : nullptr;
    std::byte* to = !scatters ? output + at * bytes : is_own ? output : nullptr;
    call.tensors.push_back({from, to, count, at});
  };
  add(0, own_first, false);
  add(own_first, own, true);
  add(own_first + own, first - own_first - own, false);
  return {};
}

}  // namespace redsum::client
