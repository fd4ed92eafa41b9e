// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/violation.h"

#include <cstddef>
#include <string>

namespace redsum::wire {

Status violation(std::string_view field, std::uint64_t value, std::string_view limit) {
  return {Code::protocol_error,
          "frame refused: " + std::string(field) + " " + std::to_string(value) + ", " + std::string(limit)};
}

Status violation(const Header& h, std::string_view field) {
  const auto below = [](std::uint64_t limit) { return "limit " + std::to_string(limit); };
  if (field == "magic") return violation(field, h.magic, "expected " + std::to_string(kMagic));
  if (field == "version") return violation(field, h.version, "expected " + std::to_string(kVersion));
  if (field == "header CRC") {
    Header sealed = h;
    seal(sealed);
    return violation(field, h.header_crc, "the bytes have " + std::to_string(sealed.header_crc));
  }
  if (field == "type") return violation(field, static_cast<unsigned>(h.type), "expected 1 to 5");
  if (field == "dtype") return violation(field, static_cast<unsigned>(h.dtype), below(kDTypeCount));
  if (field == "op") return violation(field, static_cast<unsigned>(h.op), below(kOpCount));
  if (field == "op for this dtype")
    return violation(field, static_cast<unsigned>(h.op),
                     std::string(op_name(h.op)) + " of " + std::string(dtype_name(h.dtype)) + " is not defined");
  if (field == "scale factors for this dtype")
    return violation(field, h.flags, std::string(dtype_name(h.dtype)) + " has none");
  if (field == "flags") return violation(field, h.flags, "known are " + std::to_string(kKnownFlags));
  if (field == "nonfinite flag") return violation(field, h.flags, "it belongs to results of floating-point reductions");
  if (field == "kind") return violation(field, static_cast<unsigned>(h.kind()), below(kKindCount));
  if (field == "kind for this frame type")
    return violation(field, static_cast<unsigned>(h.kind()),
                     "frame type " + std::to_string(static_cast<unsigned>(h.type)));
  if (field == "rank") return violation(field, h.rank, below(kMaxRanks));
  if (field == "contributors") return violation(field, h.contributors, below(kMaxRanks));
  return violation(field, h.payload_bytes, below(kMaxPayloadBytes));
}

}  // namespace redsum::wire
