// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/sim_network.h"

#include <algorithm>
#include <utility>

#include "transport/sim/endpoint.h"
#include "transport/sim/fabric.h"

namespace redsum::sim {

SimNetwork::SimNetwork(std::uint64_t seed) : fabric_(std::make_unique<Fabric>(seed)) {}
SimNetwork::~SimNetwork() = default;

TimeNs SimNetwork::now() const {
  return fabric_->now;
}
void SimNetwork::at(TimeNs when, std::function<void()> work) {
  fabric_->schedule_work(when, std::move(work));
}
bool SimNetwork::step() {
  return fabric_->step();
}

void SimNetwork::run_until(TimeNs when) {
  while (fabric_->next_time() <= when && fabric_->step()) {
  }
  fabric_->now = std::max(fabric_->now, when);
}

bool SimNetwork::run_until(const std::function<bool()>& done, TimeNs limit) {
  while (!done()) {
    if (fabric_->next_time() > limit) return false;
    if (!fabric_->step()) return false;
  }
  return true;
}

Prng& SimNetwork::random() {
  return fabric_->random;
}

std::unique_ptr<SimEndpoint> SimNetwork::make_endpoint(transport::LaneSink& sink, std::string name) {
  const auto index = static_cast<std::uint32_t>(fabric_->endpoints.size());
  auto endpoint = std::make_unique<Endpoint>(*fabric_, sink, std::move(name), index);
  fabric_->endpoints.push_back(endpoint.get());
  return endpoint;
}

SimNetwork::LinkPair SimNetwork::make_link(const wire::Hello& hello) {
  const std::uint32_t lane = fabric_->make_lane(hello);
  return {std::make_unique<SimLink>(*fabric_, lane, 0), std::make_unique<SimLink>(*fabric_, lane, 1), SimLane(lane)};
}

void SimNetwork::set_default_delay(const Delay& delay) {
  fabric_->default_delay = delay;
}

void SimNetwork::set_delay(SimLane lane, Side from, const Delay& delay) {
  fabric_->lanes[lane.value]->ways[static_cast<unsigned>(from)].delay = delay;
}

void SimNetwork::set_delay(EndpointId from, const Delay& delay) {
  if (Endpoint* endpoint = fabric_->endpoints[from.value])
    for (const auto& [lane, side] : endpoint->lanes()) fabric_->lanes[lane]->ways[side].delay = delay;
}

void SimNetwork::set_wake_delay(EndpointId at, DurationNs least_ns, DurationNs most_ns) {
  if (Endpoint* endpoint = fabric_->endpoints[at.value]) {
    endpoint->least_wake_ns = least_ns;
    endpoint->most_wake_ns = most_ns;
  }
}

void SimNetwork::stall(EndpointId at, TimeNs until) {
  if (Endpoint* endpoint = fabric_->endpoints[at.value]) endpoint->stall(until);
}

void SimNetwork::stall(SimLane lane, Side from, TimeNs until) {
  TimeNs& stalled_until = fabric_->lanes[lane.value]->ways[static_cast<unsigned>(from)].stalled_until;
  stalled_until = std::max(stalled_until, until);
}

void SimNetwork::cut(SimLane lane, const Notice& notice) {
  fabric_->cut(lane.value, notice);
}

void SimNetwork::cut_after(SimLane index, Side from, std::uint64_t bytes, const Notice& notice) {
  Lane& lane = *fabric_->lanes[index.value];
  if (lane.dead || lane.ways[0].closing || lane.ways[1].closing) return;
  lane.ways[static_cast<unsigned>(from)].budget_bytes = bytes;
  lane.notice = notice;
}

void SimNetwork::crash(EndpointId endpoint, DurationNs notice_ns) {
  if (Endpoint* dead = fabric_->endpoints[endpoint.value]) dead->crash(notice_ns);
}

bool SimNetwork::crashed(EndpointId endpoint) const {
  const Endpoint* found = fabric_->endpoints[endpoint.value];
  return !found || found->crashed;
}

std::uint64_t SimNetwork::trace_hash() const {
  return fabric_->trace_hash;
}
void SimNetwork::trace(std::uint64_t fact) {
  fabric_->mix(fact);
}
std::uint64_t SimNetwork::events() const {
  return fabric_->events;
}

}  // namespace redsum::sim
