// SPDX-License-Identifier: Apache-2.0
#include "server/metrics.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <sstream>

#include "server/metrics_process.h"
#include "tests/server/example_status.h"

namespace redsum::server {
namespace {

using test::example_status;

// The length of `name{label="value",...}` at the start of a sample's line; 0 where Prometheus would not read it.
std::size_t series_length(const std::string& line) {
  const auto name_end = [&](std::size_t at) {
    return line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", at);
  };
  std::size_t at = name_end(0);
  if (at == 0 || at == std::string::npos) return 0;
  if (line[at] != '{') return at;
  do {
    const std::size_t equals = name_end(at + 1);
    if (equals == at + 1 || line.compare(equals, 2, "=\"") != 0) return 0;
    for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) at += line[at] == '\\' ? 1 : 0;
    ++at;
  } while (at < line.size() && line[at] == ',');
  return at < line.size() && line[at] == '}' ? at + 1 : 0;
}

// Every sample of a page by its name with labels. Fails on a line that Prometheus would not read.
std::map<std::string, double> samples_of(const std::string& page) {
  std::map<std::string, double> samples;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t length = series_length(line);
    char* end = nullptr;
    const double value = std::strtod(line.c_str() + length + 1, &end);
    const bool well_formed = length != 0 && line[length] == ' ' && end != line.c_str() + length + 1 && *end == '\0';
    EXPECT_TRUE(well_formed) << "no sample: " << line;
    EXPECT_TRUE(!well_formed || samples.emplace(line.substr(0, length), value).second) << "twice: " << line;
  }
  return samples;
}

TEST(Metrics, TheNamesOfTheConventionsWithTheSnapshotsValues) {
  const auto found = samples_of(metrics_text(example_status()));
  const std::map<std::string, double> wanted = {
      {"redsum_build_info{version=\"" REDSUM_VERSION "\"}", 1},
      {"redsum_ready", 1},
      {"redsum_draining", 0},
      {"redsum_live", 1},
      {R"(redsum_transport_bytes_total{transport="tcp",direction="received"})", 2000},
      {R"(redsum_transport_bytes_total{transport="tcp",direction="sent"})", 1000},
      {"redsum_reduced_bytes_total", 1800},
      {"redsum_chunks_reduced_total", 14},
      {"redsum_nonfinite_total", 6},
      {R"(redsum_job_nonfinite_total{job_id="resnet"})", 6},
      {R"(redsum_slowest_rank_lag_seconds{job_id="resnet",rank="3"})", 0.75},
      {"redsum_jobs", 1},
      {"redsum_jobs_ended_total", 6},
      {R"(redsum_job_members{job_id="resnet",state="joined"})", 3},
      {R"(redsum_job_members{job_id="resnet",state="missing"})", 1},
      {R"(redsum_buffer_bytes{state="budget"})", 1 << 30},
      {R"(redsum_buffer_bytes{state="reserved"})", 256 << 20},
      {R"(redsum_shard_busy_seconds_total{shard="1"})", 1.5},
      {R"(redsum_rejected_total{reason="handshake"})", 7},
      {R"(redsum_rejected_total{reason="reservation"})", 3},
      {R"(redsum_failures_total{reason="peer_lost"})", 4},
      {R"(redsum_membership_epoch{job_id="resnet"})", 9},
      {"redsum_pool_reducers", 1},
  };
  for (const auto& [name, value] : wanted) {
    ASSERT_EQ(found.count(name), 1u) << name;
    EXPECT_DOUBLE_EQ(found.at(name), value) << name;
  }
  for (const char* name :
       {"process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds", "process_max_fds"}) {
    ASSERT_EQ(found.count(name), 1u) << name;
    EXPECT_GT(found.at(name), 0) << name;
  }
  EXPECT_EQ(found.count("process_cpu_seconds_total"), 1u);
}

TEST(Metrics, HistogramsAreCumulativeAndEndAtInfinity) {
  const auto found = samples_of(metrics_text(example_status()));
  EXPECT_EQ(found.at("redsum_reduce_kernel_seconds_bucket{le=\"5e-05\"}"), 0);
  EXPECT_EQ(found.at("redsum_reduce_kernel_seconds_bucket{le=\"0.0001\"}"), 2);
  EXPECT_EQ(found.at("redsum_reduce_kernel_seconds_bucket{le=\"+Inf\"}"), 2);
  EXPECT_EQ(found.at("redsum_reduce_kernel_seconds_count"), 2);
  EXPECT_NEAR(found.at("redsum_reduce_kernel_seconds_sum"), 120e-6, 1e-9);
  EXPECT_EQ(found.at("redsum_first_to_last_arrival_seconds_bucket{le=\"+Inf\"}"), 2);
  EXPECT_EQ(found.at("redsum_first_to_last_arrival_seconds_bucket{le=\"52.4288\"}"), 0);
}

