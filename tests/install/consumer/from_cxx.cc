// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <redsum/redsum.hpp>

int main() {
  redsum::Options options;
  options.job_id = "not/a/job";
  try {
    redsum::Communicator world(options);
  } catch (const redsum::Error& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
