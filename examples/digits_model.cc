// SPDX-License-Identifier: Apache-2.0
#include "examples/digits_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace digits {
namespace {

constexpr std::uint64_t kInitSeed = 7;

using Hidden = std::array<float, kHidden>;
using Classes = std::array<float, kClasses>;

// e^x for x <= 0 by fixed arithmetic: a math library may pick other instructions on another processor.
float exp_of(float x) {
  if (x < -80.0f) return 0.0f;
  const double scaled = static_cast<double>(x) * 1.4426950408889634;
  const double whole = std::nearbyint(scaled);
  const double rest = (scaled - whole) * 0.6931471805599453;
  double term = 1.0;
  double sum = 1.0;
  for (int i = 1; i <= 12; ++i) {
    term = term * rest / i;
    sum += term;
  }
  return static_cast<float>(std::ldexp(sum, static_cast<int>(whole)));
}

void forward(const Layers& layers, const float* image, Hidden& hidden, Classes& scores) {
  std::copy(layers.bias1.begin(), layers.bias1.end(), hidden.begin());
  for (std::size_t p = 0; p < kPixels; ++p) {
    const float* row = layers.weights1.data() + p * kHidden;
    for (std::size_t h = 0; h < kHidden; ++h) hidden[h] += image[p] * row[h];
  }
  std::copy(layers.bias2.begin(), layers.bias2.end(), scores.begin());
  for (std::size_t h = 0; h < kHidden; ++h) {
    hidden[h] = std::max(hidden[h], 0.0f);
    const float* row = layers.weights2.data() + h * kClasses;
    for (std::size_t c = 0; c < kClasses; ++c) scores[c] += hidden[h] * row[c];
  }
}

// Turns scores into probabilities; returns the loss of the label.
float softmax(Classes& scores, std::size_t label) {
  const float top = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& score : scores) sum += score = exp_of(score - top);
  for (float& score : scores) score /= sum;
  return -static_cast<float>(std::log(std::max(static_cast<double>(scores[label]), 1e-30)));
}

void backward_one(const Layers& layers, const float* image, const Hidden& hidden, const Classes& slope,
                  Layers& gradients) {
  for (std::size_t c = 0; c < kClasses; ++c) gradients.bias2[c] += slope[c];
  Hidden hidden_slope{};
  for (std::size_t h = 0; h < kHidden; ++h) {
    if (hidden[h] <= 0.0f) continue;
    for (std::size_t c = 0; c < kClasses; ++c) {
      gradients.weights2[h * kClasses + c] += hidden[h] * slope[c];
      hidden_slope[h] += layers.weights2[h * kClasses + c] * slope[c];
    }
    gradients.bias1[h] += hidden_slope[h];
  }
  for (std::size_t p = 0; p < kPixels; ++p) {
    if (image[p] == 0.0f) continue;
    float* row = gradients.weights1.data() + p * kHidden;
    for (std::size_t h = 0; h < kHidden; ++h) row[h] += image[p] * hidden_slope[h];
  }
}

float to_bf16(float value) {  // finite values only
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7FFFu + (bits >> 16 & 1)) & 0xFFFF0000u;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

}  // namespace

Network::Network() {
  std::uint64_t state = kInitSeed;
  for (auto& [weights, inputs] : {std::pair(&weights1, kPixels), std::pair(&weights2, kHidden)}) {
    const float bound = std::sqrt(6.0f / static_cast<float>(inputs));
    for (float& weight : *weights) {
      weight = (static_cast<float>(next_random(state) >> 40) * 0x1p-23f - 1.0f) * bound;
    }
  }
}

std::vector<std::pair<float*, std::size_t>> Gradients::tensors() {
  return {{weights1.data(), weights1.size()},
          {bias1.data(), bias1.size()},
          {weights2.data(), weights2.size()},
          {bias2.data(), bias2.size()},
          {&loss, 1}};
}

void Gradients::add(Gradients& other) {
  const auto mine = tensors();
  const auto theirs = other.tensors();
  for (std::size_t t = 0; t < mine.size(); ++t) {
    for (std::size_t i = 0; i < mine[t].second; ++i) mine[t].first[i] += theirs[t].first[i];
  }
}

void Gradients::divide(float by) {
  for (const auto& [values, count] : tensors()) {
    for (std::size_t i = 0; i < count; ++i) values[i] /= by;
  }
}

void Gradients::round_to_bf16() {
  for (const auto& [values, count] : tensors()) {
    for (std::size_t i = 0; i < count; ++i) values[i] = to_bf16(values[i]);
  }
}

float backward(const Network& network, const Data& data, const std::vector<int>& samples, Gradients& gradients) {
  float loss = 0;
  for (const int sample : samples) {
    Hidden hidden;
    Classes slope;
    forward(network, data.image(sample), hidden, slope);
    const auto label = static_cast<std::size_t>(data.labels[static_cast<std::size_t>(sample)]);
    loss += softmax(slope, label);
    slope[label] -= 1.0f;
    backward_one(network, data.image(sample), hidden, slope, gradients);
  }
  gradients.divide(static_cast<float>(samples.size()));
  return loss / static_cast<float>(samples.size());
}

void apply(Network& network, Gradients& gradients, float learning_rate, float momentum) {
  const auto update = [&](std::vector<float>& weights, std::vector<float>& velocity,
                          const std::vector<float>& gradient) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      velocity[i] = momentum * velocity[i] - learning_rate * gradient[i];
      weights[i] += velocity[i];
    }
  };
  update(network.weights1, network.velocity.weights1, gradients.weights1);
  update(network.bias1, network.velocity.bias1, gradients.bias1);
  update(network.weights2, network.velocity.weights2, gradients.weights2);
  update(network.bias2, network.velocity.bias2, gradients.bias2);
}

double accuracy(const Network& network, const Data& data) {
  int right = 0;
  for (int i = data.train_count; i < data.train_count + data.test_count; ++i) {
    Hidden hidden;
    Classes scores;
    forward(network, data.image(i), hidden, scores);
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    if (best == data.labels[static_cast<std::size_t>(i)]) ++right;
  }
  return static_cast<double>(right) / data.test_count;
}

std::uint64_t hash(const Network& network) {
  std::uint64_t value = 0xCBF29CE484222325u;  // FNV-1a over 32-bit words
  for (const auto* layer : {&network.weights1, &network.bias1, &network.weights2, &network.bias2}) {
    for (const float weight : *layer) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &weight, sizeof bits);
      value = (value ^ bits) * 0x100000001B3u;
    }
  }
  return value;
}

}  // namespace digits
