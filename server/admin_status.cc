// SPDX-License-Identifier: Apache-2.0
#include "server/admin_status.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "transport/wire/handshake.h"

namespace redsum::server {
namespace {

using Json = nlohmann::ordered_json;

double seconds(DurationNs ns) {
  return static_cast<double>(ns) * 1e-9;
}

Json shard_json(const ShardCounters& shard) {
  return {{"bytes_received", shard.bytes_received},   {"bytes_sent", shard.bytes_sent},
          {"frames_received", shard.frames_received}, {"frames_sent", shard.frames_sent},
          {"frames_dropped", shard.frames_dropped},   {"chunks_reduced", shard.chunks_reduced},
          {"bytes_reduced", shard.bytes_reduced},     {"nonfinite", shard.nonfinite},
          {"mismatches", shard.mismatches},           {"protocol_errors", shard.protocol_errors},
          {"lanes_lost", shard.lanes_lost},           {"fold_seconds", shard.fold_seconds.sum_seconds},
          {"busy_seconds", seconds(shard.busy_ns)}};
}

Json job_json(const JobOnReducer& job) {
  Json slowest = Json::array();
  for (const RankLag& lag : job.slowest)
    slowest.push_back({{"rank", lag.rank}, {"lag_seconds", lag.lag_seconds}, {"last_arrivals", lag.last_arrivals}});
  return {{"job", job.job},
          {"world_size", job.world_size},
          {"lanes_open", job.lanes_open},
          {"communicators", job.communicators},
          {"reserved_bytes", job.reserved_bytes},
          {"slots_in_use", job.slots_in_use},
          {"chunks_reduced", job.chunks_reduced},
          {"bytes_reduced", job.bytes_reduced},
          {"nonfinite", job.nonfinite},
          {"slowest", std::move(slowest)}};
}

Json reducer_json(const ReducerSnapshot& reducer, TimeNs now) {
  Json shards = Json::array(), jobs = Json::array();
  for (const ShardCounters& shard : reducer.shards) shards.push_back(shard_json(shard));
  for (const JobOnReducer& job : reducer.jobs) jobs.push_back(job_json(job));
  return {{"name", reducer.name},
          {"address", reducer.data_address},
          {"instance", std::to_string(reducer.instance)},  // as text: scripts read numbers as doubles
          {"registered", reducer.registered},
          {"draining", reducer.draining},
          {"stuck", reducer.stuck},
          {"last_progress_seconds_ago", reducer.last_progress == 0 ? 0.0 : seconds(now - reducer.last_progress)},
          {"budget_bytes", reducer.budget_bytes},
          {"reserved_bytes", reducer.reserved_bytes},
          {"jobs_ended", reducer.jobs_ended},
          {"rejected_reservations", reducer.rejected_reservations},
          {"rejected_handshakes", reducer.rejected_handshakes},
          {"shards", std::move(shards)},
          {"jobs", std::move(jobs)}};
}

Json job_json(const JobOnCoordinator& job, TimeNs now) {
  return {{"job", job.job},
          {"state", job.state},
          {"world_size", job.world_size},
          {"joined", job.joined},
          {"missing", job.missing},
          {"communicators", job.communicators},
          {"epoch", {{"term", job.epoch.term()}, {"count", job.epoch.count()}}},
          {"seconds", job.since == 0 ? 0.0 : seconds(now - job.since)},
          {"last_error", job.last_error},
          {"workers", job.workers}};
}

Json coordinator_json(const CoordinatorSnapshot& coordinator, TimeNs now) {
  Json reducers = Json::array(), jobs = Json::array(), failures = Json::object();
  for (const wire::ReducerInfo& reducer : coordinator.reducers)
    reducers.push_back({{"name", reducer.name},
                        {"address", reducer.address},
                        {"instance", std::to_string(reducer.instance)},
                        {"shards", reducer.shards},
                        {"weight", reducer.weight}});
  for (const JobOnCoordinator& job : coordinator.jobs) jobs.push_back(job_json(job, now));
  for (const auto& [code, count] : coordinator.failures) failures[code] = count;
  return {{"address", coordinator.address},
          {"reducers", std::move(reducers)},
          {"jobs", std::move(jobs)},
          {"jobs_formed", coordinator.jobs_formed},
          {"jobs_ended", coordinator.jobs_ended},
          {"jobs_failed", coordinator.jobs_failed},
          {"rejected_handshakes", coordinator.rejected_handshakes},
          {"failures", std::move(failures)}};
}

std::string dumped(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

Verdict readiness(const DaemonStatus& status) {
  if (status.starting) return {false, "starting"};
  if (status.draining || (status.reducer && status.reducer->draining)) return {false, "draining: no new job is taken"};
  if (status.reducer && !status.reducer->registered) return {false, "the reducer is not registered with a coordinator"};
  if (!status.reducer && !status.coordinator) return {false, "no role runs"};
  return {};
}

Verdict liveness(const DaemonStatus& status) {
  if (status.silent > kStuckAfter)
    return {false, "the daemon's threads have not answered for " + std::to_string(status.silent / kSecond) + " s"};
  if (status.reducer && status.reducer->stuck)
    return {false,
            "the reducer has work and a shard has not moved for " + std::to_string(kStuckAfter / kSecond) + " s"};
  // With members there are heartbeats, so the coordinator's thread turns several times a second.
  if (status.coordinator && status.coordinator->last_progress != 0) {
    const bool has_members = !status.coordinator->reducers.empty() || !status.coordinator->jobs.empty();
    if (const DurationNs still = status.now - status.coordinator->last_progress; has_members && still > kStuckAfter)
      return {false, "the coordinator has members and has not moved for " + std::to_string(still / kSecond) + " s"};
  }
  return {};
}

std::string status_json(const DaemonStatus& status) {
  const Verdict ready = readiness(status), live = liveness(status);
  Json json = {{"version", REDSUM_VERSION},
               {"pid", ::getpid()},
               {"uptime_seconds", seconds(status.now - status.started)},
               {"ready", ready.ok},
               {"ready_text", ready.text},
               {"live", live.ok},
               {"live_text", live.text},
               {"draining", status.draining}};
  if (status.reducer) json["reducer"] = reducer_json(*status.reducer, status.now);
  if (status.coordinator) json["coordinator"] = coordinator_json(*status.coordinator, status.now);
  return dumped(json);
}

std::string version_json() {
  return dumped({{"version", REDSUM_VERSION},
                 {"protocol", std::to_string(wire::kProtocolMajor) + "." + std::to_string(wire::kProtocolMinor)},
                 {"compiler", __VERSION__}});
}

}  // namespace redsum::server
