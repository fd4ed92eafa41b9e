// SPDX-License-Identifier: Apache-2.0
// A daemon with both roles and a job, for the tests of what is shown of it.
#pragma once
#include "server/admin_status.h"

namespace redsum::test {

inline server::DaemonStatus example_status() {
  server::DaemonStatus status;
  status.started = 100 * kSecond;
  status.now = 200 * kSecond;
  server::ReducerSnapshot reducer;
  reducer.name = "r0";
  reducer.data_address = "127.0.0.1:7401";
  reducer.instance = 0xFFFFFFFFFFFFFFFFull;
  reducer.registered = true;
  reducer.budget_bytes = 1u << 30;
  reducer.reserved_bytes = 256u << 20;
  reducer.last_progress = status.now;
  reducer.rejected_handshakes = 2;
  reducer.rejected_reservations = 3;
  for (int i = 0; i < 2; ++i) {
    server::ShardCounters shard;
    shard.bytes_received = 1000;
    shard.bytes_sent = 500;
    shard.bytes_reduced = 900;
    shard.chunks_reduced = 7;
    shard.nonfinite = 3;
    shard.busy_ns = 1500 * kMillisecond;
    shard.fold_seconds.add(60 * kMicrosecond);
    shard.skew_seconds.add(200 * kSecond);
    reducer.shards.push_back(shard);
  }
  server::JobOnReducer job;
  job.job = "resnet";
  job.world_size = 4;
  job.lanes_open = 8;
  job.reserved_bytes = 256u << 20;
  job.bytes_reduced = 1800;
  job.nonfinite = 6;
  job.slowest = {{3, 12, 0.75}, {1, 2, 0.25}};
  reducer.jobs.push_back(job);
  status.reducer = reducer;

  server::CoordinatorSnapshot coordinator;
  coordinator.address = "127.0.0.1:7400";
  wire::ReducerInfo known;
  known.name = "r0";
  known.address = "127.0.0.1:7401";
  known.shards = 2;
  coordinator.reducers.push_back(known);
  server::JobOnCoordinator formed;
  formed.job = "resnet";
  formed.state = "forming";
  formed.world_size = 4;
  formed.joined = 3;
  formed.missing = {2};
  formed.epoch = Epoch(5, 9);
  formed.since = 140 * kSecond;
  coordinator.jobs.push_back(formed);
  coordinator.jobs_ended = 6;
  coordinator.jobs_formed = 7;
  coordinator.jobs_failed = 1;
  coordinator.rejected_handshakes = 5;
  coordinator.failures = {{"peer_lost", 4}};
  coordinator.last_progress = status.now;
  status.coordinator = coordinator;
  return status;
}

}  // namespace redsum::test
