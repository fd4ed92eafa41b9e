// SPDX-License-Identifier: Apache-2.0
// Lanes between workers: a port where this worker takes them, and dialling another's. Each lane belongs to one
// communicator. Everything happens on the loop's thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/base/types.h"
#include "transport/loop/loop.h"
#include "transport/tcp/address.h"
#include "transport/transport.h"
#include "transport/wire/control.h"
#include "transport/wire/handshake.h"

namespace redsum::client {

class PeerLanes {
 public:
  using Accepted = std::function<void(std::unique_ptr<transport::Link>)>;
  // hello: who this worker is. `address`: host:port, port 0 for any. `local`: as for tcp::make_dialer().
  // resource_exhausted when the address is in use.
  static Result<std::unique_ptr<PeerLanes>> listen(Loop& loop, const wire::Hello& hello, const std::string& address,
                                                   const std::vector<tcp::Endpoint>& local, Accepted accepted);

  // Where others reach it; `local_host` stands in where it listens on all interfaces.
  std::string address(const std::string& local_host) const;
  // From now on the workers of this membership are let in, this one as `rank`; who comes earlier tries again.
  void open(const wire::EpochRecord& record, std::uint32_t rank, const wire::Key& lane_key);
  // A lane of `communicator` to this rank of the job: ring_lane, exchange_lane or pair_lane. Errors as in Dialer.
  void dial(CommunicatorId communicator, std::uint32_t rank, wire::Purpose purpose, TimeNs deadline,
            transport::Dialer::Done done);

 private:
  PeerLanes(Loop& loop, const wire::Hello& hello, const std::vector<tcp::Endpoint>& local);
  Result<wire::Key> key_for(const wire::Hello& hello) const;

  wire::Hello hello_;
  std::unique_ptr<transport::Dialer> dialer_;
  std::unique_ptr<transport::Listener> listener_;
  wire::EpochRecord record_;  // epoch 0: not known yet
  wire::Key lane_key_{};
};

}  // namespace redsum::client
