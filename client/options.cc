// SPDX-License-Identifier: Apache-2.0
#include "client/options.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <sstream>

#include "transport/wire/header.h"

namespace redsum::client {
namespace {

constexpr std::int32_t kUnreadable = -2147483647 - 1;  // a variable that is set and is no number

const char* variable(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name); value && *value) return value;
  return nullptr;
}

std::int32_t integer(std::initializer_list<const char*> names, std::int32_t otherwise) {
  const char* text = variable(names);
  if (!text) return otherwise;
  std::int32_t value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  return error == std::errc{} && at == end ? value : kUnreadable;
}

// Seconds, with a fraction if wanted; unreadable: -1, which check_options() refuses.
std::int64_t seconds_ns(const char* name, std::int64_t otherwise) {
  const char* text = variable({name});
  if (!text) return otherwise;
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(value > 0) || value > 1e9) return -1;
  return static_cast<std::int64_t>(value * 1e9);
}

// The position of the variable's value in `words`; 0 where it is not set, -1 where it is none of them.
std::int32_t choice(const char* name, std::initializer_list<const char*> words) {
  const char* text = variable({name});
  if (!text) return 0;
  std::int32_t at = 0;
  for (const char* word : words) {
    if (std::strcmp(text, word) == 0) return at;
    ++at;
  }
  return -1;
}

Status bad(const char* field, const std::string& value, const char* expected) {
  return {Code::invalid_argument, std::string(field) + " is '" + value + "'; expected " + expected};
}

Result<std::string> read_secret(const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return failure(Code::invalid_argument, "secret_file: cannot read '" + path + "': " + std::strerror(errno) +
                                               "; give the pool's secret file, readable by this user");
  std::ostringstream text;
  text << file.rdbuf();
  std::string secret = text.str();
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.empty()) return failure(Code::invalid_argument, "secret_file: '" + path + "' is empty");
  return secret;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

// The card, and the address on it where this worker listens.
Status take_interfaces(const std::string& interfaces, Options& result) {
  if (interfaces.empty()) return {};
  const auto address = tcp::parse_host_port(result.data_address, true);
  const std::string host = address ? address->host : result.data_address;
  auto local = tcp::local_interface(interfaces, host);
  if (!local)
    return {Code::invalid_argument, "interfaces is '" + interfaces + "'" +
                                        (host.empty() ? "" : " and data_address '" + result.data_address + "'") +
                                        " (REDSUM_INTERFACES): " + local.error().text()};
  result.interfaces = interfaces;
  result.local = std::move(*local);
  if (!host.empty() && host != "0.0.0.0" && host != "::") return {};
  result.data_address = address ? tcp::format_host_port(result.local.host(), address->port) : result.local.host();
  return {};
}

}  // namespace

