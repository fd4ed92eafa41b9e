// SPDX-License-Identifier: Apache-2.0
// The TCP backend of the seam. Payloads move between the socket and their places without a copy in user space; several
// queued frames of a lane leave in one system call. The kernel's autotuning sizes the socket buffers.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/loop/loop.h"
#include "transport/tcp/address.h"
#include "transport/tcp/dial.h"
#include "transport/transport.h"

namespace redsum::tcp {

// For the loop's thread. Sink callbacks come only from inside poll(). Both outlive the transport.
Result<std::unique_ptr<transport::Transport>> make_transport(Loop& loop, transport::LaneSink& sink);

// `loop` outlives them. Links may be handed to a transport of another thread. `local`: as in DialSpec.
std::unique_ptr<transport::Dialer> make_dialer(Loop& loop, std::vector<Endpoint> local = {});
// `instance`: of this process; a hello that is meant for another one is refused. Errors as in listen().
Result<std::unique_ptr<transport::Listener>> make_listener(Loop& loop, const std::string& address,
                                                           std::uint64_t instance, transport::Listener::KeyFor key_for,
                                                           transport::Listener::Accepted accepted);

// A link over a socket that has been authenticated otherwise: tests and benchmarks over a socketpair.
std::unique_ptr<transport::Link> make_link(Connected connected);

}  // namespace redsum::tcp
