// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>

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

// Parts of a reduce_scatter or all_gather lie where they would lie in place, also in memory of their own.
redsum::Handle Measurement::submit(std::size_t set) {
  const std::size_t element_bytes = redsum_dtype_bytes(dtype_);
  const std::size_t own = own_first() * element_bytes;
  redsum::CallOptions call = call_;
  if (set != 0 && !call.key.empty()) call.key += ".b";  // two calls are in flight, and a key names one
  if (options_.collective == Collective::reduce_scatter)
    return world_.reduce_scatter(input_.data(), output(set) + own, count_ / ranks_, dtype_, op_, call);
  if (options_.collective == Collective::all_gather)
    return world_.all_gather(input_.data() + own, output(set), count_ / ranks_, dtype_, call);
  std::vector<redsum_tensor> tensors(options_.tensors);
  std::uint64_t done = 0;
  for (std::uint64_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t end = count_ * (i + 1) / tensors.size();
    tensors[i] = {input_.data() + done * element_bytes, output(set) + done * element_bytes, end - done};
    done = end;
  }
  if (options_.collective == Collective::reduce)
    return world_.reduce(tensors.data(), tensors.size(), dtype_, op_, 0, call);
  if (options_.collective == Collective::broadcast)
    return world_.broadcast(tensors.data(), tensors.size(), dtype_, 0, call);
  return world_.allreduce(tensors, dtype_, op_, call);
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
  redsum::Handle in_flight[2];
  for (std::uint32_t i = 0; i < iterations; ++i) {
    redsum::Handle& oldest = in_flight[i % 2];
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

std::size_t Measurement::count_wrong(const std::byte* out) {
  const std::size_t element_bytes = redsum_dtype_bytes(dtype_);
  const std::uint64_t part = count_ / ranks_;
  switch (options_.collective) {
    case Collective::broadcast:
      return pattern_.count_wrong_of(0, out, 0, count_);
    case Collective::all_gather: {
      std::size_t wrong = 0;
      for (std::uint64_t rank = 0; rank < ranks_; ++rank)
        wrong += pattern_.count_wrong_of(rank, out + rank * part * element_bytes, rank * part, part);
      return wrong;
    }
    case Collective::reduce_scatter:
      return pattern_.count_wrong(out + own_first() * element_bytes, own_first(), part,
                                  order_.start_for(static_cast<std::size_t>(world_.rank())));
    case Collective::reduce:
      return world_.rank() == 0 ? pattern_.count_wrong(out, 0, count_, order_.start_for(0)) : 0;
    default:
      return count_wrong_of_allreduce(order_, pattern_, out, count_);
  }
}

std::int64_t Measurement::count_wrong() {
  std::size_t wrong = count_wrong(output(0));
  if (!options_.blocking && options_.iterations > 1) wrong += count_wrong(output(1));
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