void options_from_environment(redsum_options& o) {
  o.coordinator = variable({"REDSUM_COORDINATOR"});
  if (!o.coordinator) o.coordinator = "127.0.0.1:7400";
  o.job_id = variable({"REDSUM_JOB_ID", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID"});
  if (!o.job_id) o.job_id = "default";
  o.secret_file = variable({"REDSUM_SECRET_FILE"});
  o.rank = integer({"REDSUM_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "HOROVOD_RANK",
                    "JOB_COMPLETION_INDEX"},
                   0);
  o.world_size = integer(
      {"REDSUM_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "HOROVOD_SIZE"}, 1);
  const std::int32_t chunk = integer({"REDSUM_CHUNK_BYTES"}, 0), window = integer({"REDSUM_WINDOW"}, 0);
  o.chunk_bytes = static_cast<std::uint32_t>(chunk);
  o.window = static_cast<std::uint32_t>(window);
  o.connect_timeout_ns = seconds_ns("REDSUM_CONNECT_TIMEOUT", 60 * kSecond);
  o.operation_timeout_ns = seconds_ns("REDSUM_OPERATION_TIMEOUT", 300 * kSecond);
  o.heartbeat_timeout_ns = seconds_ns("REDSUM_HEARTBEAT_TIMEOUT", 3 * kSecond);
  o.mode = choice("REDSUM_MODE", {"server", "direct", "ring"});
  o.ring_order = choice("REDSUM_RING_ORDER", {"default", "ring", "rank"});
  o.fallback = choice("REDSUM_FALLBACK", {"default", "none", "direct"});
  o.min_workers = integer({"REDSUM_MIN_WORKERS"}, 0);
  o.max_workers = integer({"REDSUM_MAX_WORKERS"}, 0);
  o.data_address = variable({"REDSUM_DATA_ADDRESS"});
  o.interfaces = variable({"REDSUM_INTERFACES"});
}

Result<Options> check_options(const redsum_options& o) {
  Options result;
  result.coordinators = split(o.coordinator ? o.coordinator : "");
  if (result.coordinators.empty())
    return failure(
        bad("coordinator", o.coordinator ? o.coordinator : "", "host:port[,host:port...] (REDSUM_COORDINATOR)"));
  result.job_id = o.job_id ? o.job_id : "";
  if (!wire::valid_job_id(result.job_id))
    return failure(bad("job_id", result.job_id, "1 to 64 of [A-Za-z0-9._-], not beginning with a dot (REDSUM_JOB_ID)"));
  if (o.world_size < 1 || o.world_size > static_cast<std::int32_t>(wire::kMaxRanks))
    return failure(bad("world_size", o.world_size == kUnreadable ? "not a number" : std::to_string(o.world_size),
                       "1 to 65536 (REDSUM_WORLD_SIZE, WORLD_SIZE ...)"));
  if (o.rank < 0 || o.rank >= o.world_size)
    return failure(bad("rank", o.rank == kUnreadable ? "not a number" : std::to_string(o.rank),
                       ("0 to " + std::to_string(o.world_size - 1) + " for world_size " + std::to_string(o.world_size) +
                        " (REDSUM_RANK, RANK ...)")
                           .c_str()));
  if (o.chunk_bytes != 0 && (o.chunk_bytes < 4096 || o.chunk_bytes > wire::kMaxChunkBytes || o.chunk_bytes % 64 != 0))
    return failure(bad("chunk_bytes", std::to_string(static_cast<std::int32_t>(o.chunk_bytes)),
                       "0, or 4096 to 1048576 in steps of 64 (REDSUM_CHUNK_BYTES)"));
  if (o.window > 64)
    return failure(bad("window", std::to_string(static_cast<std::int32_t>(o.window)), "0 to 64 (REDSUM_WINDOW)"));
  if (o.connect_timeout_ns <= 0 || o.operation_timeout_ns <= 0 || o.heartbeat_timeout_ns <= 0)
    return failure(Code::invalid_argument,
                   "a timeout is not positive; expected seconds > 0 (REDSUM_CONNECT_TIMEOUT, "
                   "REDSUM_OPERATION_TIMEOUT, REDSUM_HEARTBEAT_TIMEOUT)");
  if (o.mode < REDSUM_MODE_SERVER || o.mode > REDSUM_MODE_RING)
    return failure(Code::invalid_argument,
                   "mode is none of REDSUM_MODE_SERVER, REDSUM_MODE_DIRECT and REDSUM_MODE_RING; expected 'server', "
                   "'direct' or 'ring' (REDSUM_MODE)");
  if (o.ring_order < REDSUM_RING_ORDER_DEFAULT || o.ring_order > REDSUM_RING_ORDER_RANK)
    return failure(Code::invalid_argument,
                   "ring_order is none of REDSUM_RING_ORDER_RING and REDSUM_RING_ORDER_RANK; expected 'ring' or 'rank' "
                   "(REDSUM_RING_ORDER)");
  if (o.fallback < REDSUM_FALLBACK_DEFAULT || o.fallback > REDSUM_FALLBACK_DIRECT)
    return failure(Code::invalid_argument,
                   "fallback is none of REDSUM_FALLBACK_NONE and REDSUM_FALLBACK_DIRECT; expected 'none' or 'direct' "
                   "(REDSUM_FALLBACK)");
  for (const auto& [name, value] : {std::pair{"min_workers", o.min_workers}, std::pair{"max_workers", o.max_workers}})
    if (value < 0 || value > static_cast<std::int32_t>(wire::kMaxRanks))
      return failure(bad(name, value == kUnreadable ? "not a number" : std::to_string(value),
                         "0 to 65536 (REDSUM_MIN_WORKERS, REDSUM_MAX_WORKERS)"));
  if (o.min_workers != 0 && o.max_workers != 0 && o.min_workers > o.max_workers)
    return failure(Code::invalid_argument, "min_workers is " + std::to_string(o.min_workers) + " and max_workers " +
                                               std::to_string(o.max_workers) +
                                               "; expected min_workers <= max_workers (REDSUM_MIN_WORKERS, "
                                               "REDSUM_MAX_WORKERS)");
  auto secret = read_secret(o.secret_file ? o.secret_file : "");
  if (!secret) return failure(secret.error());
  const char* insecure = variable({"REDSUM_INSECURE"});
  result.guarded = !secret->empty() || (insecure && std::strcmp(insecure, "1") == 0);
  result.pool_key = wire::key_from_secret(*secret);
  result.rank = static_cast<std::uint32_t>(o.rank);
  result.world_size = static_cast<std::uint32_t>(o.world_size);
  result.chunk_bytes = o.chunk_bytes;
  constexpr wire::Mode kModes[] = {wire::Mode::server, wire::Mode::direct, wire::Mode::ring};
  result.mode = kModes[o.mode];
  result.ring_order = static_cast<wire::RingOrder>(o.ring_order);
  result.fallback = static_cast<wire::Fallback>(o.fallback);
  result.min_workers = static_cast<std::uint32_t>(o.min_workers);
  result.max_workers = static_cast<std::uint32_t>(o.max_workers);
  result.data_address = o.data_address ? o.data_address : "";
  if (Status status = take_interfaces(o.interfaces ? o.interfaces : "", result); !status)
    return failure(std::move(status));
  result.window = static_cast<std::uint16_t>(o.window);
  result.connect_timeout = o.connect_timeout_ns;
  result.operation_timeout = o.operation_timeout_ns;
  result.heartbeat_timeout = o.heartbeat_timeout_ns;
  return result;
}

}  // namespace redsum::client
