// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_order.h"

#include "client/core/ring_core.h"

namespace perf {

FoldOrder::FoldOrder(const PerfOptions& options, std::size_t ranks, const redsum_statistics& agreed)
    : turns_(options.mode == "ring" && options.ring_order == "ring" && ranks > 1),
      ranks_(ranks),
      chunk_bytes_(agreed.chunk_bytes),
      small_bytes_(agreed.small_bytes) {}

std::vector<FoldRun> FoldOrder::of_allreduce(const PatternSpec& spec, std::uint64_t count) const {
  if (!turns_) return {{0, count, 0}};
  redsum::wire::CallDescription call;
  call.dtype = static_cast<redsum::DType>(spec.dtype);
  call.wire_dtype = static_cast<redsum::DType>(spec.wire);
  call.op = static_cast<redsum::Op>(spec.op);
  call.count = count;
  call.via = redsum::wire::Via::ring;
  redsum::wire::JobSettings settings;
  settings.chunk_bytes = chunk_bytes_;
  settings.small_bytes = small_bytes_;
  settings.ring_order = redsum::wire::RingOrder::ring;
  const std::size_t partial = redsum::dtype_bytes(redsum::client::RingCore::partial_dtype_of(call));
  const auto layout = redsum::client::ring_layout(call, static_cast<std::uint32_t>(ranks_), settings, partial);
  std::vector<FoldRun> runs;
  runs.reserve(layout.chunks());
  for (std::uint32_t chunk = 0; chunk < layout.chunks(); ++chunk) {
    const redsum::client::ChunkPiece piece = layout.at(chunk);
    runs.push_back({piece.offset, piece.elements, (chunk + std::size_t{1}) % ranks_});
  }
  return runs;
}

std::size_t count_wrong_of_allreduce(const FoldOrder& order, Pattern& pattern, const std::byte* result,
                                     std::uint64_t count) {
  std::size_t wrong = 0;
  for (const FoldRun& run : order.of_allreduce(pattern.spec(), count)) {
    wrong += pattern.count_wrong(result + run.first * pattern.element_bytes(), run.first, run.count, run.start);
  }
  return wrong;
}

}  // namespace perf
