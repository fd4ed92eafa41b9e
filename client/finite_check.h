// SPDX-License-Identifier: Apache-2.0
// A debug mode, REDSUM_CHECK_FINITE=1: which rank was the first to contribute NaN or an infinity, and where. Looks at
// the inputs of a reduction when it is submitted, so that every mode says the same. One thread.
#pragma once
#include <cstdint>

#include "client/call.h"

namespace redsum::client {

class FiniteCheck {
 public:
  static constexpr std::uint32_t kMostLines = 10;

  FiniteCheck();  // reads the environment
  // Logs one warning where the inputs of `call` have such an element, which names the first. `rank`: the caller's, in
  // the communicator. After kMostLines of them it falls silent, and says so.
  void look(const Call& call, CommunicatorId id, Rank rank);

 private:
  const bool on_;
  std::uint32_t lines_ = 0;
};

}  // namespace redsum::client
