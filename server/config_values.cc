// SPDX-License-Identifier: Apache-2.0
// Text to value, for every type that a setting has.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "server/config_keys.h"
#include "transport/base/time.h"

namespace redsum::server {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
constexpr std::int64_t kKiB = 1024;
constexpr Unit kByteUnits[] = {
    {"TiB", kKiB* kKiB* kKiB* kKiB}, {"GiB", kKiB* kKiB* kKiB}, {"MiB", kKiB* kKiB}, {"KiB", kKiB}, {"B", 1}};
constexpr Unit kTimeUnits[] = {
    {"h", 3600 * kSecond}, {"m", 60 * kSecond}, {"s", kSecond}, {"ms", kMillisecond}, {"us", kMicrosecond}};

std::string_view trimmed(std::string_view text) noexcept {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// A decimal number with an optional unit, exact where it is whole.
Result<std::int64_t> parse_with_unit(std::string_view text, std::span<const Unit> units, std::int64_t bare_factor,
                                     std::string_view example) {
  text = trimmed(text);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, digits), unit = trimmed(text.substr(digits));
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  std::int64_t factor = unit.empty() ? bare_factor : 0;
  for (const Unit& u : units) factor = unit == u.name ? u.factor : factor;
  if (number.empty() || error != std::errc() || end != number.data() + number.size() || factor == 0) {
    std::string names;
    for (const Unit& u : units) names += (names.empty() ? "" : ", ") + std::string(u.name);
    return failure(Code::invalid_argument,
                   "a number with one of the units " + names + " is needed, such as " + std::string(example));
  }
  std::int64_t whole = 0;
  const auto exact = std::from_chars(number.data(), number.data() + number.size(), whole);
  std::int64_t product = 0;
  if (exact.ec == std::errc() && exact.ptr == number.data() + number.size()) {
    if (__builtin_mul_overflow(whole, factor, &product))
      return failure(Code::invalid_argument, "the number is too large");
    return product;
  }
  if (value * static_cast<double>(factor) >= 9.2e18) return failure(Code::invalid_argument, "the number is too large");
  return static_cast<std::int64_t>(std::llround(value * static_cast<double>(factor)));
}

std::string with_unit(std::int64_t value, std::span<const Unit> units, std::string_view zero) {
  if (value == 0) return std::string(zero);
  for (const Unit& u : units)
    if (value % u.factor == 0) return std::to_string(value / u.factor) + std::string(u.name == "B" ? "" : u.name);
  return std::to_string(value);
}

Status check_range(const Key& key, const Result<std::int64_t>& value) {
  if (!value) return value.error();
  if (*value < key.min || *value > key.max)
    return {Code::invalid_argument, "out of range: " + type_text(key) + " is needed"};
  return {};
}

bool is_word_of(std::string_view words, std::string_view text) {
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t end = std::min(words.find('|', at), words.size());
    if (words.substr(at, end - at) == text) return true;
    at = end + 1;
  }
  return false;
}

Status check_choice(const Key& key, std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < key.words.size();) {
    const std::size_t end = std::min(key.words.find('|', at), key.words.size());
    words.emplace_back(key.words.substr(at, end - at));
    at = end + 1;
  }
  const std::string near = nearest(text, words);
  return {Code::invalid_argument,
          type_text(key) + " is needed" + (near.empty() ? "" : "; did you mean '" + near + "'?")};
}

Status check_name(std::string_view text) {
  const bool fits = text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                             c == '_' || c == '-' || c == ':';
                    });
  if (fits) return {};
  return {Code::invalid_argument, "at most 64 letters, digits, '.', '_', '-' or ':' are needed"};
}

}  // namespace

Status check_value(const Key& key, std::string_view text) {
  if (key.type != KeyType::choice && !key.words.empty() && is_word_of(key.words, text)) return {};
  switch (key.type) {
    case KeyType::text:
      return key.name == "reducer.name" ? check_name(text) : Status();
    case KeyType::choice:
      return is_word_of(key.words, text) ? Status() : check_choice(key, text);
    case KeyType::integer:
      return check_range(key, parse_integer(text));
    case KeyType::bytes:
      return check_range(key, parse_bytes(text));
    case KeyType::duration:
      return check_range(key, parse_duration(text));
    case KeyType::boolean: {
      const auto value = parse_boolean(text);
      return value ? Status() : value.error();
    }
    case KeyType::address: {
      const auto value = parse_address(text);
      return value ? Status() : value.error();
    }
    case KeyType::list:
      for (const std::string& part : split_list(text)) {
        const auto value = parse_address(part);
        if (!value) return {Code::invalid_argument, "'" + part + "': " + value.error().text()};
        if (value->port == 0) return {Code::invalid_argument, "'" + part + "': a port from 1 to 65535 is needed"};
      }
      return {};
  }
  return {};
}

Result<std::int64_t> parse_integer(std::string_view text) {
  text = trimmed(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return failure(Code::invalid_argument, "an integer is needed");
  return value;
}

Result<std::int64_t> parse_bytes(std::string_view text) {
  return parse_with_unit(text, kByteUnits, 1, "64MiB");
}

Result<std::int64_t> parse_duration(std::string_view text) {
  return parse_with_unit(text, kTimeUnits, kSecond, "3s");
}

Result<bool> parse_boolean(std::string_view text) {
  text = trimmed(text);
  if (is_word_of("true|yes|on|1", text)) return true;
  if (is_word_of("false|no|off|0", text)) return false;
  return failure(Code::invalid_argument, "true or false is needed");
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    if (const std::string_view part = trimmed(text.substr(at, end - at)); !part.empty()) parts.emplace_back(part);
    at = end + 1;
  }
  return parts;
}

std::string bytes_text(std::int64_t bytes) {
  return with_unit(bytes, kByteUnits, "0");
}

std::string duration_text(std::int64_t ns) {
  return with_unit(ns, kTimeUnits, "0s");
}

Result<HostPort> parse_address(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return failure(Code::invalid_argument,
                   std::string(why) + "; host:port or [v6]:port is needed, such as 127.0.0.1:7400");
  };
  text = trimmed(text);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong("the port is missing");
  std::string_view host = text.substr(0, colon);
  const std::string_view port_text = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (host.find(':') == std::string_view::npos) return wrong("brackets are for IPv6 addresses");
  } else if (host.find(':') != std::string_view::npos) {
    return wrong("an IPv6 address stands in brackets");
  }
  if (host.empty()) return wrong("the host is missing");
  if (host.find_first_of(" \t/[]@") != std::string_view::npos || host.size() > 255)
    return wrong("this is no host name");
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(port_text.data(), port_text.data() + port_text.size(), port);
  if (port_text.empty() || error != std::errc() || end != port_text.data() + port_text.size())
    return wrong("the port is not a number from 0 to 65535");
  return HostPort{std::string(host), port};
}

std::string address_text(const HostPort& address) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

bool is_loopback(std::string_view host) noexcept {
  return host == "localhost" || host == "::1" ||
         (host.substr(0, 4) == "127." && host.find_first_not_of("0123456789.") == std::string_view::npos);
}

bool is_wildcard(std::string_view host) noexcept {
  return host == "0.0.0.0" || host == "::" || host == "0";
}

}  // namespace redsum::server
