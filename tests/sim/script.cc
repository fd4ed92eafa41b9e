// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/script.h"

#include <algorithm>
#include <cstring>

#include "client/core/ring_route.h"
#include "kernels/convert.h"
#include "kernels/fold.h"

namespace redsum::sim {
namespace {

using wire::Kind;

std::uint64_t draw_count(Prng& random, std::uint32_t chunk_bytes, std::size_t element) {
  const std::uint64_t chunk = chunk_bytes / element;
  switch (random.below(8)) {
    case 0:
      return 0;
    case 1:
      return random.between(1, 9);
    case 2:
      return random.between(1, 300);
    case 3:
      return chunk;
    case 4:
      return chunk + 1;
    default:
      return random.below(chunk * 9);
  }
}

void draw_pieces(Prng& random, PlannedCall& planned) {
  std::uint64_t left = planned.call.count;
  while (left != 0 && planned.pieces.size() < 4 && random.chance(50)) {
    const std::uint64_t take = random.below(left + 1);
    planned.pieces.push_back(take);  // an empty tensor in the list is fine
    left -= take;
  }
  planned.pieces.push_back(left);
}

// Equal parts, or parts of any size, also none.
void draw_parts(Prng& random, std::uint64_t members, wire::CallDescription& call) {
  if (random.chance(50)) {
    call.count = call.count / members * members;
    return;
  }
  std::uint64_t left = call.count;
  for (std::uint64_t rank = 0; rank + 1 < members; ++rank) {
    call.parts.push_back(random.chance(20) ? 0 : random.below(left + 1));
    left -= call.parts.back();
  }
  call.parts.push_back(left);
}

// Equal counts for all_to_all, or any; of the others what they are for.
void draw_pairs(Prng& random, std::uint64_t members, std::uint64_t count, PlannedCall& planned) {
  const auto n = static_cast<std::uint32_t>(members);
  planned.in_place = false;
  planned.pairs.assign(members * members, 0);
  const auto pair = [&](std::uint32_t from, std::uint32_t to) -> std::uint64_t& {
    return planned.pairs[from * n + to];
  };
  wire::CallDescription& call = planned.call;
  const bool equal = random.chance(50);
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    if (call.kind == Kind::gather) pair(rank, call.root) = count;
    if (call.kind == Kind::scatter) pair(call.root, rank) = count;
    for (std::uint32_t to = 0; call.kind == Kind::all_to_all && to < n; ++to)
      pair(rank, to) = equal ? count : random.chance(30) ? 0 : random.below(count + 1);
  }
  call.count = call.kind == Kind::all_to_all ? 0 : call.kind == Kind::send ? count : count * members;
  if (call.kind != Kind::send) return;
  const auto from = static_cast<std::uint32_t>(random.below(members));
  pair(from, static_cast<std::uint32_t>((from + random.between(1, members - 1)) % members)) = count;
}

// Values whose sum depends on the order in which they are added.
constexpr float kTouchy[] = {1e8f, 1.0f, -1e8f, 0.5f, 3.0f, -2.25f, 65504.0f, 1e-3f, -7.0f, 1e4f};

template <typename T>
void fill_floats(std::vector<std::byte>& data, Prng& random) {
  for (std::size_t at = 0; at + sizeof(T) <= data.size(); at += sizeof(T)) {
    const T value = static_cast<T>(kTouchy[random.below(std::size(kTouchy))] * (random.chance(50) ? 1.0f : 0.37f));
    std::memcpy(&data[at], &value, sizeof value);
  }
}

}  // namespace

