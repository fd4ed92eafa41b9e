// SPDX-License-Identifier: Apache-2.0
// One HTTP GET of redsumctl.
#pragma once
#include <string>

#include "transport/base/status.h"
#include "transport/base/time.h"

namespace redsum::ctl {

struct HttpReply {
  int status = 0;
  std::string body;
};
inline constexpr std::size_t kMaxReplyBytes = 16u << 20;

// peer_lost when nobody answers at `address` (host:port), timeout, protocol_error for what is no HTTP; each names the
// address.
Result<HttpReply> http_get(const std::string& address, const std::string& path, DurationNs timeout);

}  // namespace redsum::ctl
