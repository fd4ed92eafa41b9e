// SPDX-License-Identifier: Apache-2.0
// The only user of prometheus-cpp (its core: families and their text).
#include "server/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
#include <unordered_set>
#include <utility>

#include "server/metrics_process.h"

namespace redsum::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  void begin(MetricType type, std::string name, std::string help) {
    families_.push_back({std::move(name), std::move(help), type, {}});
  }
  // One sample of the family begun last.
  void add(double value, Labels labels = {}) {
    ClientMetric metric;
    metric.label = std::move(labels);
    if (families_.back().type == MetricType::Counter)
      metric.counter.value = value;
    else
      metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void add(std::uint64_t value, Labels labels = {}) { add(static_cast<double>(value), std::move(labels)); }
  void gauge(std::string name, std::string help, double value) {
    begin(MetricType::Gauge, std::move(name), std::move(help));
    add(value);
  }
  void counter(std::string name, std::string help, std::uint64_t value) {
    begin(MetricType::Counter, std::move(name), std::move(help));
    add(value);
  }
  void histogram(std::string name, std::string help, const LatencyHistogram& source) {
    begin(MetricType::Histogram, std::move(name), std::move(help));
    ClientMetric metric;
    std::uint64_t cumulative = 0;
    for (int i = 0; i < kLatencyBuckets; ++i) {
      cumulative += source.counts[static_cast<std::size_t>(i)];
      const bool last = i == kLatencyBuckets - 1;
      metric.histogram.bucket.push_back(
          {cumulative, last ? std::numeric_limits<double>::infinity() : latency_bound(i)});
    }
    metric.histogram.sample_count = cumulative;
    metric.histogram.sample_sum = source.sum_seconds;
    families_.back().metric.push_back(std::move(metric));
  }
  std::vector<MetricFamily> take() {
    std::erase_if(families_, [](const MetricFamily& family) { return family.metric.empty(); });
    return std::move(families_);
  }

 private:
  std::vector<MetricFamily> families_;
};

ShardCounters sum_of(const std::vector<ShardCounters>& shards) {
  ShardCounters sum;
  for (const ShardCounters& shard : shards) {
    sum.bytes_received += shard.bytes_received;
    sum.bytes_sent += shard.bytes_sent;
    sum.frames_received += shard.frames_received;
    sum.frames_sent += shard.frames_sent;
    sum.frames_dropped += shard.frames_dropped;
    sum.chunks_reduced += shard.chunks_reduced;
    sum.bytes_reduced += shard.bytes_reduced;
    sum.nonfinite += shard.nonfinite;
    sum.mismatches += shard.mismatches;
    sum.protocol_errors += shard.protocol_errors;
    sum.lanes_lost += shard.lanes_lost;
    sum.fold_seconds.merge(shard.fold_seconds);
    sum.skew_seconds.merge(shard.skew_seconds);
  }
  return sum;
}

// The jobs that have labels of their own: the first ones of the reducer, then of the coordinator.
std::unordered_set<std::string> labelled_jobs(const DaemonStatus& status) {
  std::unordered_set<std::string> jobs;
  const auto take = [&](const std::string& job) {
    if (jobs.size() < kMaxJobLabels) jobs.insert(job);
  };
  if (status.reducer)
    for (const JobOnReducer& job : status.reducer->jobs) take(job.job);
  if (status.coordinator)
    for (const JobOnCoordinator& job : status.coordinator->jobs) take(job.job);
  return jobs;
}

