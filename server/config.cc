// SPDX-License-Identifier: Apache-2.0
#include "server/config.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "transport/base/check.h"
#include "transport/tcp/interfaces.h"

namespace redsum::server {
namespace {

constexpr std::size_t kMaxSecretBytes = 4096;
constexpr std::uint64_t kMiB = 1ull << 20, kGiB = 1ull << 30;

std::size_t index_of(std::string_view name) {
  const Key* key = find_key(name);
  REDSUM_CHECK(key != nullptr);
  return static_cast<std::size_t>(key - keys().data());
}

// Reads a checked setting as what it is. "auto" and "off" are the caller's business.
class Reader {
 public:
  explicit Reader(const Settings& settings) : settings_(settings) {}
  const std::string& text(std::string_view key) const { return settings_.at(key).text; }
  bool is(std::string_view key, std::string_view word) const { return text(key) == word; }
  bool boolean(std::string_view key) const { return parse_boolean(text(key)).value_or(false); }
  std::int64_t integer(std::string_view key) const { return parse_integer(text(key)).value_or(0); }
  std::int64_t bytes(std::string_view key) const { return parse_bytes(text(key)).value_or(0); }
  DurationNs duration(std::string_view key) const { return parse_duration(text(key)).value_or(0); }

 private:
  const Settings& settings_;
};

Status error_at(const Settings& settings, std::string_view key, Code code, const std::string& why) {
  const Setting& setting = settings.at(key);
  std::string text = setting.where.empty() ? std::string() : setting.where + ": ";
  return {code, text + std::string(key) + " = '" + setting.text + "': " + why};
}

Result<std::string> read_secret(const std::string& path, std::vector<std::string>& warnings) {
  const auto wrong = [&](const std::string& why) {
    return failure(Code::invalid_argument, "secret file '" + path + "': " + why);
  };
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return wrong(std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return wrong("not a regular file");
  std::ifstream file(path, std::ios::binary);
  std::string secret(kMaxSecretBytes + 2, '\0');
  if (!file.read(secret.data(), static_cast<std::streamsize>(secret.size())) && !file.eof())
    return wrong("it cannot be read");
  if (!file.is_open()) return wrong("it cannot be opened for reading");
  secret.resize(static_cast<std::size_t>(file.gcount()));
  if (!secret.empty() && secret.back() == '\n') secret.pop_back();
  if (!secret.empty() && secret.back() == '\r') secret.pop_back();
  if (secret.empty()) return wrong("it is empty; write the pool's secret into it, such as 32 random bytes in hex");
  if (secret.size() > kMaxSecretBytes) return wrong("it is longer than " + std::to_string(kMaxSecretBytes) + " bytes");
  if (about.st_mode & (S_IROTH | S_IWOTH))
    warnings.push_back("secret file '" + path + "' is open to every user of this machine; chmod 600 it");
  return secret;
}

// NET-02: the reducer listens on the card that data.interfaces names, and tells workers that address: its end of the
// connection to the coordinator may be another card. Loopback is for a pool of this host alone.
Status take_interfaces(const Settings& settings, DaemonConfig& config) {
  const Reader read(settings);
  ReducerConfig& reducer = config.reducer;
  reducer.data_address = read.text("data.address");
  reducer.advertise = read.text("data.advertise");
  reducer.coordinators = split_list(read.text("control.coordinators"));
  if (read.text("data.interfaces").empty()) return {};
  const auto refused = [&](const std::string& why) {
    return error_at(settings, "data.interfaces", Code::invalid_argument, why);
  };
  auto address = parse_address(reducer.data_address);
  if (!address) return address.error();
  const bool given = settings.at("data.address").source != Source::built_in && !is_wildcard(address->host);
  const auto found = tcp::local_interface(read.text("data.interfaces"), given ? address->host : std::string());
  if (!found)
    return refused((given ? "with data.address = '" + reducer.data_address + "': " : "") + found.error().text());
  if (!given) address->host = found->host();
  reducer.data_address = address_text(*address);
  if (!found->loopback()) {
    if (reducer.advertise.empty()) reducer.advertise = found->host();
    return {};
  }
  std::vector<std::string> coordinators = reducer.coordinators;
  if (coordinators.empty() && config.has_coordinator) coordinators = {read.text("control.address")};
  for (const std::string& text : coordinators) {
    const auto at = tcp::parse_host_port(text, true);
    const auto endpoint = at ? tcp::numeric_endpoint(*at) : std::nullopt;  // a name may yet be this host's
    if (endpoint && !endpoint->is_loopback() && reducer.advertise.empty())
      return refused("it gives the loopback address " + found->host() + ", but the coordinator is at " + text +
                     ": workers on other hosts cannot reach this reducer; name the card that leads to them, or leave "
                     "loopback out with '^lo'; present: " +
                     tcp::interfaces_text(tcp::present_interfaces()));
  }
  return {};
}

// SEC-04: whoever reaches a port could pose as a member, so a port that others reach needs a secret.
Status check_exposed(const Settings& settings, std::string_view key, const std::string& text, bool has_secret,
                     bool insecure) {
  const auto address = parse_address(text);
  if (!address || is_loopback(address->host) || has_secret || insecure) return {};
  return error_at(
      settings, key, Code::auth_failed,
      "an address other than loopback needs a secret: set control.secret_file (REDSUM_SECRET_FILE), or allow "
      "everybody in with --insecure");
}

Status take_secret(const Settings& settings, DaemonConfig& config) {
  const Reader read(settings);
  std::string secret;
  if (const std::string& path = read.text("control.secret_file"); !path.empty()) {
    auto text = read_secret(path, config.warnings);
    if (!text) return text.error();
    secret = std::move(*text);
  }
  const bool insecure = read.boolean("control.insecure");
  if (config.has_coordinator)
    REDSUM_RETURN_IF_ERROR(
        check_exposed(settings, "control.address", read.text("control.address"), !secret.empty(), insecure));
  const bool by_interface = config.reducer.data_address != read.text("data.address");
  if (config.has_reducer)
    REDSUM_RETURN_IF_ERROR(check_exposed(settings, by_interface ? "data.interfaces" : "data.address",
                                         config.reducer.data_address, !secret.empty(), insecure));
  if (secret.empty() && insecure)
    config.warnings.push_back("no secret: everyone who reaches the ports can join (--insecure)");
  config.coordinator.pool_key = config.reducer.pool_key = wire::key_from_secret(secret);
  return {};
}

Status take_coordinator(const Settings& settings, DaemonConfig& config) {
  const Reader read(settings);
  CoordinatorConfig& coordinator = config.coordinator;
  coordinator.address = read.text("control.address");
  coordinator.heartbeat_timeout = read.duration("control.heartbeat_timeout");
  coordinator.formation_timeout = read.duration("coordinator.formation_timeout");
  coordinator.min_reducers = static_cast<std::uint32_t>(read.integer("coordinator.min_reducers"));
  wire::JobSettings& job = coordinator.defaults;
  job.chunk_bytes = static_cast<std::uint32_t>(read.bytes("job.chunk_bytes"));
  job.small_bytes = static_cast<std::uint32_t>(read.bytes("job.small_bytes"));
  job.window = static_cast<std::uint16_t>(read.integer("job.window"));
  job.small_window = static_cast<std::uint16_t>(read.integer("job.small_window"));
  if (job.chunk_bytes % 64 != 0)
    return error_at(settings, "job.chunk_bytes", Code::invalid_argument, "a multiple of 64 bytes is needed");
  if (job.chunk_bytes != 0 && job.small_bytes > job.chunk_bytes)
    return error_at(settings, "job.small_bytes", Code::invalid_argument,
                    "it is above job.chunk_bytes = " + read.text("job.chunk_bytes"));
  return {};
}

// A reducer that registers over loopback would be told to workers elsewhere as 127.0.0.1; see to it that it is not.
Status take_advertised(const Settings& settings, DaemonConfig& config) {
  ReducerConfig& reducer = config.reducer;
  const auto data = parse_address(reducer.data_address);
  if (!data) return data.error();
  const bool data_is_local = is_loopback(data->host);
  bool coordinator_elsewhere = false;
  for (const std::string& text : reducer.coordinators) {
    const auto address = parse_address(text);
    coordinator_elsewhere = coordinator_elsewhere || (address && !is_loopback(address->host));
  }
  if (data_is_local && coordinator_elsewhere && reducer.advertise.empty())
    config.warnings.push_back(
        "data.address is loopback but the coordinator is not: workers on other machines cannot reach "
        "this reducer; set data.address (--data)");
  if (!reducer.coordinators.empty() || data_is_local || !reducer.advertise.empty()) return {};
  const auto control = parse_address(config.coordinator.address);
  if (is_wildcard(data->host) && control && !is_wildcard(control->host))
    return {};  // our end of that connection is right
  if (is_wildcard(data->host))
    return error_at(
        settings, "data.address", Code::invalid_argument,
        "with both roles in one process, say by which host name or address workers reach it: data.advertise "
        "(--advertise)");
  reducer.advertise = data->host;
  return {};
}

Status take_reducer(const Settings& settings, const std::string& root, DaemonConfig& config) {
  const Reader read(settings);
  ReducerConfig& reducer = config.reducer;
  reducer.name = read.text("reducer.name");
  reducer.heartbeat_timeout = read.duration("control.heartbeat_timeout");
  reducer.idle_release = read.duration("reducer.idle_release");
  config.cpus = cpus_allowed(root);
  config.memory = memory_allowed(root);
  const std::int64_t shards = read.integer("reducer.shards");
  reducer.shards = shards == 0 ? config.cpus.allowed : static_cast<std::uint32_t>(shards);
  if (reducer.shards > config.cpus.allowed)
    config.warnings.push_back("reducer.shards = " + std::to_string(reducer.shards) + " is more than the " +
                              std::to_string(config.cpus.allowed) +
                              " CPUs allowed here; all of them will be slowed down");
  reducer.budget_bytes =
      read.is("reducer.memory_budget", "auto")
          ? std::clamp<std::uint64_t>(config.memory.allowed_bytes / 4, 64 * kMiB, 16 * kGiB) / kMiB * kMiB
          : static_cast<std::uint64_t>(read.bytes("reducer.memory_budget"));
  if (config.memory.allowed_bytes != 0 && reducer.budget_bytes > config.memory.allowed_bytes)
    config.warnings.push_back("reducer.memory_budget is " + std::to_string(reducer.budget_bytes / kMiB) +
                              " MiB, the memory "
                              "allowed here is " +
                              std::to_string(config.memory.allowed_bytes / kMiB) + " MiB");
  if (!config.has_coordinator && reducer.coordinators.empty())
    return {Code::invalid_argument,
            "the role reducer needs a coordinator to register with: set control.coordinators "
            "(--coordinators host:port, REDSUM_COORDINATOR)"};
  return take_advertised(settings, config);
}

void take_log(const Reader& read, LogConfig& config) {
  const std::string& level = read.text("log.level");
  config.level = level == "error"   ? log::Level::error
                 : level == "warn"  ? log::Level::warn
                 : level == "trace" ? log::Level::trace
                                    : log::Level::info;
  const std::string& format = read.text("log.format");
  config.format = format == "json" ? LogFormat::json : format == "text" ? LogFormat::text : LogFormat::automatic;
  config.file = read.text("log.file");
}

}  // namespace

Settings::Settings() {
  for (const Key& key : keys()) settings_.push_back({std::string(key.default_text), Source::built_in, {}});
}

const Setting& Settings::at(std::string_view key) const {
  return settings_[index_of(key)];
}

Status Settings::set(const Key& key, Setting setting) {
  // Empty means "not set" where a value is needed: an unset variable of a template becomes REDSUM_X="".
  const bool may_be_empty = key.default_text.empty();
  if (!(setting.text.empty() && may_be_empty))
    if (const Status checked = check_value(key, setting.text); !checked)
      return {Code::invalid_argument,
              setting.where + ": " + std::string(key.name) + " = '" + setting.text + "': " + checked.text()};
  settings_[index_of(key.name)] = std::move(setting);
  return {};
}

Status read_environment(const Environment& environment, Settings& settings) {
  for (const Key& key : keys()) {
    std::string name = environment_name(key);
    const char* text = environment(name.c_str());
    if ((!text || !*text) && !key.env_alias.empty()) {
      name = key.env_alias;
      text = environment(name.c_str());
    }
    if (!text || !*text) continue;
    REDSUM_RETURN_IF_ERROR(settings.set(key, {text, Source::environment, name}));
  }
  return {};
}

std::vector<std::string> suspicious_variables(const char* const* environ_block) {
  std::vector<std::string> names, warnings;
  for (const Key& key : keys()) {
    if (key.name.find('.') != std::string_view::npos) names.push_back(environment_name(key));
    if (!key.env_alias.empty()) names.emplace_back(key.env_alias);
  }
  for (const char* const* entry = environ_block; entry && *entry; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.substr(0, 7) != "REDSUM_" || std::find(names.begin(), names.end(), name) != names.end()) continue;
    const bool in_section = std::any_of(keys().begin(), keys().end(), [&](const Key& key) {
      const std::size_t dot = key.name.find('.');
      return dot != std::string_view::npos && name.substr(0, dot + 8) == environment_name(key).substr(0, dot + 8);
    });
    // Kubernetes sets REDSUM_..._PORT and _SERVICE_... for a service of that name; REDSUM_JOB_ID is the client's.
    const bool foreign = name == "REDSUM_JOB_ID" || name.find("_PORT") != std::string_view::npos ||
                         name.find("_SERVICE_") != std::string_view::npos;
    if (!in_section || foreign) continue;
    const std::string near = nearest(name, names);
    warnings.push_back("the variable " + std::string(name) + " is no setting of redsumd" +
                       (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  return warnings;
}

Result<Settings> gather_settings(const CommandLine& command_line, const Environment& environment) {
  Settings settings;
  if (!command_line.config_path.empty())
    if (Status read = read_config_file(command_line.config_path, settings); !read) return failure(std::move(read));
  if (Status read = read_environment(environment, settings); !read) return failure(std::move(read));
  for (const auto& [key, setting] : command_line.flags)
    if (Status set = settings.set(*key, setting); !set) return failure(std::move(set));
  return settings;
}

Result<DaemonConfig> make_config(const Settings& settings, const std::string& root) {
  const Reader read(settings);
  DaemonConfig config;
  config.has_reducer = !read.is("role", "coordinator");
  config.has_coordinator = !read.is("role", "reducer");
  if (config.has_reducer)
    if (Status taken = take_interfaces(settings, config); !taken) return failure(std::move(taken));
  if (Status taken = take_secret(settings, config); !taken) return failure(std::move(taken));
  if (Status taken = take_coordinator(settings, config); !taken) return failure(std::move(taken));
  if (config.has_reducer)
    if (Status taken = take_reducer(settings, root, config); !taken) return failure(std::move(taken));
  config.admin_address = read.is("admin.address", "off") ? std::string() : read.text("admin.address");
  take_log(read, config.log);
  config.drain_timeout = read.duration("drain.timeout");
  config.one_shot = read.boolean("one_shot");
  config.ports_file = read.text("ports_file");
  if (config.has_reducer && config.has_coordinator)
    config.warnings.push_back(
        "both roles run in this process: if it dies, jobs lose their coordinator and a reducer at once; "
        "production runs coordinators apart");
  return config;
}

std::string reachable_address(const std::string& bound) {
  auto address = parse_address(bound);
  if (!address) return bound;
  if (is_wildcard(address->host)) address->host = address->host == "::" ? "::1" : "127.0.0.1";
  return address_text(*address);
}

}  // namespace redsum::server
