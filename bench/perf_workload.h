// SPDX-License-Identifier: Apache-2.0
// Replay of a real model's gradients: its parameters in backward order, cut into buckets as PyTorch's DDP cuts them,
// every bucket one asynchronous all-reduce.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bench/perf_options.h"
#include "client/redsum.hpp"

namespace perf {

struct Parameter {
  std::string name;
  std::uint64_t count = 0;  // elements
};

struct Workload {
  std::string name;
  std::vector<Parameter> parameters;  // in forward order
  std::uint64_t count() const;
};

// Reads configs/workloads/*.json. On failure the workload has no parameters and `error` names the file and what is
// wrong.
Workload load_workload(const std::string& path, std::string& error);

// Indices of parameters per bucket, in the order in which they become ready: DDP fills a bucket with the gradients of
// the last parameters first and closes it when it holds at least its limit, 1 MiB for the first bucket and
// `bucket_bytes` for the others.
std::vector<std::vector<std::size_t>> make_buckets(const Workload& workload, std::uint64_t element_bytes,
                                                   std::uint64_t bucket_bytes);

// The whole replay; prints on rank 0. Returns the exit code.
int run_workload(const PerfOptions& options, redsum::Communicator& world);

}  // namespace perf
