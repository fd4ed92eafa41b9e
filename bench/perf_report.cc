// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_report.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/perf_types.h"

namespace perf {
namespace {

double gb_per_s(double bytes, double us) {
  return us > 0 ? bytes / us / 1e3 : 0;
}

const char* transport_name() {
  const char* name = std::getenv("REDSUM_TRANSPORT");
  return name != nullptr && *name != '\0' ? name : "tcp";
}

const char* wire_name(const PerfOptions& options) {
  return options.wire_dtype < 0 ? "as data" : dtype_name(static_cast<redsum_dtype>(options.wire_dtype));
}

constexpr const char* kTimeOfNames[] = {"rank 0", "mean over ranks", "min over ranks", "max over ranks"};

}  // namespace

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(q * static_cast<double>(values.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return values[std::min(index, values.size() - 1)];
}

std::string describe_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const int count = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
  std::string model = "unknown";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    model = line.substr(line.find(':') + 2);
    break;
  }
  return std::to_string(count) + " x " + model;
}

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << "\n";
  if (file.flush()) return true;
  std::fprintf(stderr, "redsum-perf: -J %s: cannot write the file\n", path.c_str());
  return false;
}

Report::Report(const PerfOptions& options, redsum::Communicator& world)
    : options_(options), prints_(world.rank() == 0), ranks_(world.size()), stats_(world.stats()) {}

double Report::busbw_factor() const {
  const double others = static_cast<double>(ranks_ - 1) / ranks_;
  switch (options_.collective) {
    case Collective::allreduce:
      return 2 * others;
    case Collective::reduce:
    case Collective::broadcast:
    case Collective::sendrecv:
      return 1;
    default:  // calls with parts: a rank's own does not travel
      return others;
  }
}

const char* Report::op_text(redsum_op op) const {
  return reduces(options_) ? op_name(op) : "none";
}

void Report::begin() {
  if (!prints_ || options_.format == OutputFormat::json) return;
  if (options_.format == OutputFormat::csv) {
    std::printf("size,count,type,redop,time_us,algbw_gb_s,busbw_gb_s,wrong,nicbw_gb_s,p99_us\n");
    return;
  }
  const std::string mode = options_.mode + (options_.mode == "ring" ? " (order " + options_.ring_order + ")" : "");
  std::printf("# redsum-perf %s, %s: world %d, mode %s, transport %s, reducers %u (%u shards), chunk %u, window %u\n",
              redsum_version(), kCollectiveNames[static_cast<int>(options_.collective)], ranks_, mode.c_str(),
              transport_name(), stats_.reducers, stats_.shards, stats_.chunk_bytes, stats_.window);
  std::printf("# cpus %s; %s, %u tensor%s per call, wire %s, %u iterations after %u; time: median of the %s\n",
              describe_cpus().c_str(), options_.in_place ? "in place" : "out of place", options_.tensors,
              options_.tensors == 1 ? "" : "s", wire_name(options_), options_.iterations, options_.warmup,
              kTimeOfNames[static_cast<int>(options_.time_of)]);
  std::printf("#%12s %12s %11s %6s %11s %8s %8s %7s %8s %11s\n", "size", "count", "type", "redop", "time", "algbw",
              "busbw", "#wrong", "nicbw", "p99");
  std::printf("#%12s %12s %11s %6s %11s %8s %8s %7s %8s %11s\n", "(B)", "(elements)", "", "", "(us)", "(GB/s)",
              "(GB/s)", "", "(GB/s)", "(us)");
  std::fflush(stdout);
}

void Report::add(const Row& row) {
  rows_.push_back(row);
  if (row.wrong > 0) total_wrong_ += static_cast<std::uint64_t>(row.wrong);
  if (!prints_ || options_.format == OutputFormat::json) return;
  const double algbw = gb_per_s(static_cast<double>(row.bytes), row.median_us);
  const std::string wrong = row.wrong < 0 ? "N/A" : std::to_string(row.wrong);
  const char* layout = options_.format == OutputFormat::csv
                           ? "%llu,%llu,%s,%s,%.2f,%.4f,%.4f,%s,%.4f,%.2f\n"
                           : " %12llu %12llu %11s %6s %11.2f %8.3f %8.3f %7s %8.3f %11.2f\n";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  std::printf(layout, static_cast<unsigned long long>(row.bytes), static_cast<unsigned long long>(row.count),
              dtype_name(row.dtype), op_text(row.op), row.median_us, algbw, algbw * busbw_factor(), wrong.c_str(),
              gb_per_s(row.nic_bytes, row.median_us), row.p99_us);
#pragma GCC diagnostic pop
  std::fflush(stdout);
}

void Report::skip(redsum_dtype dtype, redsum_op op) {
  skipped_.push_back(std::string(dtype_name(dtype)) + " " + op_name(op));
  if (prints_ && options_.format == OutputFormat::nccl) {
    std::printf("# skipped: %s (complex numbers have sum and avg only)\n", skipped_.back().c_str());
  }
}

nlohmann::json Report::to_json() const {
  nlohmann::json results = nlohmann::json::array();
  for (const Row& row : rows_) {
    const double algbw = gb_per_s(static_cast<double>(row.bytes), row.median_us);
    nlohmann::json one = {{"size", row.bytes},
                          {"count", row.count},
                          {"type", dtype_name(row.dtype)},
                          {"redop", op_text(row.op)},
                          {"time_us", row.median_us},
                          {"p99_us", row.p99_us},
                          {"algbw_gb_s", algbw},
                          {"busbw_gb_s", algbw * busbw_factor()},
                          {"nicbw_gb_s", gb_per_s(row.nic_bytes, row.median_us)}};
    one["wrong"] = row.wrong < 0 ? nlohmann::json(nullptr) : nlohmann::json(row.wrong);
    results.push_back(std::move(one));
  }
  return {{"version", redsum_version()},
          {"collective", kCollectiveNames[static_cast<int>(options_.collective)]},
          {"world_size", ranks_},
          {"mode", options_.mode},
          {"ring_order", options_.mode == "ring" ? nlohmann::json(options_.ring_order) : nlohmann::json(nullptr)},
          {"transport", transport_name()},
          {"reducers", stats_.reducers},
          {"shards", stats_.shards},
          {"chunk_bytes", stats_.chunk_bytes},
          {"window", stats_.window},
          {"cpus", describe_cpus()},
          {"in_place", options_.in_place},
          {"tensors", options_.tensors},
          {"wire_dtype", wire_name(options_)},
          {"iterations", options_.iterations},
          {"time_of", kTimeOfNames[static_cast<int>(options_.time_of)]},
          {"skipped", skipped_},
          {"total_wrong", total_wrong_},
          {"results", results}};
}

bool Report::end() {
  if (!prints_) return true;
  if (options_.format == OutputFormat::json) std::printf("%s\n", to_json().dump(2).c_str());
  if (options_.format == OutputFormat::nccl) {
    double sum = 0;
    for (const Row& row : rows_) sum += gb_per_s(static_cast<double>(row.bytes), row.median_us) * busbw_factor();
    std::printf("# Out of bounds values : %llu %s\n", static_cast<unsigned long long>(total_wrong_),
                !options_.check     ? "not checked"
                : total_wrong_ == 0 ? "OK"
                                    : "FAILED");
    std::printf("# Avg bus bandwidth    : %.4f\n", rows_.empty() ? 0.0 : sum / static_cast<double>(rows_.size()));
  }
  return options_.json_file.empty() || write_file(options_.json_file, to_json().dump(2));
}

}  // namespace perf
