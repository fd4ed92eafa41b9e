// SPDX-License-Identifier: Apache-2.0
// A control connection: after the handshake of wire/handshake.h, control messages of wire/control.h, each as a 4-byte
// little endian length and that many bytes of JSON. Small, and never behind bulk data. Everything here happens on one
// loop's thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/loop/loop.h"
#include "transport/wire/control.h"
#include "transport/wire/handshake.h"

namespace redsum::control {

class Connection {
 public:
  using OnMessage = std::function<void(wire::Message)>;
  using OnLost = std::function<void(const Status& why)>;  // once; not after close()

  virtual ~Connection() = default;
  // Begins to read. Messages that arrived before are kept. on_lost: peer_lost, or protocol_error when the peer sent
  // what is no message (it is told). The callbacks may close and drop this connection. A connection that is dropped is
  // closed as by close().
  virtual void start(OnMessage on_message, OnLost on_lost) = 0;
  virtual void send(const wire::Message& message) = 0;  // queued; dropped when the connection is gone
  // The same for a message that wire::encode() has made text of before: one text for many connections.
  virtual void send_encoded(std::shared_ptr<const std::string> text) = 0;
  // Sends what is queued (at most 1 s), then closes; no OnMessage or OnLost after it. `closed` is called when that is
  // done, perhaps at once.
  virtual void close(std::function<void()> closed = {}) = 0;
  virtual const wire::Hello& hello() const = 0;   // of the initiator
  virtual std::string peer_address() const = 0;   // "host:port"
  virtual std::string local_address() const = 0;  // "host:port" of our end: an address by which the peer reaches us
};

struct DialSpec {
  std::vector<std::string> addresses;  // host:port each, tried in turn, resolved again on every attempt
  wire::Hello hello;                   // its nonce is drawn anew for every attempt
  wire::Key key{};
  TimeNs deadline = kNever;  // connect + handshake are one unit, retried with jittered back-off until then
};
// Errors: timeout naming addresses, attempts and the last errno; at once: auth_failed, version_mismatch,
// invalid_argument.
using OnDialed = std::function<void(Result<std::shared_ptr<Connection>>)>;
// Returns what cancels it when destroyed (OnDialed is not called then).
std::shared_ptr<void> dial(Loop& loop, DialSpec spec, OnDialed done);

// Listens and shakes hands. Peers that do not prove the key are closed without effect, silently at the default log
// level.
class Acceptor {
 public:
  using OnConnection = std::function<void(std::shared_ptr<Connection>)>;
  virtual ~Acceptor() = default;
  virtual std::string address() const = 0;     // as bound, with the real port
  virtual std::uint64_t rejected() const = 0;  // handshakes that ended without a connection; the loop's thread
};
// resource_exhausted when the address is in use, naming it. SO_REUSEADDR: a restart at once on the same port works.
Result<std::unique_ptr<Acceptor>> listen(Loop& loop, const std::string& address, const wire::Key& key,
                                         Acceptor::OnConnection on_connection);

}  // namespace redsum::control
