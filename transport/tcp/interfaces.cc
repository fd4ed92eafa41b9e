// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

namespace redsum::tcp {
namespace {

constexpr std::size_t kMostShown = 32;  // a host with many containers has hundreds
// IFF_LOWER_UP, which net/if.h lacks: a carrier, at once. IFF_RUNNING follows up to a second later.
constexpr unsigned kLowerUp = 1u << 16;
constexpr std::string_view kExpected =
    "; expected names, prefixes with *, networks such as 10.0.0.0/8, separated by commas, or ^ and such a list to "
    "leave these out";

std::span<const unsigned char> address_bytes(const Endpoint& endpoint) {
  if (endpoint.family() == AF_INET)
    return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in&>(endpoint.storage).sin_addr),
            4};
  if (endpoint.family() == AF_INET6)
    return {reinterpret_cast<const unsigned char*>(&reinterpret_cast<const sockaddr_in6&>(endpoint.storage).sin6_addr),
            16};
  return {};
}

bool same_address(const Endpoint& a, const Endpoint& b) {
  const auto left = address_bytes(a), right = address_bytes(b);
  return !left.empty() && std::equal(left.begin(), left.end(), right.begin(), right.end());
}

bool link_local_v6(const Endpoint& endpoint) {
  const auto bytes = address_bytes(endpoint);
  return bytes.size() == 16 && bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80;
}

std::string host_text(const Endpoint& endpoint) {
  const auto parsed = parse_host_port(endpoint.to_string(), true);
  return parsed ? parsed->host : std::string();
}

bool digit(char c) {
  return c >= '0' && c <= '9';
}

struct Item {
  std::string_view name;
  bool prefix = false;
  std::optional<Endpoint> network;  // then `bits` of it count, and no name
  unsigned bits = 0;

  bool matches(const Interface& candidate) const {
    return network ? holds(candidate.address) : matches_name(candidate.name);
  }

 private:
  bool matches_name(std::string_view other) const {
    if (other.substr(0, name.size()) != name) return false;
    const std::string_view rest = other.substr(name.size());
    return prefix || rest.empty() || (!digit(name.back()) && std::all_of(rest.begin(), rest.end(), digit));
  }
  bool holds(const Endpoint& address) const {
    const auto own = address_bytes(*network), its = address_bytes(address);
    if (own.size() != its.size()) return false;
    for (unsigned bit = 0; bit < bits; ++bit)
      if (((own[bit / 8] ^ its[bit / 8]) >> (7 - bit % 8) & 1) != 0) return false;
    return true;
  }
};

struct List {
  bool excludes = false;
  std::vector<Item> items;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// An address in full: "10.1" is none, though the resolver takes it.
std::optional<Endpoint> parse_numeric(const std::string& text) {
  Endpoint endpoint;
  auto& v4 = reinterpret_cast<sockaddr_in&>(endpoint.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(endpoint.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    endpoint.bytes = sizeof v4;
  } else if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    endpoint.bytes = sizeof v6;
  } else {
    return std::nullopt;
  }
  return endpoint;
}

Result<Item> parse_item(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return failure(Code::invalid_argument, "'" + std::string(text) + "' " + why);
  };
  Item item;
  const std::size_t slash = text.find('/');
  item.network = parse_numeric(std::string(text.substr(0, slash)));
  if (item.network) {
    const auto most = static_cast<unsigned>(address_bytes(*item.network).size() * 8);
    item.bits = most;
    if (slash == std::string_view::npos) return item;
    const char *first = text.data() + slash + 1, *last = text.data() + text.size();
    const auto [end, error] = std::from_chars(first, last, item.bits);
    if (first == last || error != std::errc() || end != last || item.bits > most)
      return wrong("is no network: a number from 0 to " + std::to_string(most) + " is needed after the slash");
    return item;
  }
  if (slash != std::string_view::npos) return wrong("is no network: a numeric address is needed before the slash");
  if (text.find('^') != std::string_view::npos) return wrong("has a ^, which stands in front of the whole list only");
  item.prefix = text.back() == '*';
  item.name = text.substr(0, text.size() - (item.prefix ? 1 : 0));
  if (item.name.find('*') != std::string_view::npos) return wrong("has a * before its end");
  return item;
}

Result<List> parse_list(std::string_view text) {
  List list;
  text = trimmed(text);
  list.excludes = !text.empty() && text.front() == '^';
  if (list.excludes) text.remove_prefix(1);
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    if (const std::string_view word = trimmed(text.substr(0, comma)); !word.empty()) {
      auto item = parse_item(word);
      if (!item) return failure(item.error());
      list.items.push_back(std::move(*item));
    }
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  if (list.items.empty()) return failure(Code::invalid_argument, "it names no interface");
  return list;
}

// Those that may be chosen at all, best first; equals stay in the order of the system.
std::vector<Interface> ranked(std::span<const Interface> present) {
  std::vector<Interface> usable;
  for (const Interface& one : present)
    if (one.up && one.address.bytes != 0 && !link_local_v6(one.address)) usable.push_back(one);
  std::stable_sort(usable.begin(), usable.end(), [](const Interface& a, const Interface& b) {
    const auto rank = [](const Interface& i) {
      return std::pair(i.address.is_loopback(), i.address.family() != AF_INET);
    };
    return rank(a) < rank(b);
  });
  return usable;
}

