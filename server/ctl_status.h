// SPDX-License-Identifier: Apache-2.0
// redsumctl status: from the /status of several daemons to one picture. Pure.
#pragma once
#include <string>
#include <vector>

#include "transport/base/status.h"

namespace redsum::ctl {

struct Answer {
  std::string address;
  Result<std::string> body;  // of /status
};

inline constexpr int kFine = 0, kDegraded = 1, kUnreachable = 2;

struct Picture {
  int exit_code = kFine;  // kUnreachable if any daemon is, else kDegraded if any is not ready or not alive
  std::string text;
};
// A box as nvidia-smi draws them: daemons, reducers, coordinators, jobs. Missing fields (another version) show as "-".
Picture picture(const std::vector<Answer>& answers);
// {"exit_code":..,"daemons":[{"address":..,"status":{..}} or {"address":..,"error":".."}]}
Picture picture_json(const std::vector<Answer>& answers);

}  // namespace redsum::ctl