std::vector<PlannedCall> draw_script(Prng& random, std::size_t calls, std::size_t world, std::size_t groups,
                                     std::size_t sub_members, std::uint32_t chunk_bytes) {
  constexpr DType kTypes[] = {DType::fp32, DType::fp32, DType::fp32, DType::bf16,
                              DType::fp16, DType::fp64, DType::int32};
  constexpr Op kOps[] = {Op::sum, Op::sum, Op::avg, Op::prod, Op::max, Op::min};
  std::vector<PlannedCall> script;
  for (std::size_t i = 0; i < calls; ++i) {
    PlannedCall planned;
    planned.group = groups > 1 && random.chance(40) ? 1 : 0;
    wire::CallDescription& call = planned.call;
    constexpr Kind kKinds[] = {Kind::barrier,        Kind::broadcast,  Kind::reduce,    Kind::reduce_scatter,
                               Kind::reduce_scatter, Kind::all_gather, Kind::allreduce, Kind::allreduce,
                               Kind::allreduce,      Kind::allreduce,  Kind::allreduce, Kind::allreduce,
                               Kind::all_to_all,     Kind::gather,     Kind::scatter,   Kind::send};
    call.kind = kKinds[random.below(std::size(kKinds))];
    const std::uint64_t members = planned.group == 1 ? sub_members : world;
    if (call.kind == Kind::send && members == 1) call.kind = Kind::all_to_all;
    call.dtype = call.kind == Kind::barrier ? DType::uint8 : kTypes[random.below(std::size(kTypes))];
    call.wire_dtype = call.dtype;
    const bool exchange = wire::is_exchange(call.kind);
    if (!wire::has_one_source(call.kind) && !exchange && call.kind != Kind::barrier) {
      call.op = kOps[random.below(std::size(kOps))];
      if (call.dtype == DType::fp32 && random.chance(25))
        call.wire_dtype = random.chance(50) ? DType::bf16 : DType::fp16;
      if (dtype_is_float(call.dtype) && random.chance(15)) call.prescale = 0.5, call.postscale = 3.0;
    }
    if (wire::has_root(call.kind)) call.root = static_cast<std::uint32_t>(random.below(members));
    if (call.kind != Kind::barrier) call.count = draw_count(random, chunk_bytes, dtype_bytes(call.wire_dtype));
    if (wire::has_parts(call.kind)) draw_parts(random, members, call);
    planned.in_place = random.chance(60);
    planned.wait_for_it = random.chance(40);
    planned.data_seed = random.next();
    if (exchange)
      draw_pairs(random, members, call.count, planned);
    else
      draw_pieces(random, planned);
    script.push_back(std::move(planned));
  }
  return script;
}

bool PlannedCall::takes_part(std::uint32_t rank, std::uint32_t members) const {
  if (call.kind != Kind::send) return true;
  for (std::uint32_t peer = 0; peer < members; ++peer)
    if (pairs[rank * members + peer] != 0 || pairs[peer * members + rank] != 0) return true;
  return false;
}

namespace {

// Elements that go from rank f to ranks before t, of an exchange.
std::uint64_t elements_before(const PlannedCall& planned, std::uint32_t members, std::uint32_t from, std::uint32_t to) {
  std::uint64_t sum = 0;
  for (std::uint32_t t = 0; t < to; ++t) sum += planned.pairs[from * members + t];
  return sum;
}

std::uint32_t members_of_pairs(const PlannedCall& planned) {
  std::uint32_t members = 1;
  while (members * members < planned.pairs.size()) ++members;
  return members;
}

std::vector<std::byte> exchanged(const PlannedCall& planned, std::uint32_t members, std::uint32_t rank) {
  const std::size_t element = dtype_bytes(planned.call.dtype);
  std::vector<std::byte> result;
  for (std::uint32_t from = 0; from < members; ++from) {
    const std::vector<std::byte> input = input_of(planned, from);
    const auto begin =
        input.begin() + static_cast<std::ptrdiff_t>(elements_before(planned, members, from, rank) * element);
    result.insert(result.end(), begin,
                  begin + static_cast<std::ptrdiff_t>(planned.pairs[from * members + rank] * element));
  }
  return result;
}

}  // namespace

std::vector<std::byte> input_of(const PlannedCall& planned, std::uint32_t rank) {
  const wire::CallDescription& call = planned.call;
  const std::uint32_t members = members_of_pairs(planned);
  const std::uint64_t count = planned.pairs.empty() ? call.count : elements_before(planned, members, rank, members);
  std::vector<std::byte> data(count * dtype_bytes(call.dtype));
  Prng random(planned.data_seed + rank * 7919);
  if (call.dtype == DType::fp32) {
    fill_floats<float>(data, random);
  } else if (call.dtype == DType::fp64) {
    fill_floats<double>(data, random);
  } else if (call.dtype == DType::bf16 || call.dtype == DType::fp16) {
    std::vector<std::byte> wide(count * sizeof(float));
    fill_floats<float>(wide, random);
    kernels::convert(call.dtype, data.data(), DType::fp32, wide.data(), count);
  } else {
    for (std::byte& byte : data) byte = static_cast<std::byte>(random.next());
  }
  return data;
}

