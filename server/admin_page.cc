// SPDX-License-Identifier: Apache-2.0
// The page for people and the table of paths.
#include <cstdio>

#include "server/admin.h"
#include "server/human.h"
#include "server/metrics.h"

namespace redsum::server {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="2"><title>redsumd</title>
<meta name="viewport" content="width=device-width"><style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}
table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #8884}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.ok{color:#080}.bad{color:#c20}.bar{display:inline-block;width:8rem;height:.7rem;border:1px solid #8888;vertical-align:middle}
.bar i{display:block;height:100%;background:#48c}
</style></head><body>
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string cell(std::string_view text) {
  return "<td>" + escaped(text) + "</td>";
}
std::string number_cell(std::string_view text) {
  return "<td class=n>" + escaped(text) + "</td>";
}

std::string mark(const Verdict& verdict, std::string_view good) {
  return verdict.ok ? "<span class=ok>" + std::string(good) + "</span>"
                    : "<span class=bad>not " + std::string(good) + ": " + escaped(verdict.text) + "</span>";
}

std::string slowest_text(const JobOnReducer& job) {
  std::string text;
  for (std::size_t i = 0; i < job.slowest.size() && i < 3; ++i) {
    char lag[64];
    std::snprintf(lag, sizeof lag, "%srank %u (%.3f s)", i == 0 ? "" : ", ", job.slowest[i].rank,
                  job.slowest[i].lag_seconds);
    text += lag;
  }
  return text;
}

std::string reducer_part(const ReducerSnapshot& reducer) {
  std::uint64_t received = 0, sent = 0, chunks = 0;
  for (const ShardCounters& shard : reducer.shards)
    received += shard.bytes_received, sent += shard.bytes_sent, chunks += shard.chunks_reduced;
  const double share = reducer.budget_bytes == 0 ? 0
                                                 : 100.0 * static_cast<double>(reducer.reserved_bytes) /
                                                       static_cast<double>(reducer.budget_bytes);
  char bar[96];
  std::snprintf(bar, sizeof bar, "<span class=bar><i style=\"width:%.0f%%\"></i></span> ", share > 100 ? 100 : share);
  std::string out = "<h2>Reducer " + escaped(reducer.name) + "</h2><p>" + escaped(reducer.data_address) + ", " +
                    std::to_string(reducer.shards.size()) + " shards, " +
                    (reducer.registered ? "registered" : "<span class=bad>not registered</span>") +
                    (reducer.draining ? ", draining" : "") + "<br>memory " + bar + human_bytes(reducer.reserved_bytes) +
                    " of " + human_bytes(reducer.budget_bytes) + "<br>received " + human_bytes(received) + ", sent " +
                    human_bytes(sent) + ", " + std::to_string(chunks) + " chunks summed</p>\n";
  if (reducer.jobs.empty()) return out;
  out +=
      "<table><tr><th>job<th class=n>ranks<th class=n>lanes<th class=n>reserved<th class=n>summed<th class=n>in "
      "flight<th>waited for</tr>\n";
  for (const JobOnReducer& job : reducer.jobs)
    out += "<tr>" + cell(job.job) + number_cell(std::to_string(job.world_size)) +
           number_cell(std::to_string(job.lanes_open)) + number_cell(human_bytes(job.reserved_bytes)) +
           number_cell(human_bytes(job.bytes_reduced)) + number_cell(std::to_string(job.slots_in_use)) +
           cell(slowest_text(job)) + "</tr>\n";
  return out + "</table>\n";
}

std::string coordinator_part(const CoordinatorSnapshot& coordinator, TimeNs now) {
  std::string out = "<h2>Coordinator</h2><p>" + escaped(coordinator.address) + ", " +
                    std::to_string(coordinator.jobs_formed) + " jobs formed, " +
                    std::to_string(coordinator.jobs_ended) + " ended, " + std::to_string(coordinator.jobs_failed) +
                    " failed</p>\n<table><tr><th>reducer<th>address<th class=n>shards</tr>\n";
  for (const wire::ReducerInfo& reducer : coordinator.reducers)
    out +=
        "<tr>" + cell(reducer.name) + cell(reducer.address) + number_cell(std::to_string(reducer.shards)) + "</tr>\n";
  out += "</table>\n";
  if (coordinator.jobs.empty()) return out + "<p>No job.</p>\n";
  out += "<table><tr><th>job<th>state<th class=n>joined<th class=n>epoch<th class=n>age<th>last error</tr>\n";
  for (const JobOnCoordinator& job : coordinator.jobs)
    out += "<tr>" + cell(job.job) + cell(job.state) +
           number_cell(std::to_string(job.joined) + "/" + std::to_string(job.world_size)) +
           number_cell(std::to_string(job.epoch.count())) + number_cell(human_duration(now - job.since)) +
           cell(job.last_error) + "</tr>\n";
  return out + "</table>\n";
}

}  // namespace

std::string status_page(const DaemonStatus& status) {
  std::string out(kHead);
  out += "<h1>redsumd " REDSUM_VERSION "</h1>\n<p>" + mark(readiness(status), "ready") + ", " +
         mark(liveness(status), "alive") + ", up " + human_duration(status.now - status.started) + "</p>\n";
  if (status.coordinator) out += coordinator_part(*status.coordinator, status.now);
  if (status.reducer) out += reducer_part(*status.reducer);
  return out +
         "<p><a href=/status>/status</a> <a href=/metrics>/metrics</a> <a href=/livez>/livez</a> "
         "<a href=/readyz>/readyz</a> <a href=/version>/version</a></p></body></html>\n";
}

AdminAnswer admin_answer(std::string_view path, const DaemonStatus& status) {
  const auto probe = [](const Verdict& verdict) {
    return AdminAnswer{verdict.ok ? 200 : 503, "text/plain; charset=utf-8", (verdict.ok ? "ok" : verdict.text) + "\n"};
  };
  if (path == "/livez") return probe(liveness(status));
  if (path == "/readyz") return probe(readiness(status));
  if (path == "/metrics") return {200, "text/plain; version=0.0.4; charset=utf-8", metrics_text(status)};
  if (path == "/status") return {200, "application/json", status_json(status)};
  if (path == "/version") return {200, "application/json", version_json()};
  if (path == "/") return {200, "text/html; charset=utf-8", status_page(status)};
  return {404, "text/plain; charset=utf-8", "nothing here; try / /status /metrics /livez /readyz /version\n"};
}

}  // namespace redsum::server