// What the list allows, in the order in which it would be taken.
std::vector<Interface> allowed(const List& list, std::span<const Interface> present) {
  std::vector<Interface> usable = ranked(present), found;
  if (list.excludes) {
    std::erase_if(usable, [&](const Interface& one) {
      return std::any_of(list.items.begin(), list.items.end(), [&](const Item& item) { return item.matches(one); });
    });
    return usable;
  }
  for (const Item& item : list.items) {
    for (const Interface& one : usable)
      if (item.matches(one)) found.push_back(one);
  }
  return found;
}

std::vector<Endpoint> addresses_of(std::string_view host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(std::string(host).c_str(), nullptr, &hints, &found) != 0) return {};
  std::vector<Endpoint> addresses;
  for (const addrinfo* at = found; at; at = at->ai_next) {
    Endpoint endpoint;
    std::memcpy(&endpoint.storage, at->ai_addr, at->ai_addrlen);
    endpoint.bytes = at->ai_addrlen;
    addresses.push_back(endpoint);
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace

std::string LocalInterface::host() const {
  return addresses.empty() ? std::string() : host_text(addresses.front());
}

std::vector<Interface> present_interfaces() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  std::vector<Interface> found;
  const auto take = [&](const ifaddrs& entry, socklen_t bytes) {
    Interface one;
    one.name = entry.ifa_name;
    one.name.resize(std::min(one.name.find(':'), one.name.size()));  // "eth0:1", an address with a label
    constexpr unsigned kUp = IFF_UP | kLowerUp;
    one.up = (entry.ifa_flags & kUp) == kUp;
    one.address.bytes = bytes;
    std::memcpy(&one.address.storage, entry.ifa_addr, bytes);
    found.push_back(std::move(one));
  };
  for (const ifaddrs* at = all; at; at = at->ifa_next) {
    if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET) take(*at, sizeof(sockaddr_in));
    if (at->ifa_addr && at->ifa_addr->sa_family == AF_INET6) take(*at, sizeof(sockaddr_in6));
  }
  for (const ifaddrs* at = all; at; at = at->ifa_next) {
    const bool known =
        std::any_of(found.begin(), found.end(), [&](const Interface& one) { return one.name == at->ifa_name; });
    if (!known && std::strchr(at->ifa_name, ':') == nullptr) take(*at, 0);
  }
  ::freeifaddrs(all);
  return found;
}

std::string interfaces_text(std::span<const Interface> present) {
  std::string text;
  std::vector<std::string_view> shown;
  for (const Interface& first : present) {
    if (std::find(shown.begin(), shown.end(), first.name) != shown.end()) continue;
    if (shown.size() == kMostShown) return text + ", ...";
    shown.push_back(first.name);
    text += (text.empty() ? "" : ", ") + first.name;
    for (const Interface& one : present)
      if (one.name == first.name && one.address.bytes != 0) text += " " + host_text(one.address);
    if (!first.up) text += " (down)";
  }
  return text.empty() ? "none" : text;
}

Result<LocalInterface> choose_interface(std::string_view setting, std::span<const Interface> present,
                                        const Endpoint* wanted) {
  const auto wrong = [&](const std::string& why) {
    return failure(Code::invalid_argument, why + "; present: " + interfaces_text(present) + std::string(kExpected));
  };
  const auto list = parse_list(setting);
  if (!list) return wrong(list.error().text());
  const std::vector<Interface> choice = allowed(*list, present);
  const auto chosen = std::find_if(choice.begin(), choice.end(),
                                   [&](const Interface& one) { return !wanted || same_address(one.address, *wanted); });
  if (chosen == choice.end())
    return wrong(wanted ? "no interface that it allows and that is up has the address " + host_text(*wanted)
                        : "no interface that is up and has an address matches");
  LocalInterface local{chosen->name, {chosen->address}};
  // Who is reached by the other family only is dialled from the same card.
  for (const Interface& one : list->excludes ? choice : ranked(present)) {
    if (one.name == chosen->name && one.address.family() != chosen->address.family() &&
        one.address.is_loopback() == chosen->address.is_loopback()) {
      local.addresses.push_back(one.address);
      break;
    }
  }
  return local;
}

Result<LocalInterface> local_interface(const std::string& setting, const std::string& host) {
  const std::vector<Interface> present = present_interfaces();
  if (host.empty() || host == "0.0.0.0" || host == "::") return choose_interface(setting, present);
  const std::vector<Endpoint> addresses = addresses_of(host);
  if (addresses.empty())
    return failure(Code::invalid_argument,
                   "'" + setting + "': the address '" + host +
                       "' that was given as well has no number here; present: " + interfaces_text(present));
  auto found = choose_interface(setting, present, &addresses.front());
  for (std::size_t next = 1; !found && next < addresses.size(); ++next)
    if (auto other = choose_interface(setting, present, &addresses[next])) found = std::move(other);
  return found;
}

}  // namespace redsum::tcp
