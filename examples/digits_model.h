// SPDX-License-Identifier: Apache-2.0
// A network of 64 pixels, 128 rectified hidden units and 10 classes with cross-entropy loss, in plain loops whose order
// of additions is fixed, so that the same inputs give the same bits in every process on every run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "examples/digits_data.h"

namespace digits {

inline constexpr int kHidden = 128;
inline constexpr int kParameters = kPixels * kHidden + kHidden + kHidden * kClasses + kClasses;

struct Layers {
  std::vector<float> weights1 = std::vector<float>(kPixels * kHidden);  // [pixel][hidden]
  std::vector<float> bias1 = std::vector<float>(kHidden);
  std::vector<float> weights2 = std::vector<float>(kHidden * kClasses);  // [hidden][class]
  std::vector<float> bias2 = std::vector<float>(kClasses);
};

struct Network : Layers {
  Network();        // weights by He's rule from a fixed seed
  Layers velocity;  // of the momentum
};

// One rank's gradients, or their fold over ranks, and the loss that goes with them.
struct Gradients : Layers {
  float loss = 0;
  std::vector<std::pair<float*, std::size_t>> tensors();  // the pieces of one collective
  void add(Gradients& other);
  void divide(float by);
  void round_to_bf16();  // nearest even
};

// The mean gradients of the samples; returns their mean loss.
float backward(const Network& network, const Data& data, const std::vector<int>& samples, Gradients& gradients);

// One step of gradient descent with momentum.
void apply(Network& network, Gradients& gradients, float learning_rate, float momentum);

double accuracy(const Network& network, const Data& data);  // on the test images, 0 to 1
std::uint64_t hash(const Network& network);                 // of all bits of all weights

}  // namespace digits
