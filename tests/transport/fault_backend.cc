// SPDX-License-Identifier: Apache-2.0
// The fault decorator with a plan that injects nothing, over TCP and over the simulated network: it may change nothing.
#include "tests/transport/backend.h"
#include "tests/transport/tcp_pair.h"
#include "transport/base/check.h"
#include "transport/fault/fault_transport.h"
#include "transport/loop/loop.h"
#include "transport/sim/sim_network.h"
#include "transport/tcp/tcp.h"

namespace redsum::test {
namespace {

class FaultOverSim : public Backend {
 public:
  transport::Transport& open(int side, transport::LaneSink& sink) override {
    transport_[side] = fault::FaultTransport::make(sink, {}, [&](transport::LaneSink& inner_sink) {
      auto endpoint = network_.make_endpoint(inner_sink, side == 0 ? "left" : "right");
      endpoint->on_wake([this, side] { woken_[side] = true; });
      return endpoint;
    });
    return *transport_[side];
  }
  std::pair<std::unique_ptr<transport::Link>, std::unique_ptr<transport::Link>> connect() override {
    sim::SimNetwork::LinkPair link = network_.make_link({});
    return {std::move(link.left), std::move(link.right)};
  }
  void turn() override {
    network_.step();
    for (auto& transport : transport_) transport->poll();
  }
  bool sleep(int side, DurationNs limit_ns) override {
    woken_[side] = false;
    const bool armed = transport_[side]->arm();
    if (armed) network_.run_until([&] { return woken_[side]; }, network_.now() + limit_ns);
    transport_[side]->poll();
    return armed;
  }

 private:
  sim::SimNetwork network_{1};
  bool woken_[2] = {};
  std::unique_ptr<transport::Transport> transport_[2];
};

class FaultOverTcp : public Backend {
 public:
  transport::Transport& open(int side, transport::LaneSink& sink) override {
    transport_[side] = fault::FaultTransport::make(sink, {}, [&](transport::LaneSink& inner_sink) {
      auto made = tcp::make_transport(loop_[side], inner_sink);
      REDSUM_CHECK(made.has_value());
      return std::move(*made);
    });
    return *transport_[side];
  }
  std::pair<std::unique_ptr<transport::Link>, std::unique_ptr<transport::Link>> connect() override {
    auto [left, right] = connected_pair(0);
    return {tcp::make_link({tcp::Socket(left), {}}), tcp::make_link({tcp::Socket(right), {}})};
  }
  void turn() override {
    std::size_t moved = 0;
    for (int side = 0; side < 2; ++side) moved += loop_[side].poll() + transport_[side]->poll();
    if (moved != 0 || !transport_[0]->arm() || !transport_[1]->arm()) return;
    loop_[0].wait_until(monotonic_now() + kMillisecond / 2);
  }
  bool sleep(int side, DurationNs limit_ns) override {
    const bool armed = transport_[side]->arm();
    if (armed) loop_[side].wait_until(monotonic_now() + limit_ns);
    transport_[side]->poll();
    return armed;
  }

 private:
  Loop loop_[2];
  std::unique_ptr<transport::Transport> transport_[2];
};

}  // namespace

std::vector<BackendFactory> backends() {
  return {{"fault_sim", [] { return std::make_unique<FaultOverSim>(); }},
          {"fault_tcp", [] { return std::make_unique<FaultOverTcp>(); }}};
}

}  // namespace redsum::test
