// SPDX-License-Identifier: Apache-2.0
// A job's lanes between its workers: where this one takes them, and who can be reached.
#include <memory>
#include <utility>

#include "client/direct/listen_address.h"
#include "client/job.h"
#include "transport/base/log.h"

namespace redsum::client {

Status Job::listen() {
  const bool needed = options_.mode == wire::Mode::ring;
  auto at = listen_address(options_.data_address, options_.coordinators);
  if (!at) return needed ? at.error() : Status();
  if (!may_listen(*at, options_.guarded)) return needed ? unguarded("ring mode", *at) : Status();
  if (options_.mode == wire::Mode::direct) at->port = 0;  // the other one is its reducer's
  wire::Hello hello;
  hello.job = options_.job_id;
  hello.rank = options_.rank;
  hello.incarnation = incarnation_;
  auto lanes = PeerLanes::listen(
      loop_, hello, tcp::format_host_port(at->host, at->port), options_.local.addresses,
      [this](std::unique_ptr<transport::Link> link) {
        auto shared = std::make_shared<std::unique_ptr<transport::Link>>(std::move(link));
        progress_thread_.loop().post([this, shared] { worker_.progress.adopt_accepted(std::move(*shared)); });
      });
  if (!lanes) {
    // REDSUM_DATA_ADDRESS may be meant for a reducer on this host.
    if (!needed)
      log::info("no lanes of other workers are taken, so no call can go round a ring: " + lanes.error().text());
    return needed ? lanes.error() : Status();
  }
  peers_ = std::move(*lanes);
  return {};
}

void Job::open_peer_lane(CommunicatorId id, std::uint32_t rank, wire::Purpose purpose) {
  if (!peers_) return;
  peers_->dial(id, rank, purpose, monotonic_now() + options_.connect_timeout,
               [this, id, rank, of = membership_](Result<std::unique_ptr<transport::Link>> link) {
                 auto shared = std::make_shared<Result<std::unique_ptr<transport::Link>>>(std::move(link));
                 progress_thread_.loop().post([this, id, rank, of, shared] {
                   if (of->record.epoch.value != began_) return;  // the workers have changed meanwhile
                   if (*shared) return worker_.progress.adopt_peer(id, rank, std::move(**shared));
                   const wire::WorkerInfo& worker = of->record.workers[rank];
                   worker_.progress.fail_here(
                       id, {Code::peer_lost, "no lane to rank " + std::to_string(rank) + " (" + worker.host + " at " +
                                                 worker.address + "): " + shared->error().text()});
                 });
               });
}

Status Job::route(const std::vector<std::uint32_t>& members, wire::CallDescription& call) const {
  const auto now = membership();
  const wire::EpochRecord& record = now->record;
  if (record.settings.mode == wire::Mode::ring) call.via = wire::Via::ring;
  const bool exchange = wire::is_exchange(call.kind);
  if (exchange) call.via = wire::Via::reducers;  // it has no fold, and is the same call in every mode
  if ((!exchange && call.via != wire::Via::ring) || members.size() == 1) return {};
  for (const std::uint32_t rank : members)
    if (rank < record.workers.size() && record.workers[rank].address.empty())
      return {Code::unsupported, "rank " + std::to_string(rank) + " (" + record.workers[rank].host +
                                     ") takes no lanes of other workers, which " +
                                     (exchange ? std::string(wire::kind_name(call.kind)) : "the ring") +
                                     " needs: set REDSUM_SECRET_FILE "
                                     "or REDSUM_INSECURE=1 there, and REDSUM_DATA_ADDRESS if it finds no address"};
  return {};
}

}  // namespace redsum::client
