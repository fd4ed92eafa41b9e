// SPDX-License-Identifier: Apache-2.0
#include "client/direct/peer_lanes.h"

#include <utility>

#include "transport/tcp/address.h"
#include "transport/tcp/tcp.h"

namespace redsum::client {

PeerLanes::PeerLanes(Loop& loop, const wire::Hello& hello, const std::vector<tcp::Endpoint>& local)
    : hello_(hello), dialer_(tcp::make_dialer(loop, local)) {}

Result<std::unique_ptr<PeerLanes>> PeerLanes::listen(Loop& loop, const wire::Hello& hello, const std::string& address,
                                                     const std::vector<tcp::Endpoint>& local, Accepted accepted) {
  std::unique_ptr<PeerLanes> lanes(new PeerLanes(loop, hello, local));
  auto listener = tcp::make_listener(
      loop, address, hello.incarnation, [raw = lanes.get()](const wire::Hello& from) { return raw->key_for(from); },
      std::move(accepted));
  if (!listener) return failure(listener.error());
  lanes->listener_ = std::move(*listener);
  return lanes;
}

std::string PeerLanes::address(const std::string& local_host) const {
  const auto bound = tcp::parse_host_port(listener_->address());
  if (!bound) return {};
  const bool everywhere = bound->host == "0.0.0.0" || bound->host == "::";
  return tcp::format_host_port(everywhere ? local_host : bound->host, bound->port);
}

void PeerLanes::open(const wire::EpochRecord& record, std::uint32_t rank, const wire::Key& lane_key) {
  record_ = record;
  hello_.rank = rank;
  hello_.epoch = record.epoch.value;
  lane_key_ = lane_key;
}

Result<wire::Key> PeerLanes::key_for(const wire::Hello& from) const {
  const std::string who = "rank " + std::to_string(hello_.rank) + " of job '" + hello_.job + "'";
  const bool of_worker = from.purpose >= wire::Purpose::ring_lane && from.purpose <= wire::Purpose::pair_lane;
  if (!of_worker || from.job != hello_.job)
    return failure(Code::auth_failed, who + " takes lanes of its own job's workers only");
  // Which lets the other try again.
  if (record_.epoch.value < from.epoch) return failure(Code::timeout, who + " has not joined yet");
  if (record_.epoch.value != from.epoch || from.rank >= record_.workers.size() ||
      record_.workers[from.rank].incarnation != from.incarnation)
    return failure(Code::stale, who + " knows no rank " + std::to_string(from.rank) + " of that incarnation");
  return lane_key_;
}

void PeerLanes::dial(CommunicatorId communicator, std::uint32_t rank, wire::Purpose purpose, TimeNs deadline,
                     transport::Dialer::Done done) {
  const wire::WorkerInfo& worker = record_.workers[rank];
  wire::Hello hello = hello_;
  hello.purpose = purpose;
  hello.shard = communicator.value;
  hello.target_instance = worker.incarnation;
  dialer_->dial(worker.address, hello, lane_key_, deadline, std::move(done));
}

}  // namespace redsum::client
