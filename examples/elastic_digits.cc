// SPDX-License-Identifier: Apache-2.0
// Trains the network of train_digits while workers die, are started again, and reducers come and go. Every step
// computes the gradients of the same batch whoever is there: each worker takes its share, the sum is the batch's. When
// a worker is lost the others resume; whoever is new gets the weights and the step from rank 0, which was there before.
//   redsumrun -np 4 --reducers 2 elastic_digits --data digits.csv.gz
// Exit code 0: accuracy of at least 95 %.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "client/redsum.hpp"
#include "examples/digits_data.h"
#include "examples/digits_model.h"

namespace {

constexpr float kLearningRate = 0.1f, kMomentum = 0.9f;
constexpr double kWantedAccuracy = 0.95;

struct Settings {
  std::string data;
  int epochs = 30;
  int batch = 128;   // over all workers
  int pause_ms = 0;  // after every step, as if the network were larger
};

bool parse(int argc, char** argv, Settings& settings) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--data")
      settings.data = argv[i + 1];
    else if (flag == "--epochs")
      settings.epochs = std::atoi(argv[i + 1]);
    else if (flag == "--batch")
      settings.batch = std::atoi(argv[i + 1]);
    else if (flag == "--pause-ms")
      settings.pause_ms = std::atoi(argv[i + 1]);
    else
      return false;
  }
  return argc % 2 == 1 && !settings.data.empty() && settings.epochs > 0 && settings.batch > 0;
}

class Trainer {
 public:
  Trainer(redsum::Communicator& world, const Settings& settings, const digits::Data& data)
      : world_(world), settings_(settings), data_(data), last_step_(settings.epochs * steps_of_epoch()) {
    enter(world.membership());
  }

  void train() {
    while (step_ < last_step_) try {
        if (!same_everywhere_) synchronize();
        if (train_step()) enter(world_.admit());
        std::this_thread::sleep_for(std::chrono::milliseconds(settings_.pause_ms));
      } catch (const redsum::Error& error) {
        if (error.status() != REDSUM_PEER_LOST) throw;
        say("step " + std::to_string(step_) + ": " + error.what());
        enter(world_.resume());
      }
  }

  double accuracy() const { return digits::accuracy(network_, data_); }

 private:
  int steps_of_epoch() const { return data_.train_count / settings_.batch; }

  void say(const std::string& text) const {
    std::printf("rank %d of %d: %s\n", world_.rank(), world_.size(), text.c_str());
    std::fflush(stdout);
  }

  void enter(const redsum_membership& membership) {
    if (membership.epoch == epoch_) return;  // nobody has come
    epoch_ = membership.epoch;
    same_everywhere_ = false;
    say("epoch " + std::to_string(membership.epoch) + ", " + std::to_string(membership.stayed) + " have stayed");
  }

  // All take over what rank 0 has: one that had done a step more or less than rank 0 too.
  void synchronize() {
    std::vector<redsum_tensor> tensors;
    for (digits::Layers* layers : {static_cast<digits::Layers*>(&network_), &network_.velocity})
      for (std::vector<float>* values : {&layers->weights1, &layers->bias1, &layers->weights2, &layers->bias2})
        tensors.push_back({values->data(), values->data(), values->size()});
    world_.broadcast(tensors.data(), tensors.size(), REDSUM_FP32).wait();
    std::int32_t step = step_;
    world_.broadcast(&step, 1).wait();
    step_ = step;
    same_everywhere_ = true;
    say("goes on with step " + std::to_string(step_));
  }

  // True: some worker knows of others that wait. All hear it in the same step, so all admit them together.
  bool train_step() {
    const std::vector<int> order =
        digits::shuffled(data_.train_count, static_cast<std::uint64_t>(step_ / steps_of_epoch()) + 1);
    const int rank = world_.rank(), size = world_.size();
    const auto batch = order.begin() + step_ % steps_of_epoch() * settings_.batch;
    const std::vector<int> share(batch + settings_.batch * rank / size, batch + settings_.batch * (rank + 1) / size);
    digits::Gradients gradients;
    if (!share.empty()) {
      digits::backward(network_, data_, share, gradients);
      gradients.divide(static_cast<float>(settings_.batch) / static_cast<float>(share.size()));
    }
    float waiting = static_cast<float>(world_.membership().waiting);
    std::vector<redsum_tensor> tensors{{&waiting, &waiting, 1}};
    for (const auto& [values, count] : gradients.tensors()) tensors.push_back({values, values, count});
    world_.allreduce(tensors, REDSUM_FP32).wait();
    digits::apply(network_, gradients, kLearningRate, kMomentum);
    ++step_;
    return waiting > 0;
  }

  redsum::Communicator& world_;
  const Settings& settings_;
  const digits::Data& data_;
  digits::Network network_;
  std::uint64_t epoch_ = 0;
  int step_ = 0, last_step_;
  bool same_everywhere_ = false;
};

}  // namespace

int main(int argc, char** argv) try {
  Settings settings;
  if (!parse(argc, argv, settings)) {
    std::fprintf(stderr, "usage: elastic_digits --data digits.csv.gz [--epochs 30] [--batch 128] [--pause-ms 0]\n");
    return 2;
  }
  digits::Data data;
  if (const std::string error = digits::load(settings.data, data); !error.empty()) {
    std::fprintf(stderr, "elastic_digits: %s\n", error.c_str());
    return 2;
  }
  redsum::Options options;
  options.min_workers = 1;  // one that is left goes on alone
  redsum::Communicator world(options);
  Trainer trainer(world, settings, data);
  trainer.train();
  const double accuracy = trainer.accuracy();
  std::printf("rank %d of %d: result: test accuracy %.2f %% of %d images\n", world.rank(), world.size(), 100 * accuracy,
              data.test_count);
  world.close();
  return accuracy >= kWantedAccuracy ? 0 : 1;
} catch (const redsum::Error& error) {
  std::fprintf(stderr, "elastic_digits: %s\n", error.what());
  return 1;
}
