// SPDX-License-Identifier: Apache-2.0
#include "server/config_keys.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "transport/base/time.h"

namespace redsum::server {
namespace {

constexpr std::int64_t kKiB = 1024, kMiB = 1024 * kKiB, kTiB = 1024 * 1024 * kMiB;
constexpr std::int64_t kHour = 3600 * kSecond;

constexpr Key kKeys[] = {
    {.name = "role",
     .type = KeyType::choice,
     .default_text = "both",
     .description = "What this process does: reducers sum, the coordinator knows who is there. Production runs "
                    "coordinators apart from reducers.",
     .words = "reducer|coordinator|both"},
    {.name = "one_shot",
     .type = KeyType::boolean,
     .default_text = "false",
     .description = "Exit with 0 once the last job has ended (at least one must have run).",
     .alias = "one-shot"},
    {.name = "ports_file",
     .type = KeyType::text,
     .default_text = "",
     .description = "Write the bound addresses there as JSON, for launchers that ask for port 0: at first with ready = "
                    "false, again with true once the daemon takes jobs. The file is replaced in one step.",
     .alias = "ports-file"},
    {.name = "control.address",
     .type = KeyType::address,
     .default_text = "127.0.0.1:7400",
     .description = "Where the coordinator listens. Port 0 takes a free one. Anything but loopback needs "
                    "control.secret_file.",
     .alias = "control"},
    {.name = "control.coordinators",
     .type = KeyType::list,
     .default_text = "",
     .description =
         "The coordinators, host:port, with which a reducer registers. With the role reducer it must be set.",
     .alias = "coordinators",
     .env_alias = "REDSUM_COORDINATOR"},
    {.name = "control.secret_file",
     .type = KeyType::text,
     .default_text = "",
     .description = "File with the pool's secret; workers, reducers and coordinators prove that they know it. One "
                    "trailing newline is ignored. It should be readable by its owner only.",
     .alias = "secret-file",
     .env_alias = "REDSUM_SECRET_FILE"},
    {.name = "control.insecure",
     .type = KeyType::boolean,
     .default_text = "false",
     .description =
         "Listen on an address other than loopback without a secret. Everyone who reaches the ports can then "
         "read and change gradients.",
     .alias = "insecure"},
    {.name = "control.heartbeat_timeout",
     .type = KeyType::duration,
     .default_text = "3s",
     .description = "A member that was silent for so long is lost.",
     .min = 100 * kMillisecond,
     .max = kHour,
     .alias = "heartbeat-timeout"},
    {.name = "coordinator.formation_timeout",
     .type = KeyType::duration,
     .default_text = "60s",
     .description =
         "A job must be complete so long after its first worker joined, or it fails naming the missing ranks.",
     .min = 100 * kMillisecond,
     .max = 24 * kHour,
     .alias = "formation-timeout"},
    {.name = "coordinator.min_reducers",
     .type = KeyType::integer,
     .default_text = "1",
     .description = "A job is formed once so many reducers are registered.",
     .min = 0,
     .max = 4096,
     .alias = "min-reducers"},
    {.name = "job.chunk_bytes",
     .type = KeyType::bytes,
     .default_text = "auto",
     .description =
         "Default size of a chunk, the piece that is summed as a unit; a multiple of 64 bytes. A job may ask "
         "for another.",
     .min = 4 * kKiB,
     .max = kMiB,
     .words = "auto",
     .alias = "chunk-bytes"},
    {.name = "job.window",
     .type = KeyType::integer,
     .default_text = "auto",
     .description = "Default number of slots per job and shard.",
     .min = 1,
     .max = 64,
     .words = "auto",
     .alias = "window"},
    {.name = "job.small_window",
     .type = KeyType::integer,
     .default_text = "auto",
     .description = "Default number of slots per job and shard for small calls.",
     .min = 1,
     .max = 64,
     .words = "auto"},
    {.name = "job.small_bytes",
     .type = KeyType::bytes,
     .default_text = "auto",
     .description = "Calls of at most so many bytes count as small and overtake the others; not above job.chunk_bytes.",
     .min = 64,
     .max = kMiB,
     .words = "auto"},
    {.name = "data.address",
     .type = KeyType::address,
     .default_text = "127.0.0.1:7401",
     .description = "Where the reducer takes lanes from workers. Port 0 takes a free one. Anything but loopback needs "
                    "control.secret_file.",
     .alias = "data"},
    {.name = "data.interfaces",
     .type = KeyType::text,
     .default_text = "",
     .description =
         "The network card for data: names, prefixes with *, networks such as 10.0.0.0/8, separated by "
         "commas, or ^ and such a list for all but these; the first that matches counts. The reducer listens "
         "there and tells workers that address. data.address gives the port; a host in it must lie on that "
         "card.",
     .alias = "interfaces",
     .env_alias = "REDSUM_INTERFACES"},
    {.name = "data.advertise",
     .type = KeyType::text,
     .default_text = "",
     .description = "host or host:port by which workers reach the reducer, where it differs from data.address (NAT, "
                    "several interfaces).",
     .alias = "advertise"},
    {.name = "reducer.name",
     .type = KeyType::text,
     .default_text = "",
     .description =
         "Name of the reducer in messages and metrics; unique in the pool. Letters, digits, '.', '_', '-', ':', "
         "at most 64.",
     .alias = "name"},
    {.name = "reducer.shards",
     .type = KeyType::integer,
     .default_text = "0",
     .description = "Threads that sum. One more than the CPUs allowed slows all of them down.",
     .min = 0,
     .max = 1024,
     .alias = "shards"},
    {.name = "reducer.memory_budget",
     .type = KeyType::bytes,
     .default_text = "auto",
     .description = "Memory for the slots of all jobs. A job that does not fit is refused with the need and the limit.",
     .min = kMiB,
     .max = 16 * kTiB,
     .words = "auto",
     .alias = "memory-budget"},
    {.name = "reducer.idle_release",
     .type = KeyType::duration,
     .default_text = "60s",
     .description = "The pages of a communicator that was idle for so long are given back to the system.",
     .min = 100 * kMillisecond,
     .max = 24 * kHour},
    {.name = "admin.address",
     .type = KeyType::address,
     .default_text = "127.0.0.1:7402",
     .description =
         "HTTP port for /metrics, /livez, /readyz, /status, /version and a page to read; \"off\" for none. It "
         "tells, and changes nothing.",
     .words = "off",
     .alias = "admin"},
    {.name = "drain.timeout",
     .type = KeyType::duration,
     .default_text = "10s",
     .description =
         "After SIGTERM or SIGINT running jobs have so long to end. A second signal ends the daemon at once.",
     .min = 0,
     .max = 24 * kHour,
     .alias = "drain-timeout"},
    {.name = "log.level",
     .type = KeyType::choice,
     .default_text = "info",
     .description = "The least important line shown.",
     .words = "error|warn|info|trace",
     .alias = "log-level"},
    {.name = "log.format",
     .type = KeyType::choice,
     .default_text = "auto",
     .description = "text is for people, json is one object per line; auto is text on a terminal and json elsewhere.",
     .words = "auto|text|json",
     .alias = "log-format"},
    {.name = "log.file",
     .type = KeyType::text,
     .default_text = "",
     .description = "Append the log to this file.",
     .alias = "log-file"},
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string spelled_words(std::string_view words) {
  std::string text;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find('|', at), words.size());
    if (at > 0) text += end == words.size() ? " or " : ", ";
    text += words.substr(at, end - at);
    at = end + 1;
  }
  return text;
}

std::string value_text(const Key& key) {
  switch (key.type) {
    case KeyType::text:
      return "a string";
    case KeyType::address:
      return "an address host:port or [v6]:port";
    case KeyType::list:
      return "a list of host:port";
    case KeyType::boolean:
      return "true or false";
    case KeyType::choice:
      return spelled_words(key.words);
    case KeyType::integer:
      return "an integer from " + std::to_string(key.min) + " to " + std::to_string(key.max);
    case KeyType::bytes:
      return "a size from " + bytes_text(key.min) + " to " + bytes_text(key.max);
    case KeyType::duration:
      return "a time from " + duration_text(key.min) + " to " + duration_text(key.max);
  }
  return {};
}

}  // namespace

