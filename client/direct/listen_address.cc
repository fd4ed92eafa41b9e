// SPDX-License-Identifier: Apache-2.0
#include "client/direct/listen_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace redsum::client {
namespace {

// The address of the interface by which `peer` is reached: a datagram socket that is connected sends nothing. Empty
// when there is none.
std::string local_host_towards(const std::string& peer) {
  const auto parsed = tcp::parse_host_port(peer);
  if (!parsed) return {};
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &hints, &found) != 0) return {};
  std::string host;
  for (const addrinfo* at = found; at && host.empty(); at = at->ai_next) {
    const int descriptor = ::socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    sockaddr_storage local{};
    socklen_t bytes = sizeof local;
    char text[NI_MAXHOST] = {};
    auto* const address = reinterpret_cast<sockaddr*>(&local);
    if (::connect(descriptor, at->ai_addr, at->ai_addrlen) == 0 && ::getsockname(descriptor, address, &bytes) == 0 &&
        ::getnameinfo(address, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      host = text;
    ::close(descriptor);
  }
  ::freeaddrinfo(found);
  return host;
}

}  // namespace

Result<tcp::HostPort> listen_address(const std::string& given, const std::vector<std::string>& coordinators) {
  std::string host = given;
  for (const std::string& coordinator : coordinators)
    if (host.empty()) host = local_host_towards(coordinator);
  if (host.empty())
    return failure(Code::invalid_argument, "no address to listen on is found from coordinator " +
                                               (coordinators.empty() ? "''" : coordinators.front()) +
                                               "; set REDSUM_DATA_ADDRESS");
  const auto parsed = tcp::parse_host_port(host, true);
  return parsed ? *parsed : tcp::HostPort{host, 0};
}

Status check_reach(const tcp::LocalInterface& local, const std::string& interfaces, const std::string& coordinator) {
  const auto at = tcp::parse_host_port(coordinator);
  const auto endpoint = at ? tcp::numeric_endpoint(*at) : std::nullopt;
  if (!local.loopback() || !endpoint || endpoint->is_loopback()) return {};
  return {Code::invalid_argument,
          "interfaces is '" + interfaces + "', which gives the loopback address " + local.host() +
              ", but the coordinator is at " + coordinator +
              ": members on other hosts cannot reach this one; name the card that leads to them, or leave loopback out "
              "with '^lo' (REDSUM_INTERFACES); present: " +
              tcp::interfaces_text(tcp::present_interfaces())};
}

bool may_listen(const tcp::HostPort& at, bool guarded) {
  const auto numeric = tcp::numeric_endpoint(at);
  return guarded || at.host == "localhost" || (numeric && numeric->is_loopback());
}

Status unguarded(const std::string& who, const tcp::HostPort& at) {
  return {Code::auth_failed, who + " listens on " + at.host +
                                 ", and an address other than loopback needs a secret: set REDSUM_SECRET_FILE, or "
                                 "allow everybody in with REDSUM_INSECURE=1"};
}

}  // namespace redsum::client
