// SPDX-License-Identifier: Apache-2.0
// Trains a small network on the UCI handwritten digits, data-parallel over all workers, and proves what redsum
// promises: the weights are bit-identical on all ranks after every epoch, and identical to those of a single process
// that computes every rank's gradients itself and folds them in rank order. A second copy of the network is trained
// with gradients that go round the ring of workers: in order `rank` it must stay bit-identical to the first.
//   redsumrun -np 4 --reducers 2 train_digits --data digits.csv.gz
// Exit code 0: accuracy of at least 95 % and both proofs hold. The arithmetic is in digits_model.h, the data in
// digits_data.h.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/redsum.hpp"
#include "examples/digits_data.h"
#include "examples/digits_model.h"

namespace {

struct Settings {
  std::string data;
  int epochs = 30;
  int batch = 128;  // over all ranks
  float learning_rate = 0.1f;
  float momentum = 0.9f;
  bool bf16_wire = false;
  bool ring_by_rank = true;
  int tamper = -1;  // this rank flips one bit of its weights in the first epoch, to show that the proof notices
};

bool parse(int argc, char** argv, Settings& settings) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool has_value = i + 1 < argc;
    if (flag == "--bf16-wire")
      settings.bf16_wire = true;
    else if (flag == "--data" && has_value)
      settings.data = argv[++i];
    else if (flag == "--epochs" && has_value)
      settings.epochs = std::atoi(argv[++i]);
    else if (flag == "--batch" && has_value)
      settings.batch = std::atoi(argv[++i]);
    else if (flag == "--ring-order" && has_value &&
             (!std::strcmp(argv[i + 1], "ring") || !std::strcmp(argv[i + 1], "rank")))
      settings.ring_by_rank = !std::strcmp(argv[++i], "rank");
    else if (flag == "--tamper" && has_value)
      settings.tamper = std::atoi(argv[++i]);
    else
      return false;
  }
  return !settings.data.empty() && settings.epochs > 0 && settings.batch > 0;
}

// The same training over one of the two ways: by the job's mode, or round the ring.
struct Way {
  const char* name = "ring";
  bool ring = false;
  digits::Network network;
  double loss = 0;
  std::vector<double> times_us;
  std::uint64_t bytes_sent = 0, bytes_received = 0;
};

class Trainer {
 public:
  Trainer(redsum::Communicator& world, const Settings& settings, const char* mode, digits::Data data)
      : world_(world), settings_(settings), data_(std::move(data)) {
    job_.name = mode;
    ring_.ring = true;
    if (world.rank() == 0) shadow_ = std::make_unique<digits::Network>(job_.network);
  }

  // All epochs. False, with a message, when a proof fails.
  bool train() {
    for (int epoch = 0; epoch < settings_.epochs; ++epoch) {
      const std::vector<int> order = digits::shuffled(data_.train_count, static_cast<std::uint64_t>(epoch) + 1);
      train_epoch(job_, order);
      for (int step = 0; shadow_ && step < steps(); ++step) shadow_step(order, step);
      train_epoch(ring_, order);
      if (epoch == 0 && settings_.tamper == world_.rank()) job_.network.bias1[0] = -job_.network.bias1[0];
      if (!prove(epoch)) return false;
      if (world_.rank() == 0) print_epoch(epoch);
    }
    return true;
  }

  bool report() {
    const double accuracy = digits::accuracy(job_.network, data_), by_ring = digits::accuracy(ring_.network, data_);
    const bool good = std::min(accuracy, by_ring) >= kWantedAccuracy;
    print_table();
    if (world_.rank() != 0) return good;
    std::printf("proof 1     weights bit-identical on all %d ranks after each of %d epochs\n", world_.size(),
                settings_.epochs);
    std::printf("proof 2     and identical to a single process that folds the %d ranks' gradients in rank order\n",
                world_.size());
    if (settings_.ring_by_rank)
      std::printf("proof 3     and identical to those trained round the ring, which folds in rank order too\n");
    std::printf("result      loss %.4f, test accuracy %.2f %% of %d images; round the ring %.4f, %.2f %%\n", job_.loss,
                100 * accuracy, data_.test_count, ring_.loss, 100 * by_ring);
    if (!good) std::fprintf(stderr, "train_digits: accuracy below %.0f %%\n", 100 * kWantedAccuracy);
    return good;
  }

 private:
  static constexpr double kWantedAccuracy = 0.95;

