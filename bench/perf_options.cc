// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/perf_types.h"

namespace perf {
namespace {

// Flags as typed; turned into values after CLI11 is through, so that one place makes the messages.
struct Raw {
  std::string min_bytes, max_bytes, step_bytes, in_flight, wire, ops = "sum", dtypes = "fp32", format = "nccl",
                                                                 collective = "allreduce";
  bool no_rollback = false;
  int check = 1, blocking = 1, in_place = 0, time_of = 3;
};

std::string bytes_into(const char* flag, const std::string& text, std::uint64_t& bytes) {
  if (text.empty()) return "";
  const auto parsed = parse_bytes(text);
  if (!parsed) return std::string(flag) + " " + text + ": not a size; write bytes or 4K, 16M, 1G";
  bytes = *parsed;
  return "";
}

std::string collective_into(const Raw& raw, PerfOptions& options) {
  const auto found = std::find(std::begin(kCollectiveNames), std::end(kCollectiveNames), raw.collective);
  if (found == std::end(kCollectiveNames)) {
    std::string known;
    for (const char* name : kCollectiveNames) known += std::string(" ") + name;
    return "--collective " + raw.collective + ": one of" + known;
  }
  options.collective = static_cast<Collective>(found - std::begin(kCollectiveNames));
  if (!takes_tensors(options) && options.tensors != 1)
    return "-u " + std::to_string(options.tensors) + ": --collective " + raw.collective + " has one buffer, not a list";
  if (raw.in_place && (options.collective == Collective::all_to_all || options.collective == Collective::sendrecv))
    return "-I 1: --collective " + raw.collective +
           " cannot be in place, its input and output are never the same memory";
  if (options.collective != Collective::allreduce && !options.workload_file.empty())
    return "--workload replays all-reduces; drop --collective " + raw.collective;
  return "";
}

std::string lists_into(const Raw& raw, PerfOptions& options) {
  std::string unknown;
  options.ops = parse_ops(raw.ops, unknown);
  if (options.ops.empty())
    return "-o " + raw.ops + ": unknown op '" + unknown + "'; one of sum prod min max avg, or all";
  options.dtypes = parse_dtypes(raw.dtypes, unknown);
  if (!reduces(options)) options.ops = {REDSUM_SUM};
  if (options.dtypes.empty()) {
    std::string known;
    for (int i = 0; i < kDtypes; ++i) known += std::string(" ") + dtype_name(static_cast<redsum_dtype>(i));
    return "-d " + raw.dtypes + ": unknown dtype '" + unknown + "'; one of" + known + ", or all";
  }
  return "";
}

std::string wire_into(const Raw& raw, PerfOptions& options) {
  if (raw.wire.empty()) return "";
  const auto wire = parse_dtype(raw.wire);
  if (!reduces(options))
    return "--wire-dtype is for reductions; --collective " + raw.collective + " moves its elements as they are";
  if (wire != REDSUM_BF16 && wire != REDSUM_FP16) return "--wire-dtype " + raw.wire + ": one of bf16 and fp16";
  for (const redsum_dtype dtype : options.dtypes) {
    if (dtype != REDSUM_FP32) {
      return "--wire-dtype " + raw.wire + ": only fp32 data can travel as another type, not " + dtype_name(dtype) +
             "; add -d fp32";
    }
  }
  options.wire_dtype = static_cast<int>(*wire);
  return "";
}

// The first thing that is wrong, or "".
std::string finish(const Raw& raw, PerfOptions& options) {
  for (const std::string& error :
       {bytes_into("-b", raw.min_bytes, options.min_bytes), bytes_into("-e", raw.max_bytes, options.max_bytes),
        bytes_into("-i", raw.step_bytes, options.step_bytes),
        bytes_into("--in-flight", raw.in_flight, options.in_flight_bytes), collective_into(raw, options),
        lists_into(raw, options), wire_into(raw, options)}) {
    if (!error.empty()) return error;
  }
  if (!raw.min_bytes.empty() && raw.max_bytes.empty())
    options.max_bytes = std::max(options.max_bytes, options.min_bytes);
  if (raw.min_bytes.empty()) options.min_bytes = std::min(options.min_bytes, options.max_bytes);
  if (options.max_bytes < options.min_bytes) return "-e " + raw.max_bytes + " is less than -b " + raw.min_bytes;
  if (options.factor != 0 && !(options.factor > 1))
    return "-f must be more than 1 (each size is the last one times it)";
  if (options.factor == 0 && options.step_bytes == 0) return "-i 0 never reaches -e; give a step or a factor -f";
  if (options.factor != 0 && options.min_bytes == 0) return "-f cannot leave size 0; give -b of at least one element";
  if (!options.mode.empty() && options.mode != "server" && options.mode != "direct" && options.mode != "ring")
    return "--mode " + options.mode + ": one of server, direct and ring; auto is not there yet";
  if (!options.ring_order.empty() && options.ring_order != "ring" && options.ring_order != "rank")
    return "--ring-order " + options.ring_order + ": one of ring and rank";
  if (raw.format == "csv")
    options.format = OutputFormat::csv;
  else if (raw.format == "json")
    options.format = OutputFormat::json;
  else if (raw.format != "nccl")
    return "--format " + raw.format + ": one of nccl, csv, json";
  options.check = raw.check != 0;
  options.blocking = raw.blocking != 0;
  options.in_place = raw.in_place != 0;
  options.rollback = !raw.no_rollback;
  options.time_of = static_cast<TimeOf>(raw.time_of);
  if (!options.blocking && options.in_place) return "-z 0 keeps two calls in flight and cannot be in place; drop -I 1";
  return "";
}

}  // namespace

int parse_options(int argc, char** argv, PerfOptions& options) {
  Raw raw;
  CLI::App app{
      "Measures and checks collectives. It is started on every rank:\n"
      "  redsumrun -np 4 --reducers 2 redsum-perf -b 1K -e 64M -f 4"};
  app.option_defaults()->always_capture_default();
  app.add_option("-b,--minbytes", raw.min_bytes, "smallest message (32M)");
  app.add_option("-e,--maxbytes", raw.max_bytes, "largest message (32M)");
  app.add_option("-i,--stepbytes", raw.step_bytes, "step between sizes (1M), where no -f is given");
  app.add_option("-f,--stepfactor", options.factor, "factor between sizes");
  app.add_option("-n,--iters", options.iterations, "timed iterations per row")->check(CLI::Range(1u, 1000000u));
  app.add_option("-w,--warmup_iters", options.warmup, "iterations before the timed ones");
  app.add_option("-c,--check", raw.check, "1: compare every element with the exact result; 0: do not");
  app.add_option(
      "--collective", raw.collective,
      "allreduce, reduce, broadcast (root 0), reduce_scatter, all_gather, all_to_all, gather, scatter (root 0) "
      "or sendrecv (to the next rank, from the one before)");
  app.add_option("-o,--op", raw.ops, "sum prod min max avg, comma separated, or all");
  app.add_option("-d,--datatype", raw.dtypes, "fp32, bf16, int8 ... (also float, half ...), comma separated, or all");
  app.add_option("-z,--blocking", raw.blocking, "1: wait for each call; 0: keep two in flight");
  app.add_option("-a,--average", raw.time_of, "time of a call: 0 of rank 0, 1 mean, 2 min, 3 max over ranks")
      ->check(CLI::Range(0, 3));
  app.add_option("-I,--in_place", raw.in_place, "1: output is the input's memory; 0: its own");
  app.add_option("-u,--fused_tensors", options.tensors, "tensors that one call consists of")
      ->check(CLI::Range(1u, 100000u));
  app.add_option("-J,--json", options.json_file, "also write the results to this file (rank 0)");
  app.add_option("--format", raw.format, "nccl, csv or json");
  app.add_option("--wire-dtype", raw.wire, "send fp32 data as bf16 or fp16, summed in fp32");
  app.add_option("--mode", options.mode,
                 "server: the pool sums; direct, ring: the workers do (default: REDSUM_MODE, else server)");
  app.add_option("--ring-order", options.ring_order,
                 "where the fold of a chunk begins in a ring: ring or rank (default: REDSUM_RING_ORDER, else ring)");
  app.add_option("--key", options.key, "name of the calls in error texts");
  app.add_flag("--no-rollback", raw.no_rollback,
               "do not keep what restores the output after an error (matters with -I 1)");
  app.add_option("--workload", options.workload_file,
                 "replay the gradient buckets of this model (configs/workloads/*.json)");
  app.add_option("--bucket-mib", options.bucket_mib, "bucket size of the replay, as DDP's bucket_cap_mb")
      ->check(CLI::Range(0.001, 65536.0));
  app.add_option("--steps", options.steps, "timed steps of the replay")->check(CLI::Range(1u, 1000000u));
  app.add_option("--in-flight", raw.in_flight, "gradient memory of the replay per rank; default: the whole model");
  app.set_version_flag("--version", "redsum-perf " REDSUM_VERSION);
  app.footer("Exit code: 0, 1 when an element came out wrong or a call failed, 2 for a bad command line.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "redsum-perf: %s\n", error.what());
    return 2;
  }
  if (const std::string error = finish(raw, options); !error.empty()) {
    std::fprintf(stderr, "redsum-perf: %s\n", error.c_str());
    return 2;
  }
  return -1;
}

std::vector<std::uint64_t> table_sizes(const PerfOptions& options) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t size = options.min_bytes;
  while (size <= options.max_bytes) {
    sizes.push_back(size);
    if (options.factor == 0) {
      size += options.step_bytes;
    } else {
      size = std::max(size + 1, static_cast<std::uint64_t>(static_cast<double>(size) * options.factor));
    }
  }
  return sizes;
}

}  // namespace perf
