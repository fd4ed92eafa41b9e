// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>

namespace redsum::tcp {
namespace {

constexpr std::size_t kMaxHostBytes = 255;

tl::unexpected<Status> bad(std::string_view text, std::string_view why) {
  // The text may come from a control message: bounded and printable.
  std::string shown(text.substr(0, kMaxHostBytes));
  for (char& c : shown) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return failure(Code::invalid_argument,
                 "address \"" + shown + "\": " + std::string(why) + "; expected host:port or [v6]:port");
}

}  // namespace

Result<HostPort> parse_host_port(std::string_view text, bool allow_port_zero) {
  std::string_view host, port;
  if (!text.empty() && text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return bad(text, "the bracket is not closed");
    host = text.substr(1, end - 1);
    if (end + 1 >= text.size() || text[end + 1] != ':') return bad(text, "no port after the bracket");
    port = text.substr(end + 2);
    if (host.find(':') == std::string_view::npos) return bad(text, "no IPv6 address in the brackets");
  } else {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return bad(text, "no port");
    if (text.find(':', colon + 1) != std::string_view::npos) return bad(text, "an IPv6 address needs brackets");
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (host.empty()) return bad(text, "no host");
  if (host.size() > kMaxHostBytes) return bad(text, "the host is longer than 255 characters");
  for (const char c : host) {
    if (c <= 0x20 || c > 0x7E) return bad(text, "the host has a character that no host has");
  }
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (port.empty() || error != std::errc() || end != port.data() + port.size() || number > 65535) {
    return bad(text, "the port is not a number from 0 to 65535");
  }
  if (number == 0 && !allow_port_zero) return bad(text, "port 0 cannot be connected to");
  return HostPort{std::string(host), static_cast<std::uint16_t>(number)};
}

std::string format_host_port(std::string_view host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return (v6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + std::to_string(port);
}

std::string Endpoint::to_string() const {
  char text[INET6_ADDRSTRLEN] = {};
  if (family() == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return format_host_port(text, ntohs(v4.sin_port));
  }
  if (family() == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    std::string host = text;
    char name[IF_NAMESIZE];
    if (v6.sin6_scope_id != 0) {
      host += '%';
      host += if_indextoname(v6.sin6_scope_id, name) ? std::string(name) : std::to_string(v6.sin6_scope_id);
    }
    return format_host_port(host, ntohs(v6.sin6_port));
  }
  return "?";
}

bool Endpoint::is_loopback() const noexcept {
  if (family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24) == 127;
  }
  if (family() != AF_INET6) return false;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) || (IN6_IS_ADDR_V4MAPPED(&address) && address.s6_addr[12] == 127);
}

std::optional<Endpoint> numeric_endpoint(const HostPort& at) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(at.host.c_str(), std::to_string(at.port).c_str(), &hints, &found) != 0) return std::nullopt;
  Endpoint endpoint;
  std::memcpy(&endpoint.storage, found->ai_addr, found->ai_addrlen);
  endpoint.bytes = found->ai_addrlen;
  freeaddrinfo(found);
  return endpoint;
}

Endpoint local_endpoint(int descriptor) {
  Endpoint endpoint;
  endpoint.bytes = sizeof endpoint.storage;
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.bytes) != 0) return {};
  return endpoint;
}

Endpoint peer_endpoint(int descriptor) {
  Endpoint endpoint;
  endpoint.bytes = sizeof endpoint.storage;
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&endpoint.storage), &endpoint.bytes) != 0) return {};
  return endpoint;
}

}  // namespace redsum::tcp