  std::size_t call_bytes() const { return digits::kParameters * sizeof(float) + sizeof(float); }

  // The samples of one rank's share of a batch.
  std::vector<int> share(const std::vector<int>& order, int step, int rank) const {
    const int from = settings_.batch * rank / world_.size();
    const int to = settings_.batch * (rank + 1) / world_.size();
    const auto first = order.begin() + step * settings_.batch;
    return {first + from, first + to};
  }

  void print_epoch(int epoch) const {
    std::printf("epoch %2d  loss %.4f (ring %.4f)  test accuracy %.2f %% (ring %.2f %%)  weights %016llx", epoch + 1,
                job_.loss, ring_.loss, 100 * digits::accuracy(job_.network, data_),
                100 * digits::accuracy(ring_.network, data_),
                static_cast<unsigned long long>(digits::hash(job_.network)));
    if (!settings_.ring_by_rank)
      std::printf(" (ring %016llx)", static_cast<unsigned long long>(digits::hash(ring_.network)));
    std::printf(" on all %d ranks and in the single process\n", world_.size());
    std::fflush(stdout);
  }

  int steps() const { return data_.train_count / settings_.batch; }

  // No rank begins before all have read their counters, nor goes on before all have read them again.
  void train_epoch(Way& way, const std::vector<int>& order) {
    const redsum_statistics before = world_.stats();
    world_.barrier();
    way.loss = 0;
    for (int step = 0; step < steps(); ++step) train_step(way, order, step);
    const redsum_statistics after = world_.stats();
    way.bytes_sent += after.bytes_sent - before.bytes_sent;
    way.bytes_received += after.bytes_received - before.bytes_received;
    way.loss /= steps();
    world_.barrier();
  }

  // Gradients of every layer and the loss, averaged over the ranks as one collective.
  void train_step(Way& way, const std::vector<int>& order, int step) {
    digits::Gradients gradients;
    gradients.loss = digits::backward(way.network, data_, share(order, step, world_.rank()), gradients);
    std::vector<redsum_tensor> tensors;
    for (const auto& [values, count] : gradients.tensors()) tensors.push_back({values, values, count});
    redsum::CallOptions options;
    if (settings_.bf16_wire) options.wire_dtype = REDSUM_BF16;
    options.ring = way.ring;
    const auto start = std::chrono::steady_clock::now();
    world_.allreduce(tensors, REDSUM_FP32, REDSUM_AVG, options).wait();
    way.times_us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    digits::apply(way.network, gradients, settings_.learning_rate, settings_.momentum);
    way.loss += gradients.loss;
  }

  // The same step by one process alone: every rank's gradients, folded in rank order, divided once.
  void shadow_step(const std::vector<int>& order, int step) {
    digits::Gradients sum;
    for (int rank = 0; rank < world_.size(); ++rank) {
      digits::Gradients one;
      one.loss = digits::backward(*shadow_, data_, share(order, step, rank), one);
      if (settings_.bf16_wire) one.round_to_bf16();
      if (rank == 0)
        sum = one;
      else
        sum.add(one);
    }
    sum.divide(static_cast<float>(world_.size()));
    if (settings_.bf16_wire) sum.round_to_bf16();
    digits::apply(*shadow_, sum, settings_.learning_rate, settings_.momentum);
  }

  bool prove(int epoch) {
    const std::uint64_t own = digits::hash(job_.network), by_ring = digits::hash(ring_.network);
    std::uint64_t smallest = own;
    std::uint64_t largest = own;
    world_.allreduce(&smallest, 1, REDSUM_MIN).wait();
    world_.allreduce(&largest, 1, REDSUM_MAX).wait();
    if (smallest != largest) {
      std::fprintf(stderr, "train_digits: epoch %d: the ranks' weights differ (rank %d has %016llx)\n", epoch + 1,
                   world_.rank(), static_cast<unsigned long long>(own));
      return false;
    }
    std::uint32_t same = shadow_ == nullptr || digits::hash(*shadow_) == own ? 1 : 0;
    world_.allreduce(&same, 1, REDSUM_MIN).wait();
    if (same == 0 && world_.rank() == 0) {
      std::fprintf(stderr, "train_digits: epoch %d: the single process' weights differ: %016llx, not %016llx\n",
                   epoch + 1, static_cast<unsigned long long>(digits::hash(*shadow_)),
                   static_cast<unsigned long long>(own));
    }
    std::uint64_t ring_smallest = by_ring, ring_largest = by_ring;
    world_.allreduce(&ring_smallest, 1, REDSUM_MIN).wait();
    world_.allreduce(&ring_largest, 1, REDSUM_MAX).wait();
    const bool ring_same = ring_smallest == ring_largest && (!settings_.ring_by_rank || by_ring == own);
    if (!ring_same && world_.rank() == 0)
      std::fprintf(
          stderr,
          "train_digits: epoch %d: the weights trained round the ring differ: %016llx to %016llx, not %016llx\n",
          epoch + 1, static_cast<unsigned long long>(ring_smallest), static_cast<unsigned long long>(ring_largest),
          static_cast<unsigned long long>(own));
    return same != 0 && ring_same;
  }