void add_reducer_totals(Families& out, const ReducerSnapshot& reducer) {
  const ShardCounters sum = sum_of(reducer.shards);
  out.begin(MetricType::Counter, "redsum_transport_bytes_total", "Bytes of frames on the data plane.");
  out.add(sum.bytes_received, {{"transport", "tcp"}, {"direction", "received"}});
  out.add(sum.bytes_sent, {{"transport", "tcp"}, {"direction", "sent"}});
  out.begin(MetricType::Counter, "redsum_transport_frames_total", "Frames on the data plane.");
  out.add(sum.frames_received, {{"transport", "tcp"}, {"direction", "received"}});
  out.add(sum.frames_sent, {{"transport", "tcp"}, {"direction", "sent"}});
  out.counter("redsum_frames_dropped_total", "Frames of an older epoch or a closed communicator.", sum.frames_dropped);
  out.counter("redsum_reduced_bytes_total", "Payload bytes folded, all contributions.", sum.bytes_reduced);
  out.counter("redsum_chunks_reduced_total", "Chunks whose sum was sent.", sum.chunks_reduced);
  out.counter("redsum_nonfinite_total", "Elements of sums that are NaN or infinite.", sum.nonfinite);
  out.counter("redsum_mismatches_total", "Slots whose contributions disagreed.", sum.mismatches);
  out.counter("redsum_protocol_errors_total", "Frames that broke the protocol.", sum.protocol_errors);
  out.counter("redsum_lanes_lost_total", "Lanes lost without a farewell.", sum.lanes_lost);
  out.histogram("redsum_reduce_kernel_seconds", "Time to fold one chunk.", sum.fold_seconds);
  out.histogram("redsum_first_to_last_arrival_seconds", "First to last contribution of a chunk.", sum.skew_seconds);
  out.gauge("redsum_shards", "Threads that sum.", static_cast<double>(reducer.shards.size()));
  out.begin(MetricType::Counter, "redsum_shard_busy_seconds_total", "Time a shard's thread was not asleep.");
  for (std::size_t i = 0; i < reducer.shards.size(); ++i)
    out.add(static_cast<double>(reducer.shards[i].busy_ns) * 1e-9, {{"shard", std::to_string(i)}});
  out.begin(MetricType::Gauge, "redsum_buffer_bytes", "Memory for slots: the budget, and what jobs reserved of it.");
  out.add(reducer.budget_bytes, {{"state", "budget"}});
  out.add(reducer.reserved_bytes, {{"state", "reserved"}});
  out.gauge("redsum_registered", "1 while registered with a coordinator.", reducer.registered ? 1 : 0);
}

void add_reducer_jobs(Families& out, const ReducerSnapshot& reducer, const std::unordered_set<std::string>& labelled) {
  const auto each = [&](MetricType type, const char* name, const char* help, auto value) {
    out.begin(type, name, help);
    for (const JobOnReducer& job : reducer.jobs)
      if (labelled.count(job.job) != 0) out.add(value(job), {{"job_id", job.job}});
  };
  each(MetricType::Counter, "redsum_job_reduced_bytes_total", "Payload bytes folded for the job.",
       [](const auto& j) { return j.bytes_reduced; });
  each(MetricType::Counter, "redsum_job_chunks_reduced_total", "Chunks summed for the job.",
       [](const auto& j) { return j.chunks_reduced; });
  each(MetricType::Counter, "redsum_job_nonfinite_total", "Elements of the job's sums that are NaN or infinite.",
       [](const auto& j) { return j.nonfinite; });
  each(MetricType::Gauge, "redsum_job_reserved_bytes", "Slot memory reserved by the job.",
       [](const auto& j) { return j.reserved_bytes; });
  each(MetricType::Gauge, "redsum_job_slots_in_use", "Chunks of the job on their way.",
       [](const auto& j) { return j.slots_in_use; });
  each(MetricType::Gauge, "redsum_job_lanes", "Open lanes of the job.",
       [](const auto& j) { return std::uint64_t{j.lanes_open}; });
  out.begin(MetricType::Gauge, "redsum_slowest_rank_lag_seconds",
            "How long others waited for this rank, summed over the job; the slowest ranks.");
  for (const JobOnReducer& job : reducer.jobs)
    for (const RankLag& lag : job.slowest)
      if (labelled.count(job.job) != 0)
        out.add(lag.lag_seconds, {{"job_id", job.job}, {"rank", std::to_string(lag.rank)}});
}

