// SPDX-License-Identifier: Apache-2.0
// The 64-byte header, byte by byte, and what check_header() refuses.
#include "transport/wire/header.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace redsum::wire {
namespace {

using Image = std::array<std::uint8_t, kHeaderBytes>;

Header sample() {
  Header h;
  h.type = FrameType::result;
  h.dtype = DType::bf16;
  h.op = Op::avg;
  h.flags = kFlagSmall | kFlagScaled | kFlagPayloadCrc;
  h.set_kind(Kind::reduce_scatter);
  h.rank = 0x0000ABCD;
  h.epoch = 0x12345678;
  h.place = 0x9ABC;
  h.communicator = 0xDEF0;
  h.chunk = 0x01020304;
  h.sequence = 0x1122334455667788;
  h.element_offset = 0x99AABBCCDDEEFF00;
  h.signature = 0x0123456789ABCDEF;
  h.payload_bytes = 0x00010010;
  h.contributors = 0x00000007;
  h.payload_crc = 0xCAFEBABE;
  return h;
}

// Written by hand from docs/protocol.md; the last four bytes are the CRC.
constexpr Image kGolden = {
    0x52, 0x53,                                      // magic "RS"
    0x01,                                            // version
    0x02,                                            // type result
    0x03,                                            // dtype bf16
    0x04,                                            // op avg
    0x15, 0x03,                                      // flags small, scaled, payload CRC; kind reduce_scatter
    0xCD, 0xAB, 0x00, 0x00,                          // rank
    0x78, 0x56, 0x34, 0x12,                          // epoch
    0xBC, 0x9A,                                      // place
    0xF0, 0xDE,                                      // communicator
    0x04, 0x03, 0x02, 0x01,                          // chunk
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  // sequence
    0x00, 0xFF, 0xEE, 0xDD, 0xCC, 0xBB, 0xAA, 0x99,  // element offset
    0xEF, 0xCD, 0xAB, 0x89, 0x67, 0x45, 0x23, 0x01,  // signature
    0x10, 0x00, 0x01, 0x00,                          // payload bytes
    0x07, 0x00, 0x00, 0x00,                          // contributors
    0xBE, 0xBA, 0xFE, 0xCA,                          // payload CRC
    0xB4, 0x0D, 0xB8, 0xED,                          // header CRC
};

Image image_of(const Header& header) {
  Image image;
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

// CRC32C bit by bit, from its definition: what the fast ones must equal.
std::uint32_t crc_by_definition(const std::uint8_t* bytes, std::size_t count) {
  std::uint32_t c = ~0u;
  for (std::size_t i = 0; i < count; ++i) {
    c ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
  }
  return ~c;
}

ConstBytes as_bytes(const void* data, std::size_t count) {
  return {static_cast<const std::byte*>(data), count};
}

TEST(Header, has_the_documented_layout) {
  Header header = sample();
  seal(header);
  const Image image = image_of(header);
  for (std::size_t i = 0; i < kHeaderBytes; ++i) EXPECT_EQ(image[i], kGolden[i]) << "byte " << i;
}

TEST(Header, golden_bytes_read_back) {
  Header header;
  std::memcpy(&header, kGolden.data(), sizeof header);
  EXPECT_EQ(check_header(header), nullptr);
  EXPECT_EQ(header.kind(), Kind::reduce_scatter);
  EXPECT_EQ(header.sequence, 0x1122334455667788u);
  EXPECT_TRUE(header.has(kFlagSmall));
  EXPECT_FALSE(header.has(kFlagRefused));
  EXPECT_EQ(header.header_crc, crc_by_definition(kGolden.data(), 60));
}

TEST(Header, default_is_valid_once_sealed) {
  Header header;
  EXPECT_STREQ(check_header(header), "header CRC");
  seal(header);
  EXPECT_EQ(check_header(header), nullptr);
}

TEST(Header, set_kind_keeps_the_flags) {
  Header header;
  header.flags = 0x001F;
  for (int kind = 0; kind < kKindCount; ++kind) {
    header.set_kind(static_cast<Kind>(kind));
    EXPECT_EQ(header.kind(), static_cast<Kind>(kind));
    EXPECT_EQ(header.flags & 0xFF, 0x1F);
  }
}

TEST(CheckHeader, any_flipped_bit_is_noticed) {
  for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
    Image image = kGolden;
    image[bit / 8] = static_cast<std::uint8_t>(image[bit / 8] ^ 1u << bit % 8);
    Header header;
    std::memcpy(&header, image.data(), sizeof header);
    EXPECT_NE(check_header(header), nullptr) << "bit " << bit;
  }
}

template <typename Change>
std::string refusal(Change change) {
  Header header = sample();
  change(header);
  seal(header);
  const char* what = check_header(header);
  return what ? what : "";
}

TEST(CheckHeader, SEC_05_each_field_is_checked_on_its_own) {
  EXPECT_EQ(refusal([](Header&) {}), "");
  EXPECT_EQ(refusal([](Header& h) { h.magic = 0x5253; }), "magic");
  EXPECT_EQ(refusal([](Header& h) { h.version = 2; }), "version");
  EXPECT_EQ(refusal([](Header& h) { h.type = static_cast<FrameType>(0); }), "type");
  EXPECT_EQ(refusal([](Header& h) { h.type = static_cast<FrameType>(6); }), "type");
  EXPECT_EQ(refusal([](Header& h) { h.dtype = static_cast<DType>(kDTypeCount); }), "dtype");
  EXPECT_EQ(refusal([](Header& h) { h.dtype = static_cast<DType>(255); }), "dtype");
  EXPECT_EQ(refusal([](Header& h) { h.op = static_cast<Op>(kOpCount); }), "op");
  EXPECT_EQ(refusal([](Header& h) { h.op = static_cast<Op>(200); }), "op");
  EXPECT_EQ(refusal([](Header& h) { h.dtype = DType::complex64, h.op = Op::prod; }), "op for this dtype");
  EXPECT_EQ(refusal([](Header& h) { h.dtype = DType::int32, h.flags |= kFlagScaled; }), "scale factors for this dtype");
  for (const unsigned bit : {7u, 12u, 13u, 14u, 15u})
    EXPECT_EQ(refusal([&](Header& h) { h.flags = static_cast<std::uint16_t>(h.flags | 1u << bit); }), "flags") << bit;
  EXPECT_EQ(refusal([](Header& h) { h.set_kind(static_cast<Kind>(kKindCount)); }), "kind");
  EXPECT_EQ(refusal([](Header& h) { h.set_kind(Kind::send); }), "kind for this frame type");
  EXPECT_EQ(refusal([](Header& h) { h.type = FrameType::message; }), "kind for this frame type");
  EXPECT_EQ(refusal([](Header& h) { h.type = FrameType::message, h.set_kind(Kind::gather); }), "");
  for (const FrameType type : {FrameType::contribution, FrameType::held, FrameType::partial})
    EXPECT_EQ(refusal([&](Header& h) { h.flags |= kFlagNonFinite, h.type = type; }), "nonfinite flag");
  for (const Kind kind : {Kind::broadcast, Kind::all_gather, Kind::barrier})
    EXPECT_EQ(refusal([&](Header& h) { h.flags |= kFlagNonFinite, h.set_kind(kind); }), "nonfinite flag");
  EXPECT_EQ(refusal([](Header& h) { h.flags = kFlagNonFinite, h.dtype = DType::int16; }), "nonfinite flag");
  EXPECT_EQ(refusal([](Header& h) { h.rank = kMaxRanks; }), "rank");
  EXPECT_EQ(refusal([](Header& h) { h.rank = 1u << 31; }), "rank");
  EXPECT_EQ(refusal([](Header& h) { h.payload_bytes = kMaxPayloadBytes + 2; }), "payload bytes");
  EXPECT_EQ(refusal([](Header& h) { h.payload_bytes = 0xFFFFFFFF; }), "payload bytes");
  EXPECT_EQ(refusal([](Header& h) { h.flags |= kFlagHeaderOnly; }), "payload bytes of a header-only frame");
  EXPECT_EQ(refusal([](Header& h) { h.payload_bytes = 17; }), "payload bytes for this dtype");
  EXPECT_EQ(refusal([](Header& h) { h.payload_bytes = 14; }),
            "payload bytes for this dtype");  // no room for the scales
  EXPECT_EQ(refusal([](Header& h) { h.contributors = kMaxRanks + 1; }), "contributors");
}

TEST(CheckHeader, the_limits_themselves_pass) {
  EXPECT_EQ(refusal([](Header& h) { h.rank = kMaxRanks - 1; }), "");
  EXPECT_EQ(refusal([](Header& h) { h.contributors = kMaxRanks; }), "");
  EXPECT_EQ(refusal([](Header& h) { h.flags |= kFlagNonFinite; }), "");
  EXPECT_EQ(refusal([](Header& h) { h.payload_bytes = kMaxPayloadBytes; }), "");
  EXPECT_EQ(refusal([](Header& h) { h.payload_bytes = kScalePrefixBytes; }), "");
  EXPECT_EQ(refusal([](Header& h) { h.payload_bytes = 0; }), "");
  EXPECT_EQ(refusal([](Header& h) { h.flags |= kFlagHeaderOnly, h.payload_bytes = 0; }), "");
}

TEST(CheckHeader, payload_is_whole_elements_of_every_dtype) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto bytes = static_cast<std::uint32_t>(dtype_bytes(dtype));
    const auto plain = [&](Header& h, std::uint32_t payload_bytes) {
      h.dtype = dtype;
      h.flags &= static_cast<std::uint16_t>(~kFlagScaled);
      h.payload_bytes = payload_bytes;
    };
    EXPECT_EQ(refusal([&](Header& h) { plain(h, 5 * bytes); }), "") << dtype_name(dtype);
    if (bytes > 1) {
      EXPECT_NE(refusal([&](Header& h) { plain(h, 5 * bytes + 1); }), "") << dtype_name(dtype);
    }
  }
}

