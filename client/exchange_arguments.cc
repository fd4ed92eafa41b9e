// SPDX-License-Identifier: Apache-2.0
#include "client/exchange_arguments.h"

#include <string>

#include "client/call_arguments.h"

namespace redsum::client {
namespace {

// One side of an exchange: as many pieces as there are ranks that it has to do with, one after another.
struct Side {
  const char* name;
  std::uintptr_t at = 0;
  std::uint64_t elements = 0;

  Status check(DType dtype) const {
    if (elements == 0) return {};
    if (at == 0)
      return invalid(std::string(name) + " is NULL, this rank has " + std::to_string(elements) + " elements there");
    return check_alignment(name, dtype, at);
  }
  std::uintptr_t end(std::size_t element) const { return at + elements * element; }
};

Status add(std::uint64_t& sum, std::uint64_t count, std::size_t element) {
  if (count > kMostBytes / element - sum) return invalid("the call has more than 2^62 bytes");
  sum += count;
  return {};
}

bool overlap(const Side& left, const Side& right, std::size_t element) {
  return left.elements != 0 && right.elements != 0 && left.at < right.end(element) && right.at < left.end(element);
}

const std::byte* bytes(const void* at) {
  return static_cast<const std::byte*>(at);
}
std::byte* bytes(void* at) {
  return static_cast<std::byte*>(at);
}
std::uintptr_t number(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at);
}

// Gather and scatter: `whole` is the root's, `part` is each rank's; in place, the root's part lies in the whole. Fills
// root and count.
Status check_rooted(const Side& whole, const Side& part, std::uint32_t rank, const ExchangeArguments& given,
                    std::uint32_t members, Call& call) {
  const std::size_t element = dtype_bytes(call.description.dtype);
  call.description.root = given.peer;
  for (std::uint32_t r = 0; r < members; ++r) REDSUM_RETURN_IF_ERROR(add(call.description.count, given.count, element));
  REDSUM_RETURN_IF_ERROR(part.check(call.description.dtype));
  if (rank != given.peer) return {};
  REDSUM_RETURN_IF_ERROR(whole.check(call.description.dtype));
  const std::uint64_t behind = given.peer * given.count * element;
  call.in_place = given.count != 0 && part.at == whole.at + behind;
  if (call.in_place || !overlap(whole, part, element)) return {};
  return invalid("input and output overlap; in place, this rank's part is " + std::to_string(behind) +
                 " bytes behind the beginning of the whole");
}

}  // namespace

Status fill_all_to_all(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t members, Call& call) {
  const std::size_t element = dtype_bytes(call.description.dtype);
  std::uint64_t sent = 0, received = 0;
  for (std::uint32_t r = 0; r < members; ++r) {
    const std::uint64_t out = given.input_counts ? given.input_counts[r] : given.count;
    const std::uint64_t in = given.output_counts ? given.output_counts[r] : given.count;
    if (r == rank && out != in)
      return invalid("this rank " + std::to_string(rank) + " has " + std::to_string(out) +
                     " elements for itself and expects " + std::to_string(in));
    const std::uint64_t out_first = sent, in_first = received;
    REDSUM_RETURN_IF_ERROR(add(sent, out, element));
    REDSUM_RETURN_IF_ERROR(add(received, in, element));
    call.outgoing.push_back({r, out ? bytes(given.input) + out_first * element : nullptr, out});
    call.incoming.push_back({r, in ? bytes(given.output) + in_first * element : nullptr, in});
  }
  const Side input{"input", number(given.input), sent}, output{"output", number(given.output), received};
  REDSUM_RETURN_IF_ERROR(input.check(call.description.dtype));
  REDSUM_RETURN_IF_ERROR(output.check(call.description.dtype));
  if (overlap(input, output, element))
    return invalid("input and output of an all_to_all overlap; give the output memory of its own");
  return {};
}

Status fill_gather(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t members, Call& call) {
  const std::size_t part_bytes = given.count * dtype_bytes(call.description.dtype);
  const Side input{"input", number(given.input), given.count};
  const Side output{"output", number(given.output), given.count * members};
  REDSUM_RETURN_IF_ERROR(check_rooted(output, input, rank, given, members, call));
  call.outgoing.push_back({given.peer, bytes(given.input), given.count});
  for (std::uint32_t r = 0; rank == given.peer && r < members; ++r)
    call.incoming.push_back({r, part_bytes ? bytes(given.output) + r * part_bytes : nullptr, given.count});
  return {};
}

Status fill_scatter(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t members, Call& call) {
  const std::size_t part_bytes = given.count * dtype_bytes(call.description.dtype);
  const Side input{"input", number(given.input), given.count * members};
  const Side output{"output", number(given.output), given.count};
  REDSUM_RETURN_IF_ERROR(check_rooted(input, output, rank, given, members, call));
  for (std::uint32_t r = 0; rank == given.peer && r < members; ++r)
    call.outgoing.push_back({r, part_bytes ? bytes(given.input) + r * part_bytes : nullptr, given.count});
  call.incoming.push_back({given.peer, bytes(given.output), given.count});
  return {};
}

namespace {

Status check_pair(const Side& side, const char* what, std::uint32_t rank, std::uint32_t peer, Call& call) {
  if (peer == rank)
    return invalid(std::string(what) + " is " + std::to_string(peer) +
                   ", this rank itself; it needs no call for a copy");
  REDSUM_RETURN_IF_ERROR(add(call.description.count, side.elements, dtype_bytes(call.description.dtype)));
  return side.check(call.description.dtype);
}

}  // namespace

Status fill_send(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t /*members*/, Call& call) {
  call.outgoing.push_back({given.peer, bytes(given.input), given.count});
  return check_pair({"input", number(given.input), given.count}, "to", rank, given.peer, call);
}

Status fill_receive(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t /*members*/, Call& call) {
  call.incoming.push_back({given.peer, bytes(given.output), given.count});
  return check_pair({"output", number(given.output), given.count}, "from", rank, given.peer, call);
}

}  // namespace redsum::client
