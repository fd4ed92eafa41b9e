// SPDX-License-Identifier: Apache-2.0
// One rank of an all-reduce by Gloo over TCP; the ranks find each other through files in --store.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>

#include "bench/peers/peer.h"

namespace {

constexpr std::chrono::seconds kTimeout{60};

class Gloo : public peers::Peer {
 public:
  Gloo(const peers::Options& options, std::vector<float>& buffer)
      : context_(connect(options)), sum_(context_), barrier_(context_) {
    const std::vector<float*> buffers = {buffer.data()};
    const int count = static_cast<int>(buffer.size());
    if (options.algorithm == "ring") {  // the function that took the place of the classes, and that PyTorch calls
      sum_.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      sum_.setOutput(buffer.data(), buffer.size());
      sum_.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    } else if (options.algorithm == "ring-chunked") {
      algorithm_ = std::make_unique<gloo::AllreduceRingChunked<float>>(context_, buffers, count);
    } else if (options.algorithm == "ring-whole") {  // passes the whole buffer on n - 1 times
      algorithm_ = std::make_unique<gloo::AllreduceRing<float>>(context_, buffers, count);
    } else if (options.algorithm == "halving-doubling") {
      algorithm_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(context_, buffers, count);
    } else {
      throw std::invalid_argument("--algorithm: ring, ring-chunked, ring-whole or halving-doubling");
    }
  }

  void barrier() override { gloo::barrier(barrier_); }

  void allreduce() override {
    if (algorithm_ != nullptr) {
      algorithm_->run();
    } else {
      gloo::allreduce(sum_);
    }
  }

  void max_over_ranks(std::vector<double>& values) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(values.data(), values.size());
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::max<double>));
    options.setTag(1);
    gloo::allreduce(options);
  }

 private:
  static std::shared_ptr<gloo::Context> connect(const peers::Options& options) {
    auto context =
        std::make_shared<gloo::rendezvous::Context>(static_cast<int>(options.rank), static_cast<int>(options.ranks));
    context->setTimeout(kTimeout);
    gloo::rendezvous::FileStore store(options.store);
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(options.address.c_str());
    context->connectFullMesh(store, device);
    return context;
  }

  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::Algorithm> algorithm_;
  gloo::AllreduceOptions sum_;
  gloo::BarrierOptions barrier_;
};

}  // namespace

int main(int argc, char** argv) try {
  const peers::Options options = peers::parse(argc, argv, "gloo_peer");
  std::vector<float> buffer(options.bytes / sizeof(float));
  Gloo gloo(options, buffer);
  const int exit_code = peers::measure(gloo, options, buffer);
  gloo.barrier();  // a rank that left earlier would break the others' connections
  return exit_code;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gloo_peer: %s\n", error.what());
  return 1;
}
