// SPDX-License-Identifier: Apache-2.0
// The simulated network under the conformance suite, with different seeds and weather.
#include "tests/transport/backend.h"
#include "transport/sim/sim_network.h"

namespace redsum::test {
namespace {

class SimBackend : public Backend {
 public:
  SimBackend(std::uint64_t seed, const sim::Delay& delay) : network_(seed) { network_.set_default_delay(delay); }

  transport::Transport& open(int side, transport::LaneSink& sink) override {
    endpoint_[side] = network_.make_endpoint(sink, side == 0 ? "left" : "right");
    endpoint_[side]->on_wake([this, side] { woken_[side] = true; });
    return *endpoint_[side];
  }
  std::pair<std::unique_ptr<transport::Link>, std::unique_ptr<transport::Link>> connect() override {
    sim::SimNetwork::LinkPair link = network_.make_link({});
    return {std::move(link.left), std::move(link.right)};
  }
  void turn() override {
    network_.step();
    for (auto& endpoint : endpoint_) endpoint->poll();
  }
  bool sleep(int side, DurationNs limit_ns) override {
    woken_[side] = false;
    const bool armed = endpoint_[side]->arm();
    if (armed) network_.run_until([&] { return woken_[side]; }, network_.now() + limit_ns);
    endpoint_[side]->poll();
    return armed;
  }

 private:
  sim::SimNetwork network_;
  bool woken_[2] = {};
  std::unique_ptr<sim::SimEndpoint> endpoint_[2];  // after the network: it outlives them
};

}  // namespace

std::vector<BackendFactory> backends() {
  return {{"sim", [] { return std::make_unique<SimBackend>(1, sim::Delay{}); }},
          {"sim_even",
           [] {
             return std::make_unique<SimBackend>(2, sim::Delay{kMicrosecond, kMicrosecond, 100});
           }},
          {"sim_uneven", [] {
             return std::make_unique<SimBackend>(3, sim::Delay{0, kSecond, 0});
           }}};
}

}  // namespace redsum::test
