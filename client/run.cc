// SPDX-License-Identifier: Apache-2.0
// redsumrun: the launcher for one machine. See run_options.cc for its flags and run_supervisor.h for what it does.
#include "client/run_options.h"
#include "client/run_supervisor.h"

int main(int argc, char** argv) {
  redsum::run::Options options;
  if (const int code = redsum::run::parse_options(argc, argv, options); code >= 0) return code;
  return redsum::run::Supervisor(options).run();
}
