// SPDX-License-Identifier: Apache-2.0
#include "client/run_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace redsum::run {
namespace {

constexpr int kMaxWorkers = 4096;
constexpr int kMaxReducers = 256;
constexpr int kMaxShards = 256;
constexpr double kMaxTimeoutS = 1e8;

// MPI users type -np, which CLI11 would take for -n with the value "p": spell it --np, in front of the command only.
std::vector<std::string> spell_np(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.empty() || word[0] != '-' || word == "--") break;
    if (word == "-np" || word.rfind("-np=", 0) == 0) words[i] = "-" + word;
    const bool no_value = word == "--no-prefix" || word == "--verbose" || word == "--help" || word == "-h" ||
                          word == "--version" || word.find('=') != std::string::npos;
    if (!no_value) ++i;
  }
  return {words.rbegin(), words.rend()};  // as CLI11 wants them
}

int usage_error(const std::string& text) {
  std::fprintf(stderr, "redsumrun: %s\n", text.c_str());
  return 2;
}

const std::vector<std::string> kModes = {"server", "direct", "ring"};

// What the workers will read there decides here too which pool they need. Returns how the mode was asked for.
std::string mode_from_environment(Options& options) {
  const char* variable = std::getenv("REDSUM_MODE");
  if (!options.mode.empty() || variable == nullptr || *variable == '\0') return "--mode " + options.mode;
  options.mode = variable;
  return "REDSUM_MODE=" + options.mode;
}

int finish(const CLI::App& app, Options& options) {
  options.command = app.remaining();
  if (!options.command.empty() && options.command.front() == "--") options.command.erase(options.command.begin());
  if (!options.command.empty() && options.command.front().rfind("-", 0) == 0) {
    return usage_error("unknown flag " + options.command.front() + "; redsumrun --help lists them");
  }
  if (options.command.empty()) return usage_error("CMD is missing: redsumrun -np N --reducers M CMD [ARGUMENTS...]");
  const char* coordinator = std::getenv("REDSUM_COORDINATOR");
  const bool elsewhere = coordinator != nullptr && *coordinator != '\0';
  const std::string asked = mode_from_environment(options);
  if (!options.mode.empty() && std::find(kModes.begin(), kModes.end(), options.mode) == kModes.end())
    return usage_error(asked + ": expected server, direct or ring");
  const bool alone = options.mode == "direct" || options.mode == "ring";
  if (alone && options.reducers != 0 && app.count("--reducers") != 0)
    return usage_error(asked + " has no reducers, the workers sum; drop --reducers " +
                       std::to_string(options.reducers));
  if (alone || (elsewhere && app.count("--reducers") == 0)) options.reducers = 0;
  options.has_coordinator = options.reducers > 0 || (alone && !elsewhere);
  return -1;
}

}  // namespace

int parse_options(int argc, char** argv, Options& options) {
  CLI::App app{
      "Starts N workers on this machine, with a coordinator and M reducers of their own.\n"
      "  redsumrun -np 4 --reducers 2 redsum-perf -b 1K -e 64M -f 4\n"
      "Every worker gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and the REDSUM_* variables that redsum_init "
      "reads.\n"
      "Exit code: that of the first worker that failed (128 + signal), 124 after --timeout, 2 for a bad command line.",
      "redsumrun -np N"};
  app.get_formatter()->label("OPTIONS", "OPTIONS] CMD [ARGUMENTS...");  // for the line `Usage:`
  app.prefix_command();
  app.add_option("--np,-n", options.workers, "number of workers (also: -np)")
      ->required()
      ->check(CLI::Range(1, kMaxWorkers));
  app.add_option(
         "--reducers", options.reducers,
         "number of reducers to start; 0: use the pool at REDSUM_COORDINATOR. Default: 0 where that is set, else 1")
      ->check(CLI::Range(0, kMaxReducers));
  app.add_option("--mode", options.mode,
                 "server: the reducers sum; direct, ring: the workers do, none is started (default: REDSUM_MODE, else "
                 "server)")
      ->check(CLI::IsMember(kModes));
  app.add_option("--shards", options.shards, "shards (threads) of each reducer, default 1")
      ->check(CLI::Range(1, kMaxShards));
  app.add_option("--secret-file", options.secret_file, "the pool's secret; default: a fresh one for this run")
      ->check(CLI::ExistingFile);
  app.add_option("--chunk-bytes", options.chunk_bytes, "size of a chunk, e.g. 65536; default: the pool chooses")
      ->check(CLI::PositiveNumber);
  app.add_option("--job-id", options.job_id, "name of the job; default: a fresh one");
  bool no_prefix = false;
  app.add_flag("--no-prefix", no_prefix, "do not put [rank] in front of the workers' lines");
  app.add_flag("--verbose", options.verbose, "show the log of coordinator and reducers");
  app.add_option("--timeout", options.timeout_s, "end everything after so many seconds")
      ->check(CLI::Range(0.001, kMaxTimeoutS));
  app.add_option("--redsumd-arg", options.daemon_arguments,
                 "one more argument for every redsumd, may be repeated: --redsumd-arg=--job.window=2")
      ->allow_extra_args(false);
  app.set_version_flag("--version", "redsumrun " REDSUM_VERSION);
  try {
    app.parse(spell_np(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return usage_error(error.what());
  }
  options.prefix = !no_prefix;
  return finish(app, options);
}

}  // namespace redsum::run
