// SPDX-License-Identifier: Apache-2.0
// What ties a daemon to whoever started it: the service manager's socket, the launcher's file of ports, the parent's
// death.
#pragma once
#include <string>

#include "transport/base/status.h"

namespace redsum::server {

// Tells systemd (Type=notify) `text`, such as "READY=1", through $NOTIFY_SOCKET. Nothing where it is not set.
Status notify_service_manager(const std::string& text);

struct BoundAddresses {
  std::string control, data, admin;  // empty: not bound
};
// {"ready":..,"pid":..,"control":..,"data":..,"admin":..}; the file is replaced in one step, so a reader sees all or
// nothing.
void forget_ports_file(const std::string& path) noexcept;  // an earlier life's must not be taken for ours
Status write_ports_file(const std::string& path, const BoundAddresses& addresses, bool ready);

// SIGTERM comes when the thread that started this process ends. closed when it has ended already.
Status follow_parent_death();

// As many descriptors as the system lets us have: each lane is one.
void raise_descriptor_limit() noexcept;

}  // namespace redsum::server
