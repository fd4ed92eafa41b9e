// SPDX-License-Identifier: Apache-2.0
// One rank of MPI_Allreduce; mpirun tells it who it is, and over which transport.
#include <mpi.h>

#include "bench/peers/peer.h"

namespace {

class Mpi : public peers::Peer {  // errors end the job: MPI's default
 public:
  explicit Mpi(std::vector<float>& buffer) : buffer_(buffer) {}
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void allreduce() override {
    MPI_Allreduce(MPI_IN_PLACE, buffer_.data(), static_cast<int>(buffer_.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void max_over_ranks(std::vector<double>& values) override {
    MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }

 private:
  std::vector<float>& buffer_;
};

}  // namespace

int main(int argc, char** argv) {
  peers::Options options = peers::parse(argc, argv, "mpi_peer");
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  options.rank = static_cast<std::uint32_t>(rank);
  options.ranks = static_cast<std::uint32_t>(ranks);
  std::vector<float> buffer(options.bytes / sizeof(float));
  Mpi mpi(buffer);
  const int exit_code = peers::measure(mpi, options, buffer);
  MPI_Finalize();
  return exit_code;
}
