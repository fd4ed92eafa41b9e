// SPDX-License-Identifier: Apache-2.0
// redsum-perf: collectives measured and checked, in the manner of nccl-tests.
//   redsumrun -np 4 --reducers 2 redsum-perf -b 1K -e 64M -f 4 -d fp32,bf16 -o sum
// Exit code: 0; 1 when an element came out wrong or a call failed; 2 for a bad command line.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "bench/perf_measure.h"
#include "bench/perf_options.h"
#include "bench/perf_report.h"
#include "bench/perf_types.h"
#include "bench/perf_workload.h"
#include "client/redsum.hpp"

namespace {

int run_table(const perf::PerfOptions& options, redsum::Communicator& world) {
  if (options.collective == perf::Collective::sendrecv && world.size() == 1) {
    std::fprintf(stderr,
                 "redsum-perf: --collective sendrecv at 1 rank: there is no next rank to send to; start at least 2\n");
    return 2;
  }
  perf::Report report(options, world);
  report.begin();
  const std::vector<std::uint64_t> sizes = perf::table_sizes(options);
  for (const redsum_dtype dtype : options.dtypes) {
    for (const redsum_op op : options.ops) {
      if (!perf::reduction_defined(dtype, op)) {
        report.skip(dtype, op);
        continue;
      }
      perf::Measurement measurement(options, world, dtype, op);
      for (const std::uint64_t bytes : sizes) report.add(measurement.run(bytes));
    }
  }
  const bool written = report.end();
  return written && report.total_wrong() == 0 ? 0 : 1;
}

// Ranks that leave the order open follow one that does not.
int agreed_order(const redsum::Options& job, redsum::Communicator& world) {
  std::int32_t order = job.ring_order;
  if (job.mode == REDSUM_MODE_RING) world.allreduce(&order, 1, REDSUM_MAX).wait();
  return order;
}

}  // namespace

int main(int argc, char** argv) {
  perf::PerfOptions options;
  if (const int code = perf::parse_options(argc, argv, options); code >= 0) return code;
  try {
    redsum::Options job;
    constexpr const char* kModes[] = {"server", "direct", "ring"};  // by redsum_mode
    if (!options.mode.empty())
      job.mode = static_cast<std::int32_t>(std::find(std::begin(kModes), std::end(kModes), options.mode) - kModes);
    if (job.mode >= REDSUM_MODE_SERVER && job.mode <= REDSUM_MODE_RING) options.mode = kModes[job.mode];
    if (!options.ring_order.empty())
      job.ring_order = options.ring_order == "rank" ? REDSUM_RING_ORDER_RANK : REDSUM_RING_ORDER_RING;
    redsum::Communicator world(job);
    options.ring_order = agreed_order(job, world) == REDSUM_RING_ORDER_RANK ? "rank" : "ring";
    const int code = options.workload_file.empty() ? run_table(options, world) : perf::run_workload(options, world);
    world.close();
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "redsum-perf: %s\n", error.what());
    return 1;
  }
}