// Pieces of less than 8 bytes go through the table, whole buffers through the CPU's instruction where it has one.
std::uint32_t crc_in_pieces(ConstBytes bytes, std::size_t piece) {
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    crc = crc32c(bytes.subspan(at, std::min(piece, bytes.size() - at)), crc);
  return crc;
}

TEST(Crc32c, known_vectors_on_both_paths) {
  std::array<std::uint8_t, 32> zeros{}, ones{}, up{}, down{};
  ones.fill(0xFF);
  for (std::uint8_t i = 0; i < 32; ++i) up[i] = i, down[i] = static_cast<std::uint8_t>(31 - i);
  const struct {
    ConstBytes bytes;
    std::uint32_t crc;
  } vectors[] = {{as_bytes("123456789", 9), 0xE3069283},   {as_bytes("", 0), 0},
                 {as_bytes(zeros.data(), 32), 0x8A9136AA}, {as_bytes(ones.data(), 32), 0x62A8AB43},
                 {as_bytes(up.data(), 32), 0x46DD794E},    {as_bytes(down.data(), 32), 0x113FDB5C}};
  for (const auto& [bytes, crc] : vectors) {
    EXPECT_EQ(crc32c(bytes), crc);
    EXPECT_EQ(crc_in_pieces(bytes, 1), crc);
    EXPECT_EQ(crc_in_pieces(bytes, 7), crc);
    EXPECT_EQ(crc_in_pieces(bytes, 8), crc);
  }
}

TEST(Crc32c, every_length_and_alignment_equals_the_definition) {
  std::vector<std::uint8_t> data(96);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * 167 + 13);
  for (std::size_t offset = 0; offset < 8; ++offset)
    for (std::size_t length = 0; length <= 80; ++length)
      EXPECT_EQ(crc32c(as_bytes(data.data() + offset, length)), crc_by_definition(data.data() + offset, length))
          << offset << " " << length;
}

}  // namespace
}  // namespace redsum::wire
