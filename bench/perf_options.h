// SPDX-License-Identifier: Apache-2.0
// The command line of redsum-perf: the letters of nccl-tests where it has them. Pure but for the text it prints.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/redsum.h"

namespace perf {

enum class TimeOf { rank0 = 0, average = 1, minimum = 2, maximum = 3 };  // -a
enum class Collective {
  allreduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  all_to_all,
  gather,
  scatter,
  sendrecv,  // to the next rank, from the one before
};
inline constexpr const char* kCollectiveNames[] = {"allreduce",  "reduce", "broadcast", "reduce_scatter", "all_gather",
                                                   "all_to_all", "gather", "scatter",   "sendrecv"};
enum class OutputFormat { nccl, csv, json };

struct PerfOptions {
  std::uint64_t min_bytes = 32u << 20;
  std::uint64_t max_bytes = 32u << 20;
  std::uint64_t step_bytes = 1u << 20;
  double factor = 0;  // 0: add step_bytes
  std::uint32_t iterations = 20;
  std::uint32_t warmup = 2;
  bool check = true;
  Collective collective = Collective::allreduce;
  std::vector<redsum_op> ops;  // one, where nothing is reduced
  std::vector<redsum_dtype> dtypes;
  bool blocking = true;
  TimeOf time_of = TimeOf::maximum;
  bool in_place = false;
  std::uint32_t tensors = 1;
  std::string json_file;
  OutputFormat format = OutputFormat::nccl;
  int wire_dtype = -1;
  std::string mode;        // as given; empty: what REDSUM_MODE says. After the job has formed: its mode
  std::string ring_order;  // likewise: REDSUM_RING_ORDER, then the job's. Of mode ring
  std::string key;
  bool rollback = true;  // of the table's calls; the replay does without, as DDP
  std::string workload_file;
  double bucket_mib = 25;
  std::uint32_t steps = 5;
  std::uint64_t in_flight_bytes = 0;  // 0: all buckets at once
};

// Reads argv into `options`. Returns -1 to go on, else the exit code: 0 after --help, 2 after a message on stderr.
int parse_options(int argc, char** argv, PerfOptions& options);

inline bool reduces(const PerfOptions& options) {
  return options.collective == Collective::allreduce || options.collective == Collective::reduce ||
         options.collective == Collective::reduce_scatter;
}

// One part for each rank, all of the same length.
inline bool has_parts(const PerfOptions& options) {
  return options.collective >= Collective::reduce_scatter && options.collective != Collective::sendrecv;
}

inline bool takes_tensors(const PerfOptions& options) {
  return options.collective <= Collective::broadcast;
}

// The message sizes of the table, in bytes, smallest first.
std::vector<std::uint64_t> table_sizes(const PerfOptions& options);

}  // namespace perf
