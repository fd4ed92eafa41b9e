// SPDX-License-Identifier: Apache-2.0
// The timed loop of one dtype and op over all sizes of the table.
#pragma once
#include <cstdint>
#include <vector>

#include "bench/perf_buffer.h"
#include "bench/perf_options.h"
#include "bench/perf_order.h"
#include "bench/perf_pattern.h"
#include "bench/perf_report.h"
#include "client/redsum.hpp"

namespace perf {

// Times of all ranks, combined as -a says, element by element. Every rank returns the same.
std::vector<double> combine_times(redsum::Communicator& world, std::vector<double> times_us, TimeOf how);
// Sum over ranks.
std::int64_t sum_over_ranks(redsum::Communicator& world, std::int64_t value);

// One call: of sendrecv both its halves.
struct InFlight {
  redsum::Handle call, send;  // the second of sendrecv alone
  void wait();
};

class Measurement {
 public:
  Measurement(const PerfOptions& options, redsum::Communicator& world, redsum_dtype dtype, redsum_op op);
  Row run(std::uint64_t bytes);

 private:
  InFlight submit(std::size_t set);
  redsum::Handle submit_tensors(std::byte* output, const redsum::CallOptions& call);
  redsum::Handle submit_parts(std::byte* output, const redsum::CallOptions& call);
  InFlight submit_sendrecv(std::byte* output, const redsum::CallOptions& call);
  double one_blocking();  // us; barrier before, outside of the timed part
  std::vector<double> pipelined(std::uint32_t iterations);
  void poison_outputs();
  std::int64_t count_wrong();
  std::byte* output(std::size_t set) { return options_.in_place ? input_.data() : outputs_[set].data(); }

  const PerfOptions& options_;
  redsum::Communicator& world_;
  redsum_dtype dtype_;
  redsum_op op_;
  std::uint64_t ranks_;
  Pattern pattern_;
  FoldOrder order_;
  redsum::CallOptions call_;
  Buffer input_;
  Buffer outputs_[2];  // the second only where two calls are in flight
  std::uint64_t count_ = 0;
};

}  // namespace perf
