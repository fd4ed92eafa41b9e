// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_workload.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/perf_buffer.h"
#include "bench/perf_measure.h"
#include "bench/perf_order.h"
#include "bench/perf_pattern.h"
#include "bench/perf_types.h"

namespace perf {
namespace {

constexpr std::uint64_t kFirstBucketBytes = 1u << 20;
using Clock = std::chrono::steady_clock;

std::uint64_t available_bytes_per_rank() {
  std::ifstream info("/proc/meminfo");
  std::uint64_t kib = 0;
  for (std::string word; info >> word;) {
    if (word == "MemAvailable:") {
      info >> kib;
      break;
    }
  }
  const char* local = std::getenv("LOCAL_WORLD_SIZE");
  const std::uint64_t ranks = local != nullptr ? std::strtoull(local, nullptr, 10) : 1;
  return kib * 1024 / 2 / std::max<std::uint64_t>(ranks, 1);
}

// The model's gradients of one rank: a buffer per bucket, or fewer where memory is limited; then bucket i waits for the
// call that used its buffer before.
class Replay {
 public:
  Replay(const PerfOptions& options, redsum::Communicator& world, Workload workload);
  std::string allocate();  // "" or why there is not enough memory; before anything else
  double step();           // one backward pass' worth of all-reduces; us
  std::int64_t check();    // one step on crafted inputs; elements that came out wrong, over all ranks
  std::uint64_t bytes() const { return workload_.count() * element_bytes_; }
  std::size_t bucket_count() const { return buckets_.size(); }
  std::uint64_t largest_bucket_bytes() const { return largest_bytes_; }
  const std::string& name() const { return workload_.name; }

 private:
  redsum::Handle submit(std::size_t bucket);
  std::uint64_t bucket_elements(std::size_t bucket) const;
  std::uint64_t buffer_bytes(std::size_t buffer) const;
  const PerfOptions& options_;
  redsum::Communicator& world_;
  redsum_dtype dtype_;
  redsum_op op_;
  std::uint64_t element_bytes_;
  Workload workload_;
  std::vector<std::vector<std::size_t>> buckets_;
  std::uint64_t largest_bytes_ = 0;
  std::vector<Buffer> buffers_;
  redsum::CallOptions call_;
};

Replay::Replay(const PerfOptions& options, redsum::Communicator& world, Workload workload)
    : options_(options),
      world_(world),
      dtype_(options.dtypes.front()),
      op_(options.ops.front()),
      element_bytes_(redsum_dtype_bytes(dtype_)),
      workload_(std::move(workload)),
      buckets_(make_buckets(workload_, element_bytes_, static_cast<std::uint64_t>(options.bucket_mib * 0x1p20))) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    largest_bytes_ = std::max(largest_bytes_, bucket_elements(b) * element_bytes_);
  }
  call_.wire_dtype = options.wire_dtype;
  call_.rollback = false;  // what DDP's users are promised
}

std::string Replay::allocate() {
  const std::uint64_t limit = options_.in_flight_bytes != 0 ? options_.in_flight_bytes : available_bytes_per_rank();
  const bool all = bytes() <= limit;
  if (!all && options_.in_flight_bytes == 0) {
    return "--workload " + workload_.name + ": its gradients of " + std::to_string(bytes() >> 20) +
           " MiB per rank are more than the " + std::to_string(limit >> 20) +
           " MiB that half of this machine's free memory gives each; limit them with --in-flight 1G";
  }
  const std::size_t count = all ? buckets_.size() : std::max<std::size_t>(limit / largest_bytes_, 1);
  for (std::size_t i = 0; i < std::min(count, buckets_.size()); ++i) {
    buffers_.emplace_back(all ? bucket_elements(i) * element_bytes_ : largest_bytes_);
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) std::fill_n(buffers_[i].data(), buffer_bytes(i), std::byte{0});
  return "";
}

std::uint64_t Replay::bucket_elements(std::size_t bucket) const {
  std::uint64_t count = 0;
  for (const std::size_t p : buckets_[bucket]) count += workload_.parameters[p].count;
  return count;
}

std::uint64_t Replay::buffer_bytes(std::size_t buffer) const {
  return buffers_.size() == buckets_.size() ? bucket_elements(buffer) * element_bytes_ : largest_bytes_;
}

redsum::Handle Replay::submit(std::size_t bucket) {
  std::vector<redsum_tensor> tensors;
  std::byte* at = buffers_[bucket % buffers_.size()].data();
  for (const std::size_t p : buckets_[bucket]) {
    tensors.push_back({at, at, workload_.parameters[p].count});
    at += workload_.parameters[p].count * element_bytes_;
  }
  return world_.allreduce(tensors, dtype_, op_, call_);
}

double Replay::step() {
  world_.barrier();
  const Clock::time_point start = Clock::now();
  std::vector<redsum::Handle> in_flight(buffers_.size());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    redsum::Handle& slot = in_flight[b % in_flight.size()];
    if (b >= in_flight.size()) slot.wait();
    slot = submit(b);
  }
  for (redsum::Handle& handle : in_flight) handle.wait();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