void add_coordinator(Families& out, const CoordinatorSnapshot& coordinator,
                     const std::unordered_set<std::string>& labelled) {
  out.gauge("redsum_pool_reducers", "Reducers registered with this coordinator.",
            static_cast<double>(coordinator.reducers.size()));
  out.counter("redsum_epochs_opened_total", "Times that a running job went on without a reducer.",
              coordinator.epochs_opened);
  out.counter("redsum_jobs_formed_total", "Jobs whose every rank joined.", coordinator.jobs_formed);
  out.begin(MetricType::Counter, "redsum_failures_total", "Communicators and jobs closed with an error.");
  for (const auto& [code, count] : coordinator.failures) out.add(count, {{"reason", code}});
  out.begin(MetricType::Gauge, "redsum_job_members", "Ranks of the job.");
  for (const JobOnCoordinator& job : coordinator.jobs) {
    if (labelled.count(job.job) == 0) continue;
    out.add(std::uint64_t{job.joined}, {{"job_id", job.job}, {"state", "joined"}});
    const std::uint32_t missing = job.world_size > job.joined ? job.world_size - job.joined : 0;
    out.add(std::uint64_t{missing}, {{"job_id", job.job}, {"state", "missing"}});
  }
  out.begin(MetricType::Gauge, "redsum_membership_epoch", "Number of the job's epoch within the coordinator's term.");
  for (const JobOnCoordinator& job : coordinator.jobs)
    if (labelled.count(job.job) != 0) out.add(std::uint64_t{job.epoch.count()}, {{"job_id", job.job}});
}

void add_both(Families& out, const DaemonStatus& status, std::size_t labelled) {
  const auto* reducer = status.reducer ? &*status.reducer : nullptr;
  const auto* coordinator = status.coordinator ? &*status.coordinator : nullptr;
  const std::size_t jobs = coordinator ? coordinator->jobs.size() : reducer ? reducer->jobs.size() : 0;
  out.gauge("redsum_jobs", "Jobs now.", static_cast<double>(jobs));
  out.gauge("redsum_jobs_unlabelled", "Jobs beyond the limit on job_id labels.",
            static_cast<double>(jobs > labelled ? jobs - labelled : 0));
  out.counter("redsum_jobs_ended_total", "Jobs that ended.",
              coordinator ? coordinator->jobs_ended
              : reducer   ? reducer->jobs_ended
                          : 0);
  if (coordinator) out.counter("redsum_jobs_failed_total", "Jobs that failed.", coordinator->jobs_failed);
  out.begin(MetricType::Counter, "redsum_rejected_total", "Strangers, wrong secrets and jobs that did not fit.");
  out.add((reducer ? reducer->rejected_handshakes : 0) + (coordinator ? coordinator->rejected_handshakes : 0),
          {{"reason", "handshake"}});
  if (reducer) out.add(reducer->rejected_reservations, {{"reason", "reservation"}});
}

void add_process(Families& out) {
  const ProcessNumbers process = process_numbers();
  out.begin(MetricType::Counter, "process_cpu_seconds_total", "User and system CPU time.");
  out.add(process.cpu_seconds);
  out.gauge("process_resident_memory_bytes", "Resident memory.", static_cast<double>(process.resident_bytes));
  out.gauge("process_virtual_memory_bytes", "Address space.", static_cast<double>(process.virtual_bytes));
  out.gauge("process_open_fds", "Open file descriptors.", static_cast<double>(process.open_fds));
  out.gauge("process_max_fds", "Limit on open file descriptors.", process.max_fds);
  out.gauge("process_threads", "Threads.", static_cast<double>(process.threads));
  out.gauge("process_start_time_seconds", "Start, in seconds since 1970.", process.start_time_seconds);
}

class Snapshots : public prometheus::Collectable {
 public:
  explicit Snapshots(const DaemonStatus& status) : status_(status) {}
  std::vector<MetricFamily> Collect() const override {
    Families out;
    const auto labelled = labelled_jobs(status_);
    out.begin(MetricType::Gauge, "redsum_build_info", "1; the version is the label.");
    out.add(1.0, {{"version", REDSUM_VERSION}});
    out.gauge("redsum_ready", "1 while jobs are taken, as /readyz.", readiness(status_).ok ? 1 : 0);
    out.gauge("redsum_live", "0 while work is pending and nothing moves, as /livez.", liveness(status_).ok ? 1 : 0);
    out.gauge("redsum_draining", "1 while draining.",
              status_.draining || (status_.reducer && status_.reducer->draining) ? 1 : 0);
    add_both(out, status_, labelled.size());
    if (status_.reducer) add_reducer_totals(out, *status_.reducer);
    if (status_.reducer) add_reducer_jobs(out, *status_.reducer, labelled);
    if (status_.coordinator) add_coordinator(out, *status_.coordinator, labelled);
    add_process(out);
    return out.take();
  }

 private:
  const DaemonStatus& status_;
};

}  // namespace

std::string metrics_text(const DaemonStatus& status) {
  return prometheus::TextSerializer().Serialize(Snapshots(status).Collect());
}

}  // namespace redsum::server
