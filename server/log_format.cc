// SPDX-License-Identifier: Apache-2.0
// How a line of the log looks, and which lines are left out. Pure.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "server/log.h"

namespace redsum::server {
namespace {

constexpr std::string_view kCut = "...";

const char* level_name(log::Level level) noexcept {
  static constexpr const char* kNames[] = {"error", "warn", "info", "trace"};
  return kNames[static_cast<std::size_t>(level) & 3];
}

std::string stamp(std::int64_t wall_ms) {
  const std::time_t seconds = wall_ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[40], whole[32];
  std::strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof text, "%s.%03dZ", whole, static_cast<int>(wall_ms % 1000));
  return text;
}

// The length of the valid UTF-8 sequence at the start of `text`, 0 if there is none.
std::size_t sequence_bytes(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;  // overlong, surrogates
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

// The next character of `text`, escaped as JSON does it; `taken` bytes of input.
std::string escaped(std::string_view text, bool json, std::size_t& taken) {
  const auto byte = static_cast<unsigned char>(text[0]);
  taken = 1;
  if (json && (byte == '"' || byte == '\\')) return {'\\', text[0]};
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '\r') return "\\r";
  if (byte < 0x20 || byte == 0x7F) {
    char hex[8];
    std::snprintf(hex, sizeof hex, json ? "\\u%04x" : "\\x%02x", byte);
    return hex;
  }
  const std::size_t length = sequence_bytes(text);
  if (length == 0) return json ? "\\ufffd" : "?";
  taken = length;
  return std::string(text.substr(0, length));
}

// Appends `text`, as much of it as leaves the line `room` bytes long.
void append_escaped(std::string& out, std::string_view text, bool json, std::size_t room) {
  for (std::size_t at = 0, taken = 0; at < text.size(); at += taken) {
    const std::string piece = escaped(text.substr(at), json, taken);
    const bool is_last = at + taken == text.size();
    if (out.size() + piece.size() + (is_last ? 0 : kCut.size()) > room) {
      out += kCut;
      return;
    }
    out += piece;
  }
}

}  // namespace

std::string format_text(const LogLine& line) {
  std::string out = stamp(line.wall_ms);
  out += ' ';
  std::string name = level_name(line.level);
  for (char& c : name) c = static_cast<char>(c - 'a' + 'A');
  out += name + std::string(6 - name.size(), ' ');
  std::string tail;
  if (line.suppressed > 0) tail = " (" + std::to_string(line.suppressed) + " more like this were left out)";
  append_escaped(out, line.text, false, kMaxLogLineBytes - 1 - tail.size() - kCut.size());
  return out + tail;
}

std::string format_json(const LogLine& line) {
  std::string out = "{\"time\":\"" + stamp(line.wall_ms) + "\",\"level\":\"" + level_name(line.level) +
                    "\",\"pid\":" + std::to_string(::getpid()) + ",\"msg\":\"";
  std::string tail = "\"";
  if (line.suppressed > 0) tail += ",\"suppressed\":" + std::to_string(line.suppressed);
  tail += "}";
  append_escaped(out, line.text, true, kMaxLogLineBytes - 1 - tail.size() - kCut.size());
  return out + tail;
}

bool RepeatLimit::pass(log::Level level, std::string_view text, TimeNs now, std::uint64_t& suppressed) {
  std::uint64_t hash = 0xCBF29CE484222325ull ^ static_cast<std::uint64_t>(level);  // FNV-1a
  for (const char c : text) {
    if (c >= '0' && c <= '9') continue;
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  }
  suppressed = 0;
  if (kinds_.size() >= kKinds && kinds_.find(hash) == kinds_.end())
    kinds_.erase(std::min_element(kinds_.begin(), kinds_.end(), [](const auto& a, const auto& b) {
      return a.second.last_seen < b.second.last_seen;
    }));
  Kind& kind = kinds_[hash];
  if (kind.passed == 0) kind.window_start = now;
  // After a quiet interval the kind has its burst again; a kind that keeps coming has one line per interval.
  if (now - kind.last_seen >= kInterval && kind.suppressed == 0) kind.passed = 0, kind.window_start = now;
  kind.last_seen = now;
  const bool in_burst = kind.passed < kBurst;
  if (!in_burst && now - kind.window_start < kInterval) {
    ++kind.suppressed;
    return false;
  }
  if (!in_burst) kind.window_start = now;
  ++kind.passed;
  suppressed = kind.suppressed;
  kind.suppressed = 0;
  return true;
}

}  // namespace redsum::server
