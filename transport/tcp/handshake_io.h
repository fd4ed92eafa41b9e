// SPDX-License-Identifier: Apache-2.0
// The socket's side of wire/handshake.h: moves the fixed-size messages. Used by dial.cc and listen.cc; everything on
// the loop's thread. Each call owns the socket until it hands it on; destroying the returned handle closes it without a
// call.
#pragma once
#include <functional>
#include <memory>

#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/loop/loop.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/socket.h"
#include "transport/wire/handshake.h"

namespace redsum::tcp {

using Handshaken = std::function<void(Result<Connected>)>;

// Timeout at `deadline`. peer_lost when the connection breaks; otherwise what the acceptor or the key say.
std::shared_ptr<void> initiate(Loop& loop, Socket socket, const wire::Hello& hello, const wire::Key& key,
                               TimeNs deadline, Handshaken done);

using KeyFor = std::function<Result<wire::Key>(const wire::Hello&)>;
std::shared_ptr<void> answer(Loop& loop, Socket socket, std::uint64_t instance, KeyFor key_for, TimeNs deadline,
                             Handshaken done);

}  // namespace redsum::tcp
