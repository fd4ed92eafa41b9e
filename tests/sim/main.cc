// SPDX-License-Identifier: Apache-2.0
// sim: runs seeds of the whole-system simulation, or a mutant that must be caught.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include "tests/sim/world.h"
#include "transport/base/log.h"
#include "transport/base/mutant.h"

namespace {

using namespace redsum;

// A deliberate fault in the code, the fault of the world that shows it ("any": as seeds draw them), and which of the
// world's checkers sees it.
struct Mutant {
  const char* name;
  const char* fault;
  const char* checker;
};

constexpr Mutant kMutants[] = {
    {"fold_without_last", "any", "bits"},
    {"wrong_fold_order", "any", "bits"},
    {"window_too_large", "any", "error"},
    {"staging_shared", "any", "bits"},
    {"redirect_kept", "any", "bits"},
    {"no_agreement", "mismatch", "agreement"},
    {"duplicate_counted", "duplicate", "bits"},
    {"no_rollback", "lose_worker", "input"},
    {"ring_window_too_large", "any", "error"},
    {"ring_ends_unsent", "any", "bits"},
    {"exchange_window_too_large", "any", "error"},
    {"exchange_held_early", "any", "error"},
    {"exchange_ends_unsent", "any", "bits"},
    {"max_progress", "kill_reducer", "error"},
    {"keep_old_epoch", "kill_reducer", "error"},
    {"nothing_kept", "kill_reducer", "error"},
    {"gone_when_left", "kill_reducer", "error"},
    {"resume_from_highest", "lose_worker", "agreement"},
    {"hears_those_of_before", "lose_worker", "end"},
};

struct Arguments {
  std::uint64_t first = 0, seeds = 200;
  double seconds = 0;
  bool verbose = false;
  std::string mutant;
  std::optional<sim::Fault> fault;
};

int usage() {
  std::fprintf(stderr,
               "usage: sim [--seeds N] [--seed S] [--seconds T] [--fault NAME] [--mutant NAME|all] [-v]\nmutants:");
  for (const Mutant& mutant : kMutants) std::fprintf(stderr, " %s", mutant.name);
  std::fprintf(stderr, "\n");
  return 2;
}

bool parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const auto is = [&](const char* name) { return std::strcmp(argv[i], name) == 0 && i + 1 < argc; };
    if (is("--seeds"))
      arguments.seeds = std::strtoull(argv[++i], nullptr, 10);
    else if (is("--seed"))
      arguments.first = std::strtoull(argv[++i], nullptr, 10), arguments.seeds = 1;
    else if (is("--first"))
      arguments.first = std::strtoull(argv[++i], nullptr, 10);
    else if (is("--seconds"))
      arguments.seconds = std::strtod(argv[++i], nullptr), arguments.seeds = ~0ull;
    else if (is("--fault")) {
      arguments.fault = sim::fault_of(argv[++i]);
      if (!arguments.fault) return false;
    } else if (is("--mutant"))
      arguments.mutant = argv[++i];
    else if (std::strcmp(argv[i], "-v") == 0)
      arguments.verbose = true;
    else
      return false;
  }
  return true;
}

struct Outcome {
  std::uint64_t run = 0, broken = 0, hash = 0;
  std::map<std::string, std::uint64_t> by_checker;
};

Outcome run_seeds(const Arguments& arguments, sim::Coverage& coverage, bool report) {
  Outcome outcome;
  const auto begun = std::chrono::steady_clock::now();
  for (std::uint64_t seed = arguments.first; outcome.run < arguments.seeds; ++seed, ++outcome.run) {
    if (arguments.seconds > 0 &&
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() > arguments.seconds)
      break;
    try {
      sim::World world(seed, coverage, arguments.verbose, arguments.fault);
      world.run();
      outcome.hash = outcome.hash * 1099511628211ull ^ world.trace_hash();
    } catch (const sim::Broken& broken) {
      if (report && outcome.broken < 10)
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), broken.what());
      ++outcome.broken;
      ++outcome.by_checker[broken.checker];
    }
  }
  return outcome;
}

// Its checker must see each mutant in at least 1 % of the seeds.
int run_mutants([[maybe_unused]] Arguments arguments) {
#ifdef REDSUM_MUTANTS
  int missed = 0, tried = 0;
  const std::optional<sim::Fault> asked = arguments.fault;
  for (const Mutant& mutant : kMutants) {
    if (arguments.mutant != "all" && arguments.mutant != mutant.name) continue;
    ++tried;
    active_mutant = mutant.name;
    arguments.fault = asked ? asked : sim::fault_of(mutant.fault);
    sim::Coverage coverage;
    Outcome outcome = run_seeds(arguments, coverage, arguments.mutant != "all");
    const bool caught = outcome.by_checker[mutant.checker] * 100 >= outcome.run;
    std::printf("mutant %-25s %s in %llu of %llu seeds, fault %s:", mutant.name, caught ? "caught" : "MISSED",
                static_cast<unsigned long long>(outcome.by_checker[mutant.checker]),
                static_cast<unsigned long long>(outcome.run), mutant.fault);
    for (const auto& [checker, count] : outcome.by_checker)
      std::printf(" %s %llu", checker.c_str(), static_cast<unsigned long long>(count));
    std::printf("\n");
    missed += !caught;
  }
  active_mutant = "";
  if (tried == 0) return usage();  // a name that is no mutant's
  return missed == 0 ? 0 : 1;
#else
  std::fprintf(stderr, "sim: this build has no mutants; configure with -DREDSUM_MUTANTS=ON (preset dev)\n");
  return 2;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) return usage();
  // The faults are ours: what the agents say about them would be noise.
  log::set_level(arguments.verbose ? log::Level::info : log::Level::error);
  if (!arguments.mutant.empty()) return run_mutants(arguments);
  sim::Coverage coverage;
  const auto begun = std::chrono::steady_clock::now();
  const Outcome outcome = run_seeds(arguments, coverage, true);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  for (const auto& [what, count] : coverage.counts)
    std::printf("  %-28s %llu\n", what.c_str(), static_cast<unsigned long long>(count));
  std::printf("%llu seeds, %llu broken, %.0f seeds/s, trace %016llx\n", static_cast<unsigned long long>(outcome.run),
              static_cast<unsigned long long>(outcome.broken), static_cast<double>(outcome.run) / seconds,
              static_cast<unsigned long long>(outcome.hash));
  std::vector<std::string> missed;
  if (!arguments.fault && outcome.run >= sim::kGateSeeds) missed = sim::missed_gates(coverage, outcome.run);
  for (const std::string& gate : missed) std::printf("not reached: %s\n", gate.c_str());
  return outcome.broken == 0 && outcome.run > 0 && missed.empty() ? 0 : 1;
}