std::span<const Key> keys() noexcept {
  return kKeys;
}

const Key* find_key(std::string_view name) noexcept {
  const auto found = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& key) { return key.name == name; });
  return found == std::end(kKeys) ? nullptr : found;
}

std::string environment_name(const Key& key) {
  std::string name = "REDSUM_";
  for (const char c : key.name) name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::string type_text(const Key& key) {
  std::string text = value_text(key);
  if (key.type != KeyType::choice && !key.words.empty()) text += ", or \"" + std::string(key.words) + "\"";
  return text;
}

std::string_view default_meaning(const Key& key) noexcept {
  if (key.name == "control.coordinators") return "control.address where this process is a coordinator";
  if (key.name == "control.secret_file") return "no secret";
  if (key.name == "data.interfaces") return "the host of data.address";
  if (key.name == "data.advertise")
    return "this end of the connection to the coordinator, with the port of data.address";
  if (key.name == "reducer.name") return "host:port of the data address";
  if (key.name == "reducer.shards") return "0: the CPUs allowed by affinity and cgroup quota";
  if (key.name == "reducer.memory_budget") return "a quarter of the memory allowed, 64MiB to 16GiB";
  if (key.name.substr(0, 4) == "job.") return "chosen by the coordinator from the world size";
  if (key.name == "log.file") return "standard error";
  if (key.name == "ports_file") return "none";
  return {};
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace redsum::server
