// SPDX-License-Identifier: Apache-2.0
// "host:port" as people type it: "node7:7401", "10.0.0.1:7401", "[::1]:7401", "[fe80::1%eth0]:7401". Pure, any thread.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "transport/base/status.h"

namespace redsum::tcp {

struct HostPort {
  std::string host;  // without brackets; an IPv6 scope stays in it
  std::uint16_t port = 0;
};

// invalid_argument naming the text and what is expected. Port 0 is accepted only where `allow_port_zero` (binding).
Result<HostPort> parse_host_port(std::string_view text, bool allow_port_zero = false);
std::string format_host_port(std::string_view host, std::uint16_t port);  // brackets where the host has a colon

// A socket address of IPv4 or IPv6.
struct Endpoint {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  int family() const noexcept { return storage.ss_family; }
  std::string to_string() const;  // "10.0.0.1:7401", "[fe80::1%eth0]:7401"
  bool is_loopback() const noexcept;
};

// The endpoint that a numeric host names, without asking any name service; nullopt for a host name.
std::optional<Endpoint> numeric_endpoint(const HostPort& at);
Endpoint local_endpoint(int descriptor);  // of a socket; empty (to_string() "?") when it is not connected any more
Endpoint peer_endpoint(int descriptor);

}  // namespace redsum::tcp
