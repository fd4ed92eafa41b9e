// SPDX-License-Identifier: Apache-2.0
// The pool that redsumrun starts for one run: a private folder with the secret and the files in which the daemons tell
// their ports, and the command lines of the daemons. Owns the folder; removes it at the end.
#pragma once
#include <string>
#include <vector>

#include "client/run_options.h"
#include "client/run_process.h"
#include "transport/base/status.h"

namespace redsum::run {

// Random letters and digits, 4 bits each.
std::string random_hex(std::size_t digits);

// The folder of this executable.
std::string own_folder();

class Pool {
 public:
  explicit Pool(const Options& options) : options_(options) {}
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  Status prepare();  // makes the folder and the secret
  const std::string& folder() const { return folder_; }
  const std::string& secret_file() const { return secret_file_; }
  SpawnSpec coordinator() const;
  SpawnSpec reducer(int index, const std::string& coordinator_address) const;

  // What a daemon has told so far.
  struct Report {
    bool ready = false;
    std::string control_address;  // of a coordinator; empty: not told yet
  };
  Report coordinator_report() const { return read_report("coordinator.json"); }
  Report reducer_report(int index) const { return read_report("reducer-" + std::to_string(index) + ".json"); }

 private:
  SpawnSpec daemon(const std::string& name, const std::string& role, const std::string& ports_file) const;
  Report read_report(const std::string& file) const;
  const Options& options_;
  std::string folder_;
  std::string secret_file_;
};

}  // namespace redsum::run
