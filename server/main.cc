// SPDX-License-Identifier: Apache-2.0
// redsumd.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "server/daemon.h"
#include "server/launch.h"

namespace {

using namespace redsum;
using namespace redsum::server;

constexpr int kFailed = 1, kUsage = 2;

int complain(const Status& status, int code) {
  std::fprintf(stderr, "redsumd: %s\n", status.to_string().c_str());
  return code;
}

int print(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? 0 : kFailed;
}

int check(const DaemonConfig& config) {
  for (const std::string& warning : config.warnings) std::fprintf(stderr, "redsumd: warning: %s\n", warning.c_str());
  return print("configuration is fine\n");
}

int serve(const CommandLine& line, DaemonConfig& config) {
  const SignalSource next_signal = take_signals();  // before the first thread
  if (line.parent_death)
    if (const Status followed = follow_parent_death(); !followed) return complain(followed, kFailed);
  raise_descriptor_limit();
  if (const Status started = start_log(config.log); !started) return complain(started, kFailed);
  const std::vector<std::string> suspicious = suspicious_variables(::environ);
  config.warnings.insert(config.warnings.begin(), suspicious.begin(), suspicious.end());
  log::info("redsumd " REDSUM_VERSION ", pid " + std::to_string(::getpid()));
  const int code = run_daemon(config, {start_coordinator, start_reducer}, next_signal);
  stop_log();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  using Action = CommandLine::Action;
  auto line = parse_command_line(argc, argv);
  if (!line) return complain(line.error(), kUsage);
  switch (line->action) {
    case Action::help:
      return print(line->help);
    case Action::print_version:
      return print("redsumd " REDSUM_VERSION "\n");
    case Action::print_reference:
      return print(print_reference());
    case Action::print_example:
      return print(print_example());
    default:
      break;
  }
  if (const char* path = std::getenv("REDSUM_CONFIG"); path && line->config_path.empty()) line->config_path = path;
  const auto settings = gather_settings(*line, [](const char* name) { return std::getenv(name); });
  if (!settings) return complain(settings.error(), kFailed);
  if (line->action == Action::print_config) return print(print_config(*settings));
  auto config = make_config(*settings);
  if (!config) return complain(config.error(), kFailed);
  return line->action == Action::check_config ? check(*config) : serve(*line, *config);
}
