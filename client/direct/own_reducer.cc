// SPDX-License-Identifier: Apache-2.0
#include "client/direct/own_reducer.h"

#include <utility>

#include "client/direct/listen_address.h"
#include "server/reducer.h"
#include "transport/tcp/address.h"

namespace redsum::client {
namespace {

constexpr std::uint64_t kBudgetBytes = 8ull << 30;  // reserved as address space; pages come with use

class OwnReducerRole final : public OwnReducer {
 public:
  explicit OwnReducerRole(std::unique_ptr<server::Reducer> reducer) : reducer_(std::move(reducer)) {}
  void wait_until_idle(DurationNs limit) override { reducer_->wait_until_idle(limit); }
  transport::Transport::Counters counters() const override {
    transport::Transport::Counters sum;
    for (const server::ShardCounters& shard : reducer_->snapshot().shards) {
      sum.bytes_sent += shard.bytes_sent;
      sum.bytes_received += shard.bytes_received;
      sum.frames_sent += shard.frames_sent;
      sum.frames_received += shard.frames_received;
    }
    return sum;
  }

 private:
  std::unique_ptr<server::Reducer> reducer_;
};

}  // namespace

Result<std::unique_ptr<OwnReducer>> start_own_reducer(const OwnReducerSpec& spec) {
  const auto at = listen_address(spec.data_address, spec.coordinators);
  if (!at) return failure(at.error());
  if (!may_listen(*at, spec.guarded)) return failure(unguarded("direct mode", *at));
  server::ReducerConfig config;
  config.name = spec.job + "/" + std::to_string(spec.rank);
  config.data_address = tcp::format_host_port(at->host, at->port);
  config.advertise = spec.advertise;
  config.budget_bytes = kBudgetBytes;
  config.coordinators = spec.coordinators;
  config.pool_key = spec.pool_key;
  config.heartbeat_timeout = spec.heartbeat_timeout;
  config.job = spec.job;
  config.worker = spec.worker;
  auto reducer = server::start_reducer(config);
  if (!reducer) return failure(reducer.error());
  return std::unique_ptr<OwnReducer>(std::make_unique<OwnReducerRole>(std::move(*reducer)));
}

}  // namespace redsum::client
