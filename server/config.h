// SPDX-License-Identifier: Apache-2.0
// redsumd's configuration: settings as text with their source, and the typed values made from them. Precedence, rising:
// default, file, environment, flag. Used by the main thread before anything else runs.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/config_keys.h"
#include "server/coordinator.h"
#include "server/cpus.h"
#include "server/log.h"
#include "server/reducer.h"
#include "transport/base/status.h"

namespace redsum::server {

enum class Source : std::uint8_t { built_in, file, environment, flag };

struct Setting {
  std::string text;
  Source source = Source::built_in;
  std::string where;  // "redsumd.toml:7", "REDSUM_ROLE", "--role"
};

// One setting per key, in the order of keys(). A value that is set has passed check_value().
class Settings {
 public:
  Settings();  // every default
  const Setting& at(std::string_view key) const;
  const Setting& at(std::size_t index) const { return settings_[index]; }
  // invalid_argument "WHERE: KEY = 'TEXT': what is needed". A later source of higher precedence overwrites.
  Status set(const Key& key, Setting setting);

 private:
  std::vector<Setting> settings_;
};

// -- the sources
// All errors of the file, one per line, each "PATH:LINE: ..."; an unknown key names the nearest known one.
Status read_config_file(const std::string& path, Settings& settings);
using Environment = std::function<const char*(const char* name)>;
Status read_environment(const Environment& environment, Settings& settings);
// A warning for each variable that is no key's but looks like one (REDSUM_REDUCER_SHARD), naming the one that was
// meant.
std::vector<std::string> suspicious_variables(const char* const* environ_block);

struct CommandLine {
  enum class Action : std::uint8_t {
    run,
    print_config,
    check_config,
    print_reference,
    print_example,
    print_version,
    help
  };
  Action action = Action::run;
  std::string config_path;  // empty: none
  bool parent_death = false;
  std::vector<std::pair<const Key*, Setting>> flags;
  std::string help;  // of Action::help
};
// invalid_argument naming the flag, and the nearest known one if it is unknown. The program then ends with exit code 2.
Result<CommandLine> parse_command_line(int argc, const char* const* argv);

// File (if any), environment, flags.
Result<Settings> gather_settings(const CommandLine& command_line, const Environment& environment);

// -- the outcome
struct DaemonConfig {
  bool has_reducer = true, has_coordinator = true;
  ReducerConfig reducer;  // coordinators: empty = this process's own coordinator, known once it listens
  CoordinatorConfig coordinator;
  std::string admin_address;  // empty: none
  LogConfig log;
  DurationNs drain_timeout = 10 * kSecond;
  bool one_shot = false;
  std::string ports_file;
  CpuLimits cpus;       // what reducer.shards = 0 came from
  MemoryLimits memory;  // what reducer.memory_budget = auto came from
  std::vector<std::string> warnings;
};

// Checks what spans several keys, reads the secret file, looks at CPUs and memory. `root`: where /proc and /sys are
// found. auth_failed for an address that needs a secret; invalid_argument for the rest.
Result<DaemonConfig> make_config(const Settings& settings, const std::string& root = "/");

// The address by which a process on this host reaches the listener at `bound`: a wildcard becomes loopback.
std::string reachable_address(const std::string& bound);

// -- the texts. All end with a newline.
std::string print_config(const Settings& settings);  // TOML that gives the same settings, with each one's source
std::string print_example();                         // configs/redsumd.toml
std::string print_reference();                       // docs/reference/configuration.md

}  // namespace redsum::server
