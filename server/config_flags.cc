// SPDX-License-Identifier: Apache-2.0
// The command line. The only user of CLI11 in the daemon; CLI11 parses flags and nothing else, because its own
// configuration file would beat the environment.
#include <CLI/CLI.hpp>
#include <deque>

#include "server/config.h"

namespace redsum::server {
namespace {

struct Flag {
  const Key* key;
  std::string names;  // "--log-level,--log.level"
  std::vector<std::string> values;
};

std::string flag_names(const Key& key) {
  std::string names = "--" + std::string(key.name);
  if (!key.alias.empty()) names = "--" + std::string(key.alias) + "," + names;
  return names;
}

// What a flag takes, in one word; --print-reference tells the limits.
std::string value_name(const Key& key) {
  switch (key.type) {
    case KeyType::choice:
      return std::string(key.words);
    case KeyType::integer:
      return "INT";
    case KeyType::bytes:
      return "SIZE";
    case KeyType::duration:
      return "TIME";
    case KeyType::address:
      return "ADDRESS";
    case KeyType::list:
      return "LIST";
    case KeyType::text:
      return "TEXT";
    case KeyType::boolean:
      break;
  }
  return {};
}

std::vector<std::string> known_flags() {
  std::vector<std::string> names = {"--config",        "--print-config", "--check-config", "--print-reference",
                                    "--print-example", "--version",      "--help",         "--parent-death"};
  for (const Key& key : keys()) {
    names.push_back("--" + std::string(key.name));
    if (!key.alias.empty()) names.push_back("--" + std::string(key.alias));
  }
  return names;
}

Status unknown_flag(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  if (name.substr(0, 1) != "-")
    return {Code::invalid_argument, "'" + word + "': redsumd takes flags only; see redsumd --help"};
  const std::string near = nearest(name, known_flags());
  return {Code::invalid_argument, "unknown flag " + name + (near.empty() ? "" : "; did you mean " + near + "?") +
                                      " (redsumd --help lists all)"};
}

std::string joined(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ",") + value;
  return text;
}

void add_keys(CLI::App& app, std::deque<Flag>& flags) {
  for (const Key& key : keys()) {
    Flag& flag = flags.emplace_back(Flag{&key, flag_names(key), {}});
    const std::string help =
        std::string(key.description) + (key.default_text.empty() ? "" : " [" + std::string(key.default_text) + "]");
    CLI::Option* option = key.type == KeyType::boolean ? app.add_flag(flag.names, flag.values, help)
                                                       : app.add_option(flag.names, flag.values, help)->expected(1);
    option->multi_option_policy(key.type == KeyType::list ? CLI::MultiOptionPolicy::TakeAll
                                                          : CLI::MultiOptionPolicy::TakeLast);
    option->group(key.name.find('.') == std::string_view::npos ? "Options"
                                                               : std::string(key.name.substr(0, key.name.find('.'))));
    if (key.type != KeyType::boolean) option->type_name(value_name(key));
  }
}

struct Actions {
  bool print_config = false, check_config = false, print_reference = false, print_example = false, version = false,
       help = false;
};

CommandLine::Action chosen(const Actions& actions) {
  using Action = CommandLine::Action;
  if (actions.help) return Action::help;
  if (actions.version) return Action::print_version;
  if (actions.print_reference) return Action::print_reference;
  if (actions.print_example) return Action::print_example;
  if (actions.print_config) return Action::print_config;
  return actions.check_config ? Action::check_config : Action::run;
}

}  // namespace

Result<CommandLine> parse_command_line(int argc, const char* const* argv) {
  CLI::App app(
      "redsumd: the reduction server's daemon. Every setting is also a key of the TOML file and a variable\n"
      "REDSUM_SECTION_KEY; precedence, rising: default, file, environment, flag.",
      "redsumd");
  app.set_help_flag();
  app.allow_extras();
  CommandLine result;
  Actions actions;
  app.add_flag("-h,--help", actions.help, "Show this");
  app.add_flag("--version", actions.version, "Show the version");
  app.add_option("-c,--config", result.config_path, "The TOML file (REDSUM_CONFIG)")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.add_flag("--print-config", actions.print_config, "Show every setting with its source, and exit");
  app.add_flag("--check-config", actions.check_config, "Check the settings; exit with 0 or 1");
  app.add_flag("--print-reference", actions.print_reference, "Show docs/reference/configuration.md, and exit");
  app.add_flag("--print-example", actions.print_example, "Show a commented configuration file, and exit");
  app.add_flag("--parent-death", result.parent_death, "Drain and exit when the parent process ends; for launchers");
  app.footer(
      "Exit code: 0 after a drain or the last job, 1 when it cannot start or a setting is wrong, 2 for a bad command "
      "line.");
  std::deque<Flag> flags;
  add_keys(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return failure(Code::invalid_argument, std::string(error.what()) + " (redsumd --help lists all flags)");
  }
  if (const auto extras = app.remaining(); !extras.empty()) return failure(unknown_flag(extras.front()));
  for (const Flag& flag : flags) {
    if (flag.values.empty()) continue;
    const std::string name = flag.names.substr(0, flag.names.find(','));
    const std::string text = joined(flag.values);
    Settings scratch;
    if (Status set = scratch.set(*flag.key, {text, Source::flag, name}); !set) return failure(std::move(set));
    result.flags.emplace_back(flag.key, Setting{text, Source::flag, name});
  }
  result.action = chosen(actions);
  if (result.action == CommandLine::Action::help) result.help = app.help();
  return result;
}

}  // namespace redsum::server
