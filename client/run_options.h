// SPDX-License-Identifier: Apache-2.0
// The command line of redsumrun.
#pragma once
#include <string>
#include <vector>

namespace redsum::run {

struct Options {
  int workers = 0;
  int reducers = 1;             // 0: the pool is somewhere else, or there is none
  int shards = 1;               // per reducer
  std::string mode;             // for REDSUM_MODE, whose value it has where no flag says it. direct, ring: no reducers
  bool has_coordinator = true;  // to start one: not where the pool is somewhere else
  std::string secret_file;      // empty: a fresh one for this run where there is a pool, else what the environment says
  std::string chunk_bytes;      // for REDSUM_CHUNK_BYTES; empty: the pool chooses
  std::string job_id;           // empty: a fresh one where there is a pool, else what the environment says
  bool prefix = true;
  bool verbose = false;                       // show the daemons' log
  double timeout_s = 0;                       // of the whole run; 0: none
  std::vector<std::string> daemon_arguments;  // added to every redsumd
  std::vector<std::string> command;
};

// Reads argv; everything from the first word that is no flag on is the command. Returns -1 to go on, else the exit
// code: 0 after --help or --version, 2 after a message on stderr that names the flag.
int parse_options(int argc, char** argv, Options& options);

}  // namespace redsum::run