std::int64_t Replay::check() {
  const redsum_dtype wire = options_.wire_dtype < 0 ? dtype_ : static_cast<redsum_dtype>(options_.wire_dtype);
  const auto ranks = static_cast<std::size_t>(world_.size());
  Pattern pattern({dtype_, wire, op_, static_cast<std::size_t>(world_.rank()), ranks}, kPatternPeriod);
  const FoldOrder order(options_, ranks, world_.stats());
  std::int64_t wrong = 0;
  std::vector<redsum::Handle> in_flight(buffers_.size());
  const auto finish = [&](std::size_t b) {
    in_flight[b % in_flight.size()].wait();
    wrong += static_cast<std::int64_t>(
        count_wrong_of_allreduce(order, pattern, buffers_[b % buffers_.size()].data(), bucket_elements(b)));
  };
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (b >= in_flight.size()) finish(b - in_flight.size());
    pattern.fill_input(buffers_[b % buffers_.size()].data(), bucket_elements(b));
    in_flight[b % in_flight.size()] = submit(b);
  }
  for (std::size_t b = buckets_.size() - in_flight.size(); b < buckets_.size(); ++b) finish(b);
  for (std::size_t i = 0; i < buffers_.size(); ++i) {  // zeros stay finite, whatever is done to them and how often
    std::fill_n(buffers_[i].data(), buffer_bytes(i), std::byte{0});
  }
  return sum_over_ranks(world_, wrong);
}

bool print_result(const PerfOptions& options, const Replay& replay, const std::vector<double>& times,
                  std::int64_t wrong, double nic_bytes) {
  const double median_us = quantile(times, 0.5);
  const double p99_us = quantile(times, 0.99);
  const double gb_s = static_cast<double>(replay.bytes()) / median_us / 1e3;
  const nlohmann::json json = {{"workload", replay.name()},
                               {"bytes", replay.bytes()},
                               {"buckets", replay.bucket_count()},
                               {"largest_bucket_bytes", replay.largest_bucket_bytes()},
                               {"bucket_mib", options.bucket_mib},
                               {"type", dtype_name(options.dtypes.front())},
                               {"redop", op_name(options.ops.front())},
                               {"steps", options.steps},
                               {"step_us", median_us},
                               {"step_p99_us", p99_us},
                               {"algbw_gb_s", gb_s},
                               {"nicbw_gb_s", nic_bytes / median_us / 1e3},
                               {"wrong", wrong}};
  if (options.format == OutputFormat::json) {
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("# workload %s: %.1f MiB of %s gradients in %zu buckets (largest %.1f MiB), %u steps, cpus %s\n",
                replay.name().c_str(), static_cast<double>(replay.bytes()) / 0x1p20, dtype_name(options.dtypes.front()),
                replay.bucket_count(), static_cast<double>(replay.largest_bucket_bytes()) / 0x1p20, options.steps,
                describe_cpus().c_str());
    std::printf("step median %.2f ms, p99 %.2f ms, algbw %.3f GB/s, nicbw %.3f GB/s, #wrong %s\n", median_us / 1e3,
                p99_us / 1e3, gb_s, nic_bytes / median_us / 1e3, wrong < 0 ? "N/A" : std::to_string(wrong).c_str());
  }
  return options.json_file.empty() || write_file(options.json_file, json.dump(2));
}

}  // namespace

std::uint64_t Workload::count() const {
  std::uint64_t sum = 0;
  for (const Parameter& parameter : parameters) sum += parameter.count;
  return sum;
}

Workload load_workload(const std::string& path, std::string& error) {
  Workload workload;
  std::ifstream file(path);
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!file || json.is_discarded()) {
    error = "--workload " + path + ": " + (file ? "not JSON" : "cannot read the file");
    return workload;
  }
  try {
    workload.name = json.at("name").get<std::string>();
    for (const nlohmann::json& entry : json.at("parameters")) {
      Parameter parameter{entry.at(0).get<std::string>(), 1};
      for (const nlohmann::json& extent : entry.at(1)) parameter.count *= extent.get<std::uint64_t>();
      workload.parameters.push_back(std::move(parameter));
    }
    if (workload.parameters.empty()) error = "--workload " + path + ": no parameters in it";
  } catch (const nlohmann::json::exception& problem) {
    error = "--workload " + path + ": " + problem.what();
    workload.parameters.clear();
  }
  return workload;
}

std::vector<std::vector<std::size_t>> make_buckets(const Workload& workload, std::uint64_t element_bytes,
                                                   std::uint64_t bucket_bytes) {
  std::vector<std::vector<std::size_t>> buckets;
  std::vector<std::size_t> open;
  std::uint64_t open_bytes = 0;
  for (std::size_t i = workload.parameters.size(); i-- > 0;) {
    open.push_back(i);
    open_bytes += workload.parameters[i].count * element_bytes;
    if (open_bytes < (buckets.empty() ? std::min(kFirstBucketBytes, bucket_bytes) : bucket_bytes)) continue;
    buckets.push_back(std::move(open));
    open.clear();
    open_bytes = 0;
  }
  if (!open.empty()) buckets.push_back(std::move(open));
  return buckets;
}

int run_workload(const PerfOptions& options, redsum::Communicator& world) {
  std::string error;
  Workload workload = load_workload(options.workload_file, error);
  if (!error.empty()) {
    if (world.rank() == 0) std::fprintf(stderr, "redsum-perf: %s\n", error.c_str());
    return 2;
  }
  Replay replay(options, world, std::move(workload));
  if (const std::string problem = replay.allocate(); !problem.empty()) {
    std::fprintf(stderr, "redsum-perf: %s\n", problem.c_str());
    return 1;
  }
  const std::int64_t wrong = options.check ? replay.check() : -1;
  for (std::uint32_t i = 0; i < options.warmup; ++i) (void)replay.step();
  std::vector<double> times;
  const redsum_statistics before = world.stats();
  for (std::uint32_t i = 0; i < options.steps; ++i) times.push_back(replay.step());
  const redsum_statistics after = world.stats();
  times = combine_times(world, std::move(times), options.time_of);
  const std::uint64_t nic =
      std::max(after.bytes_sent - before.bytes_sent, after.bytes_received - before.bytes_received);
  const bool printed =
      world.rank() != 0 || print_result(options, replay, times, wrong, static_cast<double>(nic) / options.steps);
  return wrong > 0 || !printed ? 1 : 0;
}

}  // namespace perf
