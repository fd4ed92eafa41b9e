// SPDX-License-Identifier: Apache-2.0
// Connecting, for lanes and control connections alike: resolve + connect + handshake are one unit, tried again with
// jittered exponential back-off until the deadline. Everything happens on the loop's thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/loop/loop.h"
#include "transport/tcp/address.h"
#include "transport/tcp/socket.h"
#include "transport/wire/handshake.h"

namespace redsum::tcp {

struct Connected {
  Socket socket;      // the verdict has been read, nothing after it
  wire::Hello hello;  // what the initiator said, with the nonce of this attempt
};

struct DialSpec {
  std::vector<std::string> addresses;  // "host:port" each, tried in turn, resolved again on every attempt
  wire::Hello hello;                   // its nonce is drawn anew for every attempt
  wire::Key key{};
  TimeNs deadline = kNever;
  // Where the connection comes from: the one of the target's family, with port 0; a target that only another family
  // reaches counts as not reached. A target on loopback takes none but a loopback one; all is left to the system where
  // this is empty.
  std::vector<Endpoint> local = {};
};

// Errors: timeout naming addresses, attempts and the last error; at once: auth_failed, version_mismatch,
// invalid_argument and every other refusal that the acceptor pronounced. `done` is called once, later, from the loop;
// not after the returned handle has been destroyed.
using OnConnected = std::function<void(Result<Connected>)>;
[[nodiscard]] std::shared_ptr<void> dial(Loop& loop, DialSpec spec, OnConnected done);

}  // namespace redsum::tcp
