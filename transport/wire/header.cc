// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/header.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace redsum::wire {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = c >> 1 ^ ((c & 1) ? 0x82F63B78u : 0);
    table[i] = c;
  }
  return table;
}
constexpr auto kTable = make_table();

std::uint32_t crc_table(const std::byte* p, std::size_t n, std::uint32_t c) noexcept {
  for (; n; --n, ++p) c = c >> 8 ^ kTable[(c ^ static_cast<std::uint32_t>(*p)) & 0xFF];
  return c;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc_sse42(const std::byte* p, std::size_t n, std::uint32_t c) noexcept {
  std::uint64_t wide = c;
  for (; n >= 8; n -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    wide = _mm_crc32_u64(wide, word);
  }
  return crc_table(p, n, static_cast<std::uint32_t>(wide));
}
#endif

}  // namespace

std::uint32_t crc32c(ConstBytes bytes, std::uint32_t seed) noexcept {
#if defined(__x86_64__)
  static const bool hardware = __builtin_cpu_supports("sse4.2");
  if (hardware) return ~crc_sse42(bytes.data(), bytes.size(), ~seed);
#endif
  return ~crc_table(bytes.data(), bytes.size(), ~seed);
}

namespace {
std::uint32_t header_crc(const Header& header) noexcept {
  return crc32c({reinterpret_cast<const std::byte*>(&header), offsetof(Header, header_crc)});
}
}  // namespace

const char* check_header(const Header& h) noexcept {
  if (h.magic != kMagic) return "magic";
  if (h.version != kVersion) return "version";
  if (h.header_crc != header_crc(h)) return "header CRC";
  if (h.type < FrameType::contribution || h.type > FrameType::message) return "type";
  if (static_cast<int>(h.dtype) >= kDTypeCount) return "dtype";
  if (static_cast<int>(h.op) >= kOpCount) return "op";
  if (!reduction_defined(h.dtype, h.op)) return "op for this dtype";
  if (h.flags & ~kKnownFlags) return "flags";
  if (h.has(kFlagScaled) && !dtype_is_float(h.dtype) && !dtype_is_complex(h.dtype))
    return "scale factors for this dtype";
  if (static_cast<int>(h.kind()) >= kKindCount) return "kind";
  if (h.type != FrameType::held && is_exchange(h.kind()) != (h.type == FrameType::message))
    return "kind for this frame type";
  if (h.has(kFlagNonFinite) &&
      (h.type != FrameType::result || !reduces(h.kind()) || (!dtype_is_float(h.dtype) && !dtype_is_complex(h.dtype))))
    return "nonfinite flag";
  if (h.rank >= kMaxRanks) return "rank";
  if (h.payload_bytes > kMaxPayloadBytes) return "payload bytes";
  if (h.has(kFlagHeaderOnly) && h.payload_bytes != 0) return "payload bytes of a header-only frame";
  const std::uint32_t prefix = h.has(kFlagScaled) && h.payload_bytes ? kScalePrefixBytes : 0;
  if (h.payload_bytes < prefix || (h.payload_bytes - prefix) % dtype_bytes(h.dtype) != 0)
    return "payload bytes for this dtype";
  if (h.contributors > kMaxRanks) return "contributors";
  return nullptr;
}

void seal(Header& header) noexcept {
  header.header_crc = header_crc(header);
}

}  // namespace redsum::wire
