// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_check.h"

namespace perf {
namespace {

// Part s must be what rank s had at `first`, and so on from part to part with `step`.
std::size_t count_wrong_of_parts(const Pattern& pattern, const std::byte* output, std::uint64_t part,
                                 std::uint64_t first, std::uint64_t step) {
  std::size_t wrong = 0;
  for (std::uint64_t rank = 0; rank < pattern.spec().ranks; ++rank) {
    wrong += pattern.count_wrong_of(rank, output + rank * part * pattern.element_bytes(), first + rank * step, part);
  }
  return wrong;
}

}  // namespace

std::size_t count_wrong_of_call(Collective collective, const FoldOrder& order, Pattern& pattern,
                                const std::byte* output, std::uint64_t count) {
  const std::size_t rank = pattern.spec().rank;
  const std::size_t ranks = pattern.spec().ranks;
  const std::uint64_t part = count / ranks;
  const std::uint64_t own = part * rank;
  const std::byte* own_output = output + own * pattern.element_bytes();
  switch (collective) {
    case Collective::allreduce:
      return count_wrong_of_allreduce(order, pattern, output, count);
    case Collective::reduce:
      return rank == 0 ? pattern.count_wrong(output, 0, count, order.start_for(0)) : 0;
    case Collective::broadcast:
      return pattern.count_wrong_of(0, output, 0, count);
    case Collective::reduce_scatter:
      return pattern.count_wrong(own_output, own, part, order.start_for(rank));
    case Collective::all_gather:
      return count_wrong_of_parts(pattern, output, part, 0, part);
    case Collective::all_to_all:
      return count_wrong_of_parts(pattern, output, part, own, 0);
    case Collective::gather:
      return rank == 0 ? count_wrong_of_parts(pattern, output, part, 0, part) : 0;
    case Collective::scatter:
      return pattern.count_wrong_of(0, own_output, own, part);
    case Collective::sendrecv:
      return pattern.count_wrong_of((rank + ranks - 1) % ranks, output, 0, count);
  }
  return count;
}

}  // namespace perf
