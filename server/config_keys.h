// SPDX-License-Identifier: Apache-2.0
// The one table of redsumd's settings. The TOML file, the environment, the flags, --print-config, configs/redsumd.toml
// and docs/reference/configuration.md are all driven by it: a new setting is one row here and one line in config.cc.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/base/status.h"

namespace redsum::server {

enum class KeyType : std::uint8_t { text, address, list, integer, bytes, duration, boolean, choice };

struct Key {
  std::string_view name;  // "reducer.shards"; the part before the dot is the file's section
  KeyType type;
  std::string_view default_text;  // as one writes it in the environment
  std::string_view description;
  std::int64_t min = 0, max = 0;  // integer: the value; bytes: bytes; duration: nanoseconds
  std::string_view words =
      {};  // choice: every value, "a|b|c"; other types: words taken besides a value, such as "auto"
  std::string_view alias = {};      // short flag, without dashes
  std::string_view env_alias = {};  // a name shared with the client library; the key's own variable beats it
};

std::span<const Key> keys() noexcept;
const Key* find_key(std::string_view name) noexcept;

std::string environment_name(const Key& key);  // "REDSUM_REDUCER_SHARDS"
std::string type_text(const Key& key);         // "an integer from 0 to 1024", for messages and the reference
std::string_view default_meaning(
    const Key& key) noexcept;  // what an empty, zero or "auto" default stands for; may be empty

// The candidate with the smallest edit distance, if it is near enough to be what was meant; else empty.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// -- values. Each takes the text of a setting; the error says what is needed ("64 is not ..."), the caller adds where
// it stood.
Status check_value(const Key& key, std::string_view text);
Result<std::int64_t> parse_integer(std::string_view text);
Result<std::int64_t> parse_bytes(std::string_view text);  // "4096", "64KiB", "1.5GiB"
Result<std::int64_t> parse_duration(
    std::string_view text);                         // "500ms", "3s", "2m", "1h"; a bare number is seconds; -> ns
Result<bool> parse_boolean(std::string_view text);  // true false yes no on off 1 0
std::vector<std::string> split_list(std::string_view text);  // by commas, trimmed, no empty parts
std::string bytes_text(std::int64_t bytes);                  // "64KiB": the shortest exact form
std::string duration_text(std::int64_t ns);                  // "500ms"

struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;
};
Result<HostPort> parse_address(std::string_view text);  // "host:port", "[::1]:7400", "[fe80::1%lo]:7400"
std::string address_text(const HostPort& address);
bool is_loopback(std::string_view host) noexcept;  // 127.0.0.0/8, ::1, localhost
bool is_wildcard(std::string_view host) noexcept;  // 0.0.0.0, ::

}  // namespace redsum::server
