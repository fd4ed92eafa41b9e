// SPDX-License-Identifier: Apache-2.0
// The one frame of the data plane: a 64-byte header, little endian, followed by `payload_bytes` of payload. The layout
// is written down in docs/protocol.md and pinned by golden vectors. Every field that comes from the wire is
// range-checked by check_header() before anything is computed from it.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/dtype.h"
#include "transport/base/types.h"

namespace redsum::wire {

static_assert(std::endian::native == std::endian::little, "redsum runs on little endian machines");

inline constexpr std::uint16_t kMagic = 0x5352;  // "RS"
inline constexpr std::uint8_t kVersion = 1;
inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::size_t kScalePrefixBytes = 16;       // pre and post factor, before the payload
inline constexpr std::uint32_t kMaxChunkBytes = 1u << 20;  // largest chunk that any setting allows
inline constexpr std::uint32_t kMaxPayloadBytes = kMaxChunkBytes + kScalePrefixBytes;
inline constexpr std::uint32_t kMaxRanks = 65536;

enum class FrameType : std::uint8_t {
  contribution = 1,  // worker -> shard: one rank's chunk
  result = 2,        // shard -> worker: the fold of all contributions of a chunk
  held = 3,          // against the data, header-only: `sequence` frames of this lane have left their places
  partial = 4,       // worker -> next worker of the ring: the fold of some ranks' contributions to a chunk, or the data
                     // of its one source; the chunk's result goes round behind it
  message = 5,       // worker -> another worker: a piece of what one rank has for one other. `sequence` counts the
                     // messages of the lane, `element_offset` is how many elements the whole message has
};

enum class Kind : std::uint8_t {
  allreduce = 0,
  reduce = 1,
  broadcast = 2,
  reduce_scatter = 3,
  all_gather = 4,
  barrier = 5,
  all_to_all = 6,
  gather = 7,
  scatter = 8,
  send = 9,  // and its receive
};
inline constexpr int kKindCount = 10;
constexpr std::string_view kind_name(Kind kind) noexcept {
  constexpr std::string_view kNames[kKindCount] = {"allreduce",  "reduce",  "broadcast",  "reduce_scatter",
                                                   "all_gather", "barrier", "all_to_all", "gather",
                                                   "scatter",    "send"};
  const auto i = static_cast<std::size_t>(kind);
  return i < kKindCount ? kNames[i] : std::string_view("?");
}

// Of these, what one rank has for another goes straight from worker to worker, as a message: no reducer and no ring has
// a part in it.
constexpr bool is_exchange(Kind kind) noexcept {
  return kind >= Kind::all_to_all;
}
// Each chunk of these has payload from one rank only: nothing is folded.
constexpr bool has_one_source(Kind kind) noexcept {
  return kind == Kind::broadcast || kind == Kind::all_gather;
}
constexpr bool has_root(Kind kind) noexcept {
  return kind == Kind::broadcast || kind == Kind::reduce || kind == Kind::gather || kind == Kind::scatter;
}
// The others fold, but for the barrier, which has no data.
constexpr bool reduces(Kind kind) noexcept {
  return kind == Kind::allreduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}
// The elements of these are the ranks' parts, one after another.
constexpr bool has_parts(Kind kind) noexcept {
  return kind == Kind::reduce_scatter || kind == Kind::all_gather;
}

// Bits of Header::flags. Bits 8-11 hold the Kind.
inline constexpr std::uint16_t kFlagSmall = 1 << 0;       // of the small numbering, else of the bulk numbering
inline constexpr std::uint16_t kFlagHeaderOnly = 1 << 1;  // no payload on purpose: takes part, has or wants no data
inline constexpr std::uint16_t kFlagScaled = 1 << 2;      // kScalePrefixBytes of factors precede the elements
inline constexpr std::uint16_t kFlagRefused = 1 << 3;     // this rank cannot take part in the call
inline constexpr std::uint16_t kFlagPayloadCrc = 1 << 4;  // payload_crc is filled in
inline constexpr std::uint16_t kFlagNoResult = 1 << 5;    // contribution: this rank wants the result without payload
inline constexpr std::uint16_t kFlagNonFinite = 1 << 6;   // result of a reduction: some elements are NaN or infinite
inline constexpr int kKindShift = 8;
inline constexpr std::uint16_t kKnownFlags = 0x0F7F;

struct Header {
  std::uint16_t magic = kMagic;
  std::uint8_t version = kVersion;
  FrameType type = FrameType::contribution;
  DType dtype = DType::fp32;  // of the payload, that is the wire dtype
  Op op = Op::sum;
  std::uint16_t flags = 0;
  std::uint32_t rank = 0;            // of the sender in its communicator; in a result: of the receiver
  std::uint32_t epoch = 0;           // Epoch::value
  std::uint16_t place = 0;           // PlaceIndex at the receiver
  std::uint16_t communicator = 0;    // CommunicatorId
  std::uint32_t chunk = 0;           // index of the chunk in its collective
  std::uint64_t sequence = 0;        // number of the collective in its communicator
  std::uint64_t element_offset = 0;  // first element of the chunk in the collective
  std::uint64_t signature = 0;       // CallDescription::signature()
  std::uint32_t payload_bytes = 0;   // including the scale prefix
  std::uint32_t contributors = 0;    // result, partial: how many ranks were folded; contribution: 1
  std::uint32_t payload_crc = 0;     // CRC32C, when kFlagPayloadCrc is set
  std::uint32_t header_crc = 0;      // CRC32C of the 60 bytes before it

  bool has(std::uint16_t flag) const noexcept { return (flags & flag) != 0; }
  Kind kind() const noexcept { return static_cast<Kind>(flags >> kKindShift & 0xF); }
  void set_kind(Kind kind) noexcept {
    flags = static_cast<std::uint16_t>((flags & 0x00FF) | static_cast<unsigned>(kind) << kKindShift);
  }
};
static_assert(sizeof(Header) == kHeaderBytes && std::is_trivially_copyable_v<Header>);

// What is wrong with a header, as a short text that names the field; nullptr when nothing is.
// Checks magic, version, CRC, every enum, rank and size on its own, and that the arithmetic is defined at all. Not
// whether the frame fits the receiver's state.
const char* check_header(const Header& header) noexcept;

// Fills header_crc. The last thing before a header is sent.
void seal(Header& header) noexcept;

std::uint32_t crc32c(ConstBytes bytes, std::uint32_t seed = 0) noexcept;

}  // namespace redsum::wire
