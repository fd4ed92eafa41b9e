// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "bench/perf_check.h"

namespace perf {
namespace {

using Clock = std::chrono::steady_clock;

double since_us(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

PatternSpec pattern_spec(const PerfOptions& options, redsum::Communicator& world, redsum_dtype dtype, redsum_op op) {
  return {dtype, options.wire_dtype < 0 ? dtype : static_cast<redsum_dtype>(options.wire_dtype), op,
          static_cast<std::size_t>(world.rank()), static_cast<std::size_t>(world.size())};
}

std::uint64_t busier_direction(const redsum_statistics& before, const redsum_statistics& after) {
  return std::max(after.bytes_sent - before.bytes_sent, after.bytes_received - before.bytes_received);
}

}  // namespace

std::vector<double> combine_times(redsum::Communicator& world, std::vector<double> times_us, TimeOf how) {
  constexpr redsum_op kOps[] = {REDSUM_SUM, REDSUM_AVG, REDSUM_MIN, REDSUM_MAX};
  if (how == TimeOf::rank0)
    world.broadcast(times_us, 0).wait();
  else
    world.allreduce(times_us, kOps[static_cast<int>(how)]).wait();
  return times_us;
}

std::int64_t sum_over_ranks(redsum::Communicator& world, std::int64_t value) {
  world.allreduce(&value, 1, REDSUM_SUM).wait();
  return value;
}

void InFlight::wait() {
  call.wait();
  if (send.c_handle() != nullptr) send.wait();
}

Measurement::Measurement(const PerfOptions& options, redsum::Communicator& world, redsum_dtype dtype, redsum_op op)
    : options_(options),
      world_(world),
      dtype_(dtype),
      op_(op),
      ranks_(static_cast<std::uint64_t>(world.size())),
      pattern_(pattern_spec(options, world, dtype, op), options.max_bytes / redsum_dtype_bytes(dtype)),
      order_(options, static_cast<std::size_t>(ranks_), world.stats()),
      input_(options.max_bytes) {
  call_.wire_dtype = options.wire_dtype;
  call_.key = options.key;
  call_.rollback = options.rollback;
  if (options.in_place) return;
  outputs_[0] = Buffer(options.max_bytes);
  if (!options.blocking) outputs_[1] = Buffer(options.max_bytes);
}

redsum::Handle Measurement::submit_tensors(std::byte* output, const redsum::CallOptions& call) {
  const std::size_t element_bytes = redsum_dtype_bytes(dtype_);
  std::vector<redsum_tensor> tensors(options_.tensors);
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t end = count_ * (i + 1) / tensors.size();
    tensors[i] = {input_.data() + done * element_bytes, output + done * element_bytes, end - done};
    done = end;
  }
  if (options_.collective == Collective::reduce)
    return world_.reduce(tensors.data(), tensors.size(), dtype_, op_, 0, call);
  if (options_.collective == Collective::broadcast)
    return world_.broadcast(tensors.data(), tensors.size(), dtype_, 0, call);
  return world_.allreduce(tensors, dtype_, op_, call);
}

// Parts lie where they would lie in place, also in memory of their own. What only the root has is no memory elsewhere.
redsum::Handle Measurement::submit_parts(std::byte* output, const redsum::CallOptions& call) {
  const std::uint64_t part = count_ / ranks_;
  const std::size_t own = part * static_cast<std::uint64_t>(world_.rank()) * redsum_dtype_bytes(dtype_);
  const bool is_root = world_.rank() == 0;
  switch (options_.collective) {
    case Collective::reduce_scatter:
      return world_.reduce_scatter(input_.data(), output + own, part, dtype_, op_, call);
    case Collective::all_gather:
      return world_.all_gather(input_.data() + own, output, part, dtype_, call);
    case Collective::gather:
      return world_.gather(input_.data() + own, is_root ? output : nullptr, part, dtype_, 0, call);
    case Collective::scatter:
      return world_.scatter(is_root ? input_.data() : nullptr, output + own, part, dtype_, 0, call);
    default:
      return world_.all_to_all(input_.data(), output, part, dtype_, call);
  }
}

// The receive first, so that its memory is known when data comes. A key names one call of a rank, and is the same on
// both sides: that of the sender.
InFlight Measurement::submit_sendrecv(std::byte* output, const redsum::CallOptions& call) {
  const int ranks = world_.size(), rank = world_.rank();
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  redsum::CallOptions receiving = call, sending = call;
  if (!call.key.empty()) {
    receiving.key += "." + std::to_string(before);
    sending.key += "." + std::to_string(rank);
  }
  redsum::Handle receive = world_.recv(output, count_, dtype_, before, receiving);
  return {std::move(receive), world_.send(input_.data(), count_, dtype_, next, sending)};
}

InFlight Measurement::submit(std::size_t set) {
  redsum::CallOptions call = call_;
  if (set != 0 && !call.key.empty()) call.key += ".b";  // two calls are in flight, and a key names one
  if (options_.collective == Collective::sendrecv) return submit_sendrecv(output(set), call);
  if (has_parts(options_)) return {submit_parts(output(set), call), {}};
  return {submit_tensors(output(set), call), {}};
}

double Measurement::one_blocking() {
  if (options_.in_place) pattern_.fill_input(input_.data(), count_);
  world_.barrier();
  const Clock::time_point start = Clock::now();
  submit(0).wait();
  return since_us(start);
}

std::vector<double> Measurement::pipelined(std::uint32_t iterations) {
  std::vector<double> times;
  world_.barrier();
  Clock::time_point last = Clock::now();
  InFlight in_flight[2];
  for (std::uint32_t i = 0; i < iterations; ++i) {
    InFlight& oldest = in_flight[i % 2];
    if (i >= 2) {
      oldest.wait();
      times.push_back(since_us(last));
      last = Clock::now();
    }
    oldest = submit(i % 2);
  }
  for (std::uint32_t i = iterations < 2 ? 0 : iterations - 2; i < iterations; ++i) {
    in_flight[i % 2].wait();
    times.push_back(since_us(last));
    last = Clock::now();
  }
  return times;
}

void Measurement::poison_outputs() {
  if (options_.in_place) return;
  const std::size_t bytes = count_ * redsum_dtype_bytes(dtype_);
  for (Buffer& buffer : outputs_) {
    if (buffer.data() != nullptr) std::memset(buffer.data(), 0xA5, bytes);
  }
}

std::int64_t Measurement::count_wrong() {
  const std::size_t sets = !options_.blocking && options_.iterations > 1 ? 2 : 1;
  std::size_t wrong = 0;
  for (std::size_t set = 0; set < sets; ++set) {
    wrong += count_wrong_of_call(options_.collective, order_, pattern_, output(set), count_);
  }
  return static_cast<std::int64_t>(wrong);
}

Row Measurement::run(std::uint64_t bytes) {
  Row row;
  count_ = bytes / redsum_dtype_bytes(dtype_);
  if (has_parts(options_)) count_ -= count_ % ranks_;
  row.count = has_parts(options_) ? count_ / ranks_ : count_;
  row.bytes = count_ * redsum_dtype_bytes(dtype_);
  row.dtype = dtype_;
  row.op = op_;
  pattern_.fill_input(input_.data(), count_);
  poison_outputs();
  for (std::uint32_t i = 0; i < options_.warmup; ++i) (void)one_blocking();
  std::vector<double> times;
  std::uint64_t nic_bytes = 0;
  if (options_.blocking) {
    for (std::uint32_t i = 0; i < options_.iterations; ++i) {
      if (i + 1 == options_.iterations) poison_outputs();  // what is checked is what the last timed call wrote
      const redsum_statistics before = world_.stats();
      times.push_back(one_blocking());
      nic_bytes += busier_direction(before, world_.stats());
    }
  } else {
    const redsum_statistics before = world_.stats();
    times = pipelined(options_.iterations);
    nic_bytes = busier_direction(before, world_.stats());
  }
  const std::int64_t wrong = options_.check ? sum_over_ranks(world_, count_wrong()) : -1;
  row.wrong = wrong;
  times = combine_times(world_, std::move(times), options_.time_of);
  row.median_us = quantile(times, 0.5);
  row.p99_us = quantile(times, 0.99);
  row.nic_bytes = static_cast<double>(nic_bytes) / options_.iterations;
  return row;
}

}  // namespace perf
