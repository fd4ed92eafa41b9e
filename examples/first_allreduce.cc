// SPDX-License-Identifier: Apache-2.0
// The smallest complete program:  redsumrun -np 4 --reducers 2 first_allreduce
#include <cstdio>
#include <vector>

#include "client/redsum.hpp"

int main() try {
  redsum::Communicator world;  // who and where: from the environment that redsumrun, torchrun, mpirun or Slurm set
  std::vector<float> gradients(1000, static_cast<float>(world.rank() + 1));
  world.allreduce(gradients, REDSUM_AVG).wait();  // in place; asynchronous until wait()
  std::printf("rank %d of %d: average %g\n", world.rank(), world.size(), static_cast<double>(gradients[999]));
  return 0;
} catch (const redsum::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
