// SPDX-License-Identifier: Apache-2.0
// What redsum-perf prints: the table of nccl-tests with a column of its own, or CSV, or JSON; on rank 0 only.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bench/perf_options.h"
#include "client/redsum.hpp"

namespace perf {

// One row. `bytes` are those of the whole (of all ranks' parts, where the call has parts); `count` is what the call is
// given, so the elements of one part, as in nccl-tests. Bandwidths follow from these numbers: algbw = bytes / t, busbw
// = algbw x the collective's factor, as in nccl-tests, nicbw = nic_bytes / t (what went over one worker's lanes in the
// busier direction, headers included; in direct mode with the share that stays on the host).
struct Row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  redsum_dtype dtype = REDSUM_FP32;
  redsum_op op = REDSUM_SUM;
  double median_us = 0;
  double p99_us = 0;
  double nic_bytes = 0;     // per call
  std::int64_t wrong = -1;  // over all ranks; -1: not checked
};

// The q-quantile by nearest rank (0.5: median, the lower one of two). `values` is not empty.
double quantile(std::vector<double> values, double q);

class Report {
 public:
  Report(const PerfOptions& options, redsum::Communicator& world);
  void begin();
  void add(const Row& row);
  void skip(redsum_dtype dtype, redsum_op op);
  bool end();  // closes the table and writes the JSON file; false, with a message on stderr, when it cannot
  std::uint64_t total_wrong() const { return total_wrong_; }

 private:
  nlohmann::json to_json() const;
  double busbw_factor() const;
  const char* op_text(redsum_op op) const;  // "none" where nothing is reduced
  const PerfOptions& options_;
  bool prints_;
  int ranks_;
  redsum_statistics stats_;
  std::vector<Row> rows_;
  std::vector<std::string> skipped_;
  std::uint64_t total_wrong_ = 0;
};

// For -J. False, with a message on stderr, when the file cannot be written.
bool write_file(const std::string& path, const std::string& text);

// One line about this machine: processors allowed, model.
std::string describe_cpus();

}  // namespace perf
