// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/coverage.h"

#include "tests/sim/world.h"

namespace redsum::sim {
namespace {

constexpr std::uint64_t kLeastHits = 100;             // seeds in which a kind of fault took effect
constexpr std::uint64_t kLeastRecoveredPercent = 20;  // of the seeds

// What the cores can go through, as the world sees it.
constexpr const char* kTransitions[] = {
    "jobs in server mode",
    "jobs in ring mode",
    "jobs in both modes",
    "join refused",
    "communicator created",
    "calls ok",
    "calls failed",
    "exchanges",
    "lane between workers",
    "disagreement in a ring",
    "stall answered",
    "lane lost at a worker",
    "epochs inside a call",
    "reducers that came into a job",
    "reducers that workers brought",
    "left early",
    "memberships after the first",
    "resumptions asked for",
    "admissions asked for",
    "workers taken in",
    "job closed",
};

}  // namespace

std::vector<std::string> missed_gates(const Coverage& coverage, std::uint64_t seeds) {
  std::vector<std::string> missed;
  const auto need = [&](const std::string& what, std::uint64_t least) {
    if (coverage.of(what) < least)
      missed.push_back(what + ": " + std::to_string(coverage.of(what)) + ", at least " + std::to_string(least) +
                       " are wanted");
  };
  for (int fault = 1; fault < kFaultCount; ++fault)
    need(std::string("fault hit ") + fault_name(static_cast<Fault>(fault)), kLeastHits * (seeds / kGateSeeds));
  need("seeds that recovered inside a call", seeds * kLeastRecoveredPercent / 100);
  for (const char* transition : kTransitions) need(transition, 1);
  return missed;
}

}  // namespace redsum::sim
