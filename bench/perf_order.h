// SPDX-License-Identifier: Apache-2.0
// Which rank the fold of each element begins with: rank 0, but in a ring of order `ring`. There, as documented, chunk k
// of an all-reduce begins at rank k + 1 modulo n, and what one rank gets at the rank after it. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/perf_options.h"
#include "bench/perf_pattern.h"
#include "client/redsum.h"

namespace perf {

struct FoldRun {  // elements [first, first + count) of a call
  std::uint64_t first = 0, count = 0;
  std::size_t start = 0;  // the rank that their fold begins at
  bool operator==(const FoldRun&) const = default;
};

class FoldOrder {
 public:
  // `options` after the job has formed, `agreed`: what its settings are.
  FoldOrder(const PerfOptions& options, std::size_t ranks, const redsum_statistics& agreed);

  std::vector<FoldRun> of_allreduce(const PatternSpec& spec, std::uint64_t count) const;
  std::size_t start_for(std::size_t receiver) const { return turns_ ? (receiver + 1) % ranks_ : 0; }

 private:
  bool turns_;
  std::size_t ranks_;
  std::uint32_t chunk_bytes_, small_bytes_;
};

// Elements of the result of an all-reduce of `count` that are wrong.
std::size_t count_wrong_of_allreduce(const FoldOrder& order, Pattern& pattern, const std::byte* result,
                                     std::uint64_t count);

}  // namespace perf
