// SPDX-License-Identifier: Apache-2.0
// Where a worker listens for other workers: for their lanes, and in direct mode for its reducer's.
#pragma once
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/tcp/address.h"
#include "transport/tcp/interfaces.h"

namespace redsum::client {

// `given`: host[:port], or empty: the interface by which the first of the coordinators is reached, any port.
// invalid_argument when nothing is found.
Result<tcp::HostPort> listen_address(const std::string& given, const std::vector<std::string>& coordinators);
// NET-02: a worker whose data stays on loopback is of no use to others: invalid_argument with the remedy when
// `coordinator` (host:port, as connected) is reached otherwise. Fine where nothing was chosen.
Status check_reach(const tcp::LocalInterface& local, const std::string& interfaces, const std::string& coordinator);
// Any address but loopback needs a secret, or the word that none is wanted: everybody could connect.
bool may_listen(const tcp::HostPort& at, bool guarded);
// auth_failed naming the remedy.
Status unguarded(const std::string& who, const tcp::HostPort& at);

}  // namespace redsum::client