PartBytes part_of(const PlannedCall& planned, std::uint32_t members, std::uint32_t rank) {
  const wire::CallDescription& call = planned.call;
  const std::size_t element = dtype_bytes(call.dtype);
  if (!wire::has_parts(call.kind)) return {0, call.count * element};
  std::uint64_t first = 0;
  for (std::uint32_t r = 0; r < rank; ++r) first += call.part(r, members);
  return {first * element, (first + call.part(rank, members)) * element};
}

namespace {

// The fold of `inputs` (one for each rank, in the wire type) by ranks first, first + 1 ..., elements [from, end).
void fold_from(std::uint32_t first, const PlannedCall& planned, const std::vector<std::vector<std::byte>>& inputs,
               std::uint64_t from, std::uint64_t end, std::vector<std::byte>& sum) {
  const wire::CallDescription& call = planned.call;
  const auto members = static_cast<std::uint32_t>(inputs.size());
  const std::size_t offset = from * dtype_bytes(call.wire_dtype);
  std::vector<const void*> ordered;
  for (std::uint32_t i = 0; i < members; ++i) ordered.push_back(inputs[(first + i) % members].data() + offset);
  kernels::fold({call.wire_dtype, call.op, members, call.prescale, call.postscale}, sum.data() + offset, ordered,
                end - from);
}

// As documented for order `ring`: chunk k of an all-reduce begins at rank (k + 1) mod n, a result for one rank behind
// that rank.
void fold_as_ring(const PlannedCall& planned, const std::vector<std::vector<std::byte>>& inputs,
                  const wire::JobSettings& settings, std::vector<std::byte>& sum) {
  const wire::CallDescription& call = planned.call;
  const auto members = static_cast<std::uint32_t>(inputs.size());
  const DType partial = partial_dtype(call.wire_dtype, call.op, call.prescale);
  const client::ChunkLayout layout = client::ring_layout(call, members, settings, dtype_bytes(partial));
  for (std::uint32_t chunk = 0; chunk < layout.chunks(); ++chunk) {
    const client::ChunkPiece piece = layout.at(chunk);
    std::uint32_t end = chunk % members;
    if (call.kind == Kind::reduce) end = call.root;
    if (call.kind == Kind::reduce_scatter) end = piece.owner;
    fold_from((end + 1) % members, planned, inputs, piece.offset, piece.offset + piece.elements, sum);
  }
}

}  // namespace

std::vector<std::byte> expected_of(const PlannedCall& planned, std::uint32_t members, std::uint32_t rank,
                                   const wire::JobSettings& settings) {
  const wire::CallDescription& call = planned.call;
  if (wire::is_exchange(call.kind)) return exchanged(planned, members, rank);
  if (call.kind == Kind::broadcast) return input_of(planned, call.root);
  std::vector<std::byte> result = input_of(planned, rank);
  if (call.kind == Kind::all_gather) {
    for (std::uint32_t r = 0; r < members; ++r) {
      const std::vector<std::byte> input = input_of(planned, r);
      const PartBytes part = part_of(planned, members, r);
      std::copy(input.begin() + static_cast<std::ptrdiff_t>(part.first),
                input.begin() + static_cast<std::ptrdiff_t>(part.end),
                result.begin() + static_cast<std::ptrdiff_t>(part.first));
    }
    return result;
  }
  if (call.kind == Kind::barrier || call.count == 0) return result;
  if (call.kind == Kind::reduce && call.root != rank) return result;
  std::vector<std::vector<std::byte>> contributions;
  const std::size_t wire_bytes = call.count * dtype_bytes(call.wire_dtype);
  for (std::uint32_t r = 0; r < members; ++r) {
    const std::vector<std::byte> raw = input_of(planned, r);
    contributions.emplace_back(wire_bytes);
    kernels::convert(call.wire_dtype, contributions.back().data(), call.dtype, raw.data(), call.count);
  }
  std::vector<std::byte> sum(wire_bytes);
  if (call.via == wire::Via::ring && settings.ring_order == wire::RingOrder::ring)
    fold_as_ring(planned, contributions, settings, sum);
  else
    fold_from(0, planned, contributions, 0, call.count, sum);
  kernels::convert(call.dtype, result.data(), call.wire_dtype, sum.data(), call.count);
  return result;
}

}  // namespace redsum::sim
