// SPDX-License-Identifier: Apache-2.0
#include "server/ctl_status.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "server/ctl_box.h"
#include "server/human.h"

namespace redsum::ctl {
namespace {

using Json = nlohmann::ordered_json;

// -- reading what may be missing or of another type
const Json& at(const Json& json, const char* name) {
  static const Json none;
  const auto found = json.is_object() ? json.find(name) : json.end();
  return json.is_object() && found != json.end() ? *found : none;
}
std::string text(const Json& json, const char* name) {
  const Json& value = at(json, name);
  return value.is_string() ? value.get<std::string>() : "-";
}
std::uint64_t number(const Json& json, const char* name) {
  const Json& value = at(json, name);
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  return value.is_number() ? static_cast<std::uint64_t>(std::clamp(value.get<double>(), 0.0, 1e18)) : 0;
}
std::string number_text(const Json& json, const char* name) {
  return at(json, name).is_number() ? std::to_string(number(json, name)) : "-";
}
std::string bytes_text(const Json& json, const char* name) {
  return at(json, name).is_number() ? server::human_bytes(number(json, name)) : "-";
}
bool truth(const Json& json, const char* name) {
  const Json& value = at(json, name);
  return value.is_boolean() && value.get<bool>();
}
std::string age_text(const Json& json, const char* name) {
  const Json& value = at(json, name);
  return value.is_number()
             ? server::human_duration(static_cast<DurationNs>(std::clamp(value.get<double>(), 0.0, 9e9) * 1e9))
             : "-";
}

struct JobRow {
  std::string state = "-", ranks = "-", epoch = "-", age = "-", error;
  std::uint64_t reserved = 0, reduced = 0;
  double lag_seconds = 0;
  std::uint64_t lag_rank = 0;
};

struct Gathered {
  Table daemons{{"Daemon", "Roles", "State", "Version", ">Up"}, {}};
  Table reducers{{"Reducer", "Data address", "State", ">Shards", ">Memory", ">Received", ">Sent", ">Chunks"}, {}};
  Table coordinators{{"Coordinator", ">Reducers", ">Jobs", ">Formed", ">Ended", ">Failed", ">Rejected"}, {}};
  Table jobs{{"Job", "State", ">Ranks", ">Epoch", ">Age", ">Reserved", ">Summed", "Slowest rank", "Last error"}, {}};
  std::map<std::string, JobRow> rows;  // by job, of all daemons together
  std::uint64_t received = 0, sent = 0;
};

std::uint64_t sum(const Json& items, const char* name) {
  std::uint64_t total = 0;
  if (items.is_array())
    for (const Json& item : items) total += number(item, name);
  return total;
}

void take_reducer(const Json& reducer, Gathered& out) {
  const Json& shards = at(reducer, "shards");
  const std::uint64_t received = sum(shards, "bytes_received"), sent = sum(shards, "bytes_sent");
  out.received += received;
  out.sent += sent;
  const std::string state = truth(reducer, "stuck")        ? "stuck"
                            : truth(reducer, "draining")   ? "draining"
                            : truth(reducer, "registered") ? "registered"
                                                           : "not registered";
  out.reducers.rows.push_back(
      {text(reducer, "name"), text(reducer, "address"), state, std::to_string(shards.is_array() ? shards.size() : 0),
       bytes_text(reducer, "reserved_bytes") + " / " + bytes_text(reducer, "budget_bytes"),
       server::human_bytes(received), server::human_bytes(sent), std::to_string(sum(shards, "chunks_reduced"))});
  if (!at(reducer, "jobs").is_array()) return;
  for (const Json& job : at(reducer, "jobs")) {
    JobRow& row = out.rows[text(job, "job")];
    row.reserved += number(job, "reserved_bytes");
    row.reduced += number(job, "bytes_reduced");
    if (row.ranks == "-") row.ranks = number_text(job, "world_size");
    if (!at(job, "slowest").is_array()) continue;
    for (const Json& lag : at(job, "slowest")) {
      const Json& seconds = at(lag, "lag_seconds");
      if (!seconds.is_number() || seconds.get<double>() <= row.lag_seconds) continue;
      row.lag_seconds = seconds.get<double>();
      row.lag_rank = number(lag, "rank");
    }
  }
}

void take_coordinator(const Json& coordinator, Gathered& out) {
  const auto count = [&](const char* name) {
    return std::to_string(at(coordinator, name).is_array() ? at(coordinator, name).size() : 0);
  };
  out.coordinators.rows.push_back({text(coordinator, "address"), count("reducers"), count("jobs"),
                                   number_text(coordinator, "jobs_formed"), number_text(coordinator, "jobs_ended"),
                                   number_text(coordinator, "jobs_failed"),
                                   number_text(coordinator, "rejected_handshakes")});
  if (!at(coordinator, "jobs").is_array()) return;
  for (const Json& job : at(coordinator, "jobs")) {
    JobRow& row = out.rows[text(job, "job")];
    row.state = text(job, "state");
    row.ranks = number_text(job, "joined") + "/" + number_text(job, "world_size");
    row.epoch = number_text(at(job, "epoch"), "count");
    row.age = age_text(job, "seconds");
    row.error = at(job, "last_error").is_string() ? at(job, "last_error").get<std::string>() : "";
  }
}

int take(const Answer& answer, Gathered& out) {
  const auto unreachable = [&](const std::string& why) {
    out.daemons.rows.push_back({answer.address, "-", "unreachable: " + why, "-", "-"});
    return kUnreachable;
  };
  if (!answer.body) return unreachable(answer.body.error().text());
  const Json status = Json::parse(*answer.body, nullptr, false);
  if (!status.is_object()) return unreachable("no status of a redsumd");
  const bool ready = truth(status, "ready"), live = truth(status, "live");
  const std::string state = !live   ? "STUCK: " + text(status, "live_text")
                            : ready ? "ready"
                                    : "not ready: " + text(status, "ready_text");
  std::string roles;
  for (const char* role : {"coordinator", "reducer"})
    if (at(status, role).is_object()) roles += (roles.empty() ? "" : "+") + std::string(role);
  out.daemons.rows.push_back(
      {answer.address, roles, state, text(status, "version"), age_text(status, "uptime_seconds")});
  if (at(status, "reducer").is_object()) take_reducer(at(status, "reducer"), out);
  if (at(status, "coordinator").is_object()) take_coordinator(at(status, "coordinator"), out);
  return ready && live ? kFine : kDegraded;
}

}  // namespace

Picture picture(const std::vector<Answer>& answers) {
  Picture result;
  Gathered all;
  for (const Answer& answer : answers) result.exit_code = std::max(result.exit_code, take(answer, all));
  for (const auto& [job, row] : all.rows) {
    char lag[64] = "-";
    if (row.lag_seconds > 0)
      std::snprintf(lag, sizeof lag, "%llu (%.3f s)", static_cast<unsigned long long>(row.lag_rank), row.lag_seconds);
    all.jobs.rows.push_back({job, row.state, row.ranks, row.epoch, row.age, server::human_bytes(row.reserved),
                             server::human_bytes(row.reduced), lag, row.error.empty() ? "-" : row.error});
  }
  const auto plural = [](std::size_t n, const std::string& word) {
    return std::to_string(n) + " " + word + (n == 1 ? "" : "s");
  };
  const std::string headline = "redsum: " + plural(answers.size(), "daemon") + ", " +
                               plural(all.reducers.rows.size(), "reducer") + ", " + plural(all.rows.size(), "job") +
                               "; received " + server::human_bytes(all.received) + ", sent " +
                               server::human_bytes(all.sent);
  result.text = draw_box(headline, {all.daemons, all.coordinators, all.reducers, all.jobs});
  return result;
}

Picture picture_json(const std::vector<Answer>& answers) {
  Picture result;
  Json daemons = Json::array();
  for (const Answer& answer : answers) {
    Gathered ignored;
    const int code = take(answer, ignored);
    result.exit_code = std::max(result.exit_code, code);
    Json daemon = {{"address", answer.address}};
    if (code == kUnreachable)
      daemon["error"] = answer.body ? "no status of a redsumd" : answer.body.error().to_string();
    else
      daemon["status"] = Json::parse(*answer.body, nullptr, false);
    daemons.push_back(std::move(daemon));
  }
  const Json json = {{"exit_code", result.exit_code}, {"daemons", std::move(daemons)}};
  result.text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return result;
}

}  // namespace redsum::ctl
