// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/call.h"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace redsum::wire {
namespace {

// A stream of 64-bit words through splitmix64's finaliser: every bit of every word moves half of the hash.
class Hash {
 public:
  void add(std::uint64_t word) noexcept {
    std::uint64_t z = state_ ^ (word + 0x9E3779B97F4A7C15ull + (state_ << 6) + (state_ >> 2));
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    state_ = z ^ (z >> 31);
  }
  std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0x7265647375'6D31ull;
};

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

std::uint64_t CallDescription::signature() const noexcept {
  Hash hash;
  hash.add(static_cast<std::uint64_t>(kind) | static_cast<std::uint64_t>(via) << 7 |
           static_cast<std::uint64_t>(dtype) << 8 | static_cast<std::uint64_t>(wire_dtype) << 16 |
           static_cast<std::uint64_t>(op) << 24 | static_cast<std::uint64_t>(root) << 32);
  hash.add(count);
  hash.add(std::bit_cast<std::uint64_t>(prescale));
  hash.add(std::bit_cast<std::uint64_t>(postscale));
  hash.add(key.size());
  for (const char c : key) hash.add(static_cast<unsigned char>(c));
  for (const std::uint64_t part : parts) hash.add(part);
  return hash.value();
}

std::string CallDescription::to_string() const {
  std::string text(kind_name(kind));
  if (via == Via::ring) text += " (ring)";
  if (kind == Kind::barrier) return text;
  text += kind == Kind::all_to_all ? " of " : " of " + std::to_string(count) + " ";  // its counts are the pairs' own
  text += dtype_name(dtype);
  if (wire_dtype != dtype) text += " (wire " + std::string(dtype_name(wire_dtype)) + ")";
  if (has_root(kind)) text += " root " + std::to_string(root);
  if (!parts.empty()) text += " in parts";
  if (!has_one_source(kind) && !is_exchange(kind)) text += ", " + std::string(op_name(op));
  if (prescale != 1.0 || postscale != 1.0) text += ", scales " + number(prescale) + " and " + number(postscale);
  if (!key.empty()) text += ", key '" + key + "'";
  return text;
}

Difference difference(const CallDescription& l, const CallDescription& r) {
  if (l.kind != r.kind) return {"kind", std::string(kind_name(l.kind)), std::string(kind_name(r.kind))};
  if (l.via != r.via) return {"mode", std::string(via_name(l.via)), std::string(via_name(r.via))};
  if (l.key != r.key) return {"key", "'" + l.key + "'", "'" + r.key + "'"};
  if (l.count != r.count) return {"count", std::to_string(l.count), std::to_string(r.count)};
  if (!l.parts.empty() && !r.parts.empty() && l.parts.size() != r.parts.size())
    return {"number of parts", std::to_string(l.parts.size()), std::to_string(r.parts.size())};
  const auto parts = static_cast<std::uint32_t>(std::max(l.parts.size(), r.parts.size()));
  for (std::uint32_t i = 0; i < parts; ++i)
    if (l.part(i, parts) != r.part(i, parts))
      return {"count of part " + std::to_string(i), std::to_string(l.part(i, parts)), std::to_string(r.part(i, parts))};
  if (l.dtype != r.dtype) return {"dtype", std::string(dtype_name(l.dtype)), std::string(dtype_name(r.dtype))};
  if (l.wire_dtype != r.wire_dtype)
    return {"wire dtype", std::string(dtype_name(l.wire_dtype)), std::string(dtype_name(r.wire_dtype))};
  if (l.op != r.op) return {"op", std::string(op_name(l.op)), std::string(op_name(r.op))};
  if (l.root != r.root) return {"root", std::to_string(l.root), std::to_string(r.root)};
  if (l.prescale != r.prescale) return {"prescale", number(l.prescale), number(r.prescale)};
  if (l.postscale != r.postscale) return {"postscale", number(l.postscale), number(r.postscale)};
  return {};
}

}  // namespace redsum::wire