  // One column for each way: the calls' times, and what each worker's NIC carried, told by its library.
  void print_table() {
    const auto size = static_cast<std::size_t>(world_.size()), rank = static_cast<std::size_t>(world_.rank());
    std::vector<std::uint64_t> bytes(4 * size, 0);
    const std::uint64_t mine[] = {job_.bytes_sent, job_.bytes_received, ring_.bytes_sent, ring_.bytes_received};
    std::copy(std::begin(mine), std::end(mine), &bytes[4 * rank]);
    world_.allreduce(bytes, REDSUM_SUM).wait();
    if (rank != 0) return;
    for (Way* way : {&job_, &ring_}) std::sort(way->times_us.begin(), way->times_us.end());
    const auto time_at = [](const Way& way, std::size_t percent) {
      return way.times_us[(way.times_us.size() - 1) * percent / 100];
    };
    const double mega = 1e-6;
    std::printf("%zu all-reduces of %.1f KiB each         %10s %10s\n", job_.times_us.size(),
                static_cast<double>(call_bytes()) / 1024, job_.name, ring_.name);
    std::printf("all-reduce  median, us                  %10.0f %10.0f\n", time_at(job_, 50), time_at(ring_, 50));
    std::printf("            99th percentile, us         %10.0f %10.0f\n", time_at(job_, 99), time_at(ring_, 99));
    for (std::size_t r = 0; r < size; ++r)
      for (const std::size_t received : {0u, 1u})
        std::printf("traffic     rank %zu %-8s MB            %10.2f %10.2f\n", r, received ? "received" : "sent",
                    static_cast<double>(bytes[4 * r + received]) * mega,
                    static_cast<double>(bytes[4 * r + 2 + received]) * mega);
  }

  redsum::Communicator& world_;
  const Settings& settings_;
  digits::Data data_;
  Way job_, ring_;
  std::unique_ptr<digits::Network> shadow_;  // on rank 0
};

}  // namespace

int main(int argc, char** argv) try {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fprintf(stderr,
                 "usage: train_digits --data digits.csv.gz [--epochs 30] [--batch 128] [--bf16-wire] "
                 "[--ring-order ring|rank] [--tamper RANK]\n");
    return 2;
  }
  digits::Data data;
  if (const std::string error = digits::load(settings.data, data); !error.empty()) {
    std::fprintf(stderr, "train_digits: %s\n", error.c_str());
    return 2;
  }
  redsum::Options options;
  options.ring_order = settings.ring_by_rank ? REDSUM_RING_ORDER_RANK : REDSUM_RING_ORDER_RING;
  redsum::Communicator world(options);
  constexpr const char* kModes[] = {"server", "direct", "ring"};  // by redsum_mode
  if (settings.batch < world.size() || settings.batch > data.train_count) {
    std::fprintf(stderr, "train_digits: --batch %d must be from the world size %d to the %d training images\n",
                 settings.batch, world.size(), data.train_count);
    return 2;
  }
  if (world.rank() == 0) {
    std::printf("%d workers, %u reducers; %d images to learn, %d to test; %d parameters%s\n", world.size(),
                world.stats().reducers, data.train_count, data.test_count, digits::kParameters,
                settings.bf16_wire ? "; gradients travel as bf16" : "");
  }
  Trainer trainer(world, settings, kModes[options.mode], std::move(data));
  const bool good = trainer.train() && trainer.report();
  world.close();
  return good ? 0 : 1;
} catch (const redsum::Error& error) {
  std::fprintf(stderr, "train_digits: %s\n", error.what());
  return 1;
}
