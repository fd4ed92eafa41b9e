// SPDX-License-Identifier: Apache-2.0
// Listening, for lanes and control connections alike: accept and shake hands. A peer that does not prove its key is
// closed without effect: at most kHelloBytes + kProofBytes are read from it, it has 5 s in all, and nothing is logged
// above trace. Everything happens on the loop's thread.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/loop/loop.h"
#include "transport/tcp/dial.h"
#include "transport/wire/handshake.h"

namespace redsum::tcp {

inline constexpr DurationNs kHandshakeLimitNs = 5 * kSecond;
inline constexpr std::size_t kMaxStrangers = 1024;  // handshakes at a time; more are closed at once

struct ListenSpec {
  std::string address;         // "host:port", port 0: any
  std::uint64_t instance = 0;  // of this process: a hello that is meant for another one is refused; 0: not checked
  DurationNs handshake_limit_ns = kHandshakeLimitNs;
  std::function<Result<wire::Key>(const wire::Hello&)>
      key_for;  // the key that a hello must prove, or why it is refused
  std::function<void(Connected)> on_connected;
  std::function<void(const Status&)> on_refused;  // may be empty: a handshake ended without a connection
};

class Listening {
 public:
  virtual ~Listening() = default;           // stops; handshakes under way are closed
  virtual std::string address() const = 0;  // as bound, with the real port
};

// resource_exhausted when the address is in use, invalid_argument when it cannot be bound; both name it.
// Resolves host names with the system's resolver at once, so call it where that may block.
Result<std::unique_ptr<Listening>> listen(Loop& loop, ListenSpec spec);

}  // namespace redsum::tcp