TEST(Metrics, FollowPrometheusNaming) {
  const std::string page = metrics_text(example_status());
  std::istringstream lines(page);
  int families = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, word, name, kind;
    if (!(words >> hash >> word >> name >> kind) || hash != "#" || word != "TYPE") continue;
    ++families;
    const bool total = name.size() > 6 && name.substr(name.size() - 6) == "_total";
    EXPECT_EQ(total, kind == "counter") << line;
    EXPECT_TRUE(name.substr(0, 7) == "redsum_" || name.substr(0, 8) == "process_") << line;
    EXPECT_NE(page.find("# HELP " + name + " "), std::string::npos) << line;
  }
  EXPECT_GT(families, 25);
  for (const char* label : {"job", "instance", "address", "epoch"})
    for (const char* before : {"{", ","})
      EXPECT_EQ(page.find(before + std::string(label) + "="), std::string::npos) << label;
}

TEST(Metrics, JobLabelsAreCappedAndGoWithTheJob) {
  DaemonStatus status = example_status();
  const JobOnReducer on_reducer = status.reducer->jobs[0];
  const JobOnCoordinator on_coordinator = status.coordinator->jobs[0];
  for (int i = 0; i < 1000; ++i) {
    status.reducer->jobs.push_back(on_reducer);
    status.reducer->jobs.back().job = "job-" + std::to_string(i);
    status.coordinator->jobs.push_back(on_coordinator);
    status.coordinator->jobs.back().job = "job-" + std::to_string(i);
  }
  const auto many = samples_of(metrics_text(status));
  int labelled = 0;
  for (const auto& [name, value] : many) labelled += name.find("redsum_job_reduced_bytes_total{") == 0 ? 1 : 0;
  EXPECT_EQ(labelled, static_cast<int>(kMaxJobLabels));
  EXPECT_EQ(many.at("redsum_jobs"), 1001);
  EXPECT_EQ(many.at("redsum_jobs_unlabelled"), 901);
  EXPECT_LT(many.size(), 1500u);

  status.reducer->jobs.clear();
  status.coordinator->jobs.clear();
  const std::string none = metrics_text(status);
  EXPECT_EQ(none.find("job_id="), std::string::npos);
  EXPECT_EQ(samples_of(none).at("redsum_jobs"), 0);
  EXPECT_LT(samples_of(none).size(), 150u);
}

TEST(Metrics, AHostileNameStaysOneLabel) {
  DaemonStatus status = example_status();
  status.reducer->jobs[0].job = "a\nb\"} 1\\";
  const std::string page = metrics_text(status);
  EXPECT_NE(page.find(R"(redsum_job_lanes{job_id="a\nb\"} 1\\"} 8)"), std::string::npos) << page;
  samples_of(page);
}

TEST(Metrics, EachRoleAloneShowsItsOwn) {
  DaemonStatus reducer = example_status(), coordinator = example_status(), none;
  reducer.coordinator.reset();
  coordinator.reducer.reset();
  EXPECT_EQ(samples_of(metrics_text(reducer)).count("redsum_pool_reducers"), 0u);
  EXPECT_EQ(samples_of(metrics_text(coordinator)).count("redsum_reduced_bytes_total"), 0u);
  EXPECT_EQ(samples_of(metrics_text(none)).at("redsum_ready"), 0);
}

TEST(ProcessNumbers, MatchWhatIsKnown) {
  const ProcessNumbers before = process_numbers();
  EXPECT_GT(before.resident_bytes, 1u << 20);
  EXPECT_GE(before.virtual_bytes, before.resident_bytes);
  EXPECT_GE(before.threads, 1u);
  const double now = static_cast<double>(std::time(nullptr));
  EXPECT_NEAR(before.start_time_seconds, now, 600);
  std::FILE* file = std::fopen("/dev/null", "r");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(process_numbers().open_fds, before.open_fds + 1);
  std::fclose(file);
}

}  // namespace
}  // namespace redsum::server
