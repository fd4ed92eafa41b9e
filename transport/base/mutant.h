// SPDX-License-Identifier: Apache-2.0
// Deliberate faults that prove the checkers of the simulation. Compiled in by the build option REDSUM_MUTANTS alone and
// chosen by name at run time; a build without the option folds every question to false.
#pragma once
#include <string_view>

namespace redsum {

#ifdef REDSUM_MUTANTS
// The fault that is switched on ("" = none). One thread sets it before the simulation runs.
inline std::string_view active_mutant = "";
inline bool mutant(std::string_view name) noexcept {
  return active_mutant == name;
}
#else
constexpr bool mutant(std::string_view) noexcept {
  return false;
}
#endif

}  // namespace redsum
