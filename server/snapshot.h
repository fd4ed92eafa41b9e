// SPDX-License-Identifier: Apache-2.0
// What a daemon tells about itself: plain values, copied out of the agents for /metrics, /status and redsumctl.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/base/time.h"
#include "transport/wire/control.h"

namespace redsum::server {

// Histogram bounds in seconds: x2 from 50 us to about 60 s. Bucket i counts values <= kLatencyBounds[i]; the last is
// +Inf.
inline constexpr int kLatencyBuckets = 22;
constexpr double latency_bound(int bucket) noexcept {
  double bound = 50e-6;
  for (int i = 0; i < bucket; ++i) bound *= 2;
  return bound;  // of bucket kLatencyBuckets - 1: +Inf for the reader
}
struct LatencyHistogram {
  std::array<std::uint64_t, kLatencyBuckets> counts{};  // not cumulative
  double sum_seconds = 0;
  void add(DurationNs ns) noexcept {
    const double seconds = static_cast<double>(ns) * 1e-9;
    int bucket = 0;
    while (bucket < kLatencyBuckets - 1 && seconds > latency_bound(bucket)) ++bucket;
    ++counts[static_cast<std::size_t>(bucket)];
    sum_seconds += seconds;
  }
  void merge(const LatencyHistogram& other) noexcept {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
    sum_seconds += other.sum_seconds;
  }
};

// Counters of one shard; only grow.
struct ShardCounters {
  std::uint64_t bytes_received = 0, bytes_sent = 0, frames_received = 0, frames_sent = 0, frames_dropped = 0;
  std::uint64_t chunks_reduced = 0;  // slots completed
  std::uint64_t bytes_reduced = 0;   // payload bytes folded (all contributions)
  std::uint64_t nonfinite = 0;       // elements of results that are NaN or infinite
  std::uint64_t mismatches = 0, protocol_errors = 0, lanes_lost = 0;
  LatencyHistogram fold_seconds;  // one fold of one slot
  LatencyHistogram skew_seconds;  // first to last arrival in a slot
  DurationNs busy_ns = 0;         // time not asleep
};

struct RankLag {
  std::uint32_t rank = 0;
  std::uint64_t last_arrivals = 0;  // slots in which this rank was the last to arrive
  double lag_seconds = 0;           // total time between the second to last arrival and this rank's
};

struct JobOnReducer {
  std::string job;
  std::uint32_t world_size = 0;
  std::uint32_t lanes_open = 0;
  std::uint32_t communicators = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t slots_in_use = 0;  // contributions arrived, result not sent
  std::uint64_t chunks_reduced = 0, bytes_reduced = 0, nonfinite = 0;
  std::vector<RankLag> slowest;  // top 8 by lag
};

// Adds what a job has on one more shard to what is known of it.
inline void merge(std::vector<JobOnReducer>& jobs, JobOnReducer&& more) {
  const auto found = std::find_if(jobs.begin(), jobs.end(), [&](const JobOnReducer& j) { return j.job == more.job; });
  if (found == jobs.end()) return jobs.push_back(std::move(more));
  found->lanes_open += more.lanes_open;
  found->reserved_bytes += more.reserved_bytes;
  found->slots_in_use += more.slots_in_use;
  found->chunks_reduced += more.chunks_reduced;
  found->bytes_reduced += more.bytes_reduced;
  found->nonfinite += more.nonfinite;
  for (const RankLag& lag : more.slowest) {
    const auto same = std::find_if(found->slowest.begin(), found->slowest.end(),
                                   [&](const RankLag& l) { return l.rank == lag.rank; });
    if (same == found->slowest.end()) {
      found->slowest.push_back(lag);
    } else {
      same->last_arrivals += lag.last_arrivals;
      same->lag_seconds += lag.lag_seconds;
    }
  }
}

struct ReducerSnapshot {
  std::string name, data_address;
  Incarnation instance = 0;
  bool registered = false, draining = false;  // registered: with a coordinator, now
  std::vector<ShardCounters> shards;
  std::uint64_t budget_bytes = 0, reserved_bytes = 0;
  std::vector<JobOnReducer> jobs;
  std::uint64_t jobs_ended = 0, rejected_reservations = 0, rejected_handshakes = 0;
  TimeNs last_progress = 0;  // when any shard last completed a loop turn, see /livez
  bool stuck = false;        // work is pending and a shard thread has not turned for 10 s
};

struct JobOnCoordinator {
  std::string job, state;  // "forming", "opening", "running", "failed"
  std::uint32_t world_size = 0, joined = 0, communicators = 0;
  Epoch epoch;
  std::vector<std::string> workers;    // "rank host:pid address", first 64
  std::vector<std::uint32_t> missing;  // ranks not joined yet, first 16
  std::string last_error;
  TimeNs since = 0;
};

struct CoordinatorSnapshot {
  std::string address;
  std::vector<wire::ReducerInfo> reducers;
  std::vector<JobOnCoordinator> jobs;
  std::uint64_t jobs_formed = 0, jobs_ended = 0, jobs_failed = 0;
  std::uint64_t epochs_opened = 0;
  std::uint64_t rejected_handshakes = 0;
  std::vector<std::pair<std::string, std::uint64_t>> failures;  // by code name
  TimeNs last_progress = 0;
};

}  // namespace redsum::server
