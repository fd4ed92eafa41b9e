// SPDX-License-Identifier: Apache-2.0
#include "client/direct/own_reducer.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

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

// The address of the interface by which `peer` is reached: a datagram socket that is connected sends nothing. Empty
// when there is none.
std::string local_host_towards(const std::string& peer) {
  const auto parsed = tcp::parse_host_port(peer);
  if (!parsed) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &hints, &found) != 0) return {};
  std::string host;
  for (const addrinfo* at = found; at && host.empty(); at = at->ai_next) {
    const int descriptor = ::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    sockaddr_storage local{};
    socklen_t bytes = sizeof local;
    char text[NI_MAXHOST] = {};
    auto* const address = reinterpret_cast<sockaddr*>(&local);
    if (::connect(descriptor, at->ai_addr, at->ai_addrlen) == 0 && ::getsockname(descriptor, address, &bytes) == 0 &&
        ::getnameinfo(address, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      host = text;
    ::close(descriptor);
  }
  ::freeaddrinfo(found);
  return host;
}

}  // namespace

Result<std::unique_ptr<OwnReducer>> start_own_reducer(const OwnReducerSpec& spec) {
  std::string host = spec.data_address;
  for (const std::string& coordinator : spec.coordinators)
    if (host.empty()) host = local_host_towards(coordinator);
  if (host.empty())
    return failure(Code::invalid_argument, "no address to listen on is found from coordinator " +
                                               (spec.coordinators.empty() ? "''" : spec.coordinators.front()) +
                                               "; set REDSUM_DATA_ADDRESS");
  const auto given = tcp::parse_host_port(host, true);
  const tcp::HostPort at = given ? *given : tcp::HostPort{host, 0};
  const auto numeric = tcp::numeric_endpoint(at);
  if (!spec.guarded && at.host != "localhost" && !(numeric && numeric->is_loopback()))
    return failure(Code::auth_failed,
                   "direct mode listens on " + at.host +
                       ", and an address other than loopback needs a secret: set REDSUM_SECRET_FILE, or allow "
                       "everybody in with REDSUM_INSECURE=1");
  server::ReducerConfig config;
  config.name = spec.job + "/" + std::to_string(spec.rank);
  config.data_address = tcp::format_host_port(at.host, at.port);
  config.budget_bytes = kBudgetBytes;
  config.coordinators = spec.coordinators;
  config.pool_key = spec.pool_key;
  config.heartbeat_timeout = spec.heartbeat_timeout;
  config.job = spec.job;
  config.rank = spec.rank;
  auto reducer = server::start_reducer(config);
  if (!reducer) return failure(reducer.error());
  return std::unique_ptr<OwnReducer>(std::make_unique<OwnReducerRole>(std::move(*reducer)));
}

}  // namespace redsum::client
