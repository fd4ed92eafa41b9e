// SPDX-License-Identifier: Apache-2.0
// Trains a small network on the UCI handwritten digits, data-parallel over all workers, and proves what redsum
// promises: the weights are bit-identical on all ranks after every epoch, and identical to those of a single process
// that computes every rank's gradients itself and folds them in rank order.
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
    else if (flag == "--tamper" && has_value)
      settings.tamper = std::atoi(argv[++i]);
    else
      return false;
  }
  return !settings.data.empty() && settings.epochs > 0 && settings.batch > 0;
}

class Trainer {
 public:
  Trainer(redsum::Communicator& world, const Settings& settings, digits::Data data)
      : world_(world), settings_(settings), data_(std::move(data)), before_(world.stats()) {
    if (world.rank() == 0) shadow_ = std::make_unique<digits::Network>(network_);
  }

  // All epochs. False, with a message, when a proof fails.
  bool train() {
    for (int epoch = 0; epoch < settings_.epochs; ++epoch) {
      const std::vector<int> order = digits::shuffled(data_.train_count, static_cast<std::uint64_t>(epoch) + 1);
      double loss = 0;
      const int steps = data_.train_count / settings_.batch;
      for (int step = 0; step < steps; ++step) loss += train_step(order, step);
      if (epoch == 0 && settings_.tamper == world_.rank()) network_.bias1[0] = -network_.bias1[0];
      if (!prove(epoch)) return false;
      loss_ = loss / steps;
      if (world_.rank() == 0) {
        std::printf(
            "epoch %2d  loss %.4f  test accuracy %.2f %%  weights %016llx on all %d ranks and in the single process\n",
            epoch + 1, loss_, 100 * digits::accuracy(network_, data_),
            static_cast<unsigned long long>(digits::hash(network_)), world_.size());
        std::fflush(stdout);
      }
    }
    return true;
  }

  bool report() {
    const double accuracy = digits::accuracy(network_, data_);
    const bool good = accuracy >= kWantedAccuracy;
    print_traffic();
    if (world_.rank() != 0) return good;
    std::sort(times_us_.begin(), times_us_.end());
    std::printf("all-reduce  %zu of %.1f KiB each: median %.0f us, p99 %.0f us\n", times_us_.size(),
                static_cast<double>(call_bytes()) / 1024, times_us_[(times_us_.size() - 1) / 2],
                times_us_[(times_us_.size() - 1) * 99 / 100]);
    std::printf("proof 1     weights bit-identical on all %d ranks after each of %d epochs\n", world_.size(),
                settings_.epochs);
    std::printf("proof 2     and identical to a single process that folds the %d ranks' gradients in rank order\n",
                world_.size());
    std::printf("result      loss %.4f, test accuracy %.2f %% of %d images\n", loss_, 100 * accuracy, data_.test_count);
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

  // Gradients of every layer and the loss, averaged over the ranks as one collective. Returns the mean loss.
  float train_step(const std::vector<int>& order, int step) {
    digits::Gradients gradients;
    gradients.loss = digits::backward(network_, data_, share(order, step, world_.rank()), gradients);
    std::vector<redsum_tensor> tensors;
    for (const auto& [values, count] : gradients.tensors()) tensors.push_back({values, values, count});
    redsum::CallOptions options;
    if (settings_.bf16_wire) options.wire_dtype = REDSUM_BF16;
    const auto start = std::chrono::steady_clock::now();
    world_.allreduce(tensors, REDSUM_FP32, REDSUM_AVG, options).wait();
    times_us_.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    digits::apply(network_, gradients, settings_.learning_rate, settings_.momentum);
    if (shadow_) shadow_step(order, step);
    return gradients.loss;
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
    const std::uint64_t own = digits::hash(network_);
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
    return same != 0;
  }

  // What each worker's NIC carried, told by its library, beside what a ring of the same calls needs: 2(n-1)/n x S each
  // way.
  void print_traffic() {
    const redsum_statistics after = world_.stats();
    const auto size = static_cast<std::size_t>(world_.size());
    std::vector<std::uint64_t> bytes(2 * size, 0);
    bytes[2 * static_cast<std::size_t>(world_.rank())] = after.bytes_sent - before_.bytes_sent;
    bytes[2 * static_cast<std::size_t>(world_.rank()) + 1] = after.bytes_received - before_.bytes_received;
    world_.allreduce(bytes, REDSUM_SUM).wait();
    if (world_.rank() != 0) return;
    const double payload = static_cast<double>(call_bytes() * times_us_.size()) * (settings_.bf16_wire ? 0.5 : 1.0);
    for (std::size_t rank = 0; rank < size; ++rank) {
      std::printf("traffic     rank %zu sent %.2f MB and received %.2f MB\n", rank,
                  static_cast<double>(bytes[2 * rank]) / 1e6, static_cast<double>(bytes[2 * rank + 1]) / 1e6);
    }
    std::printf("            a ring sends and receives %.2f MB per rank for the same gradients\n",
                2 * (static_cast<double>(size) - 1) / static_cast<double>(size) * payload / 1e6);
  }

  redsum::Communicator& world_;
  const Settings& settings_;
  digits::Data data_;
  digits::Network network_;
  std::unique_ptr<digits::Network> shadow_;  // on rank 0
  std::vector<double> times_us_;
  redsum_statistics before_;
  double loss_ = 0;
};

}  // namespace

int main(int argc, char** argv) try {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fprintf(
        stderr, "usage: train_digits --data digits.csv.gz [--epochs 30] [--batch 128] [--bf16-wire] [--tamper RANK]\n");
    return 2;
  }
  digits::Data data;
  if (const std::string error = digits::load(settings.data, data); !error.empty()) {
    std::fprintf(stderr, "train_digits: %s\n", error.c_str());
    return 2;
  }
  redsum::Communicator world;
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
  Trainer trainer(world, settings, std::move(data));
  const bool good = trainer.train() && trainer.report();
  world.close();
  return good ? 0 : 1;
} catch (const redsum::Error& error) {
  std::fprintf(stderr, "train_digits: %s\n", error.what());
  return 1;
}
