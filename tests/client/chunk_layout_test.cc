// SPDX-License-Identifier: Apache-2.0
#include "client/core/chunk_layout.h"

#include <gtest/gtest.h>

#include "transport/base/prng.h"

namespace redsum::client {
namespace {

wire::CallDescription call(wire::Kind kind, std::uint64_t count, std::vector<std::uint64_t> parts = {}) {
  wire::CallDescription description;
  description.kind = kind;
  description.count = count;
  description.parts = std::move(parts);
  return description;
}

TEST(ChunkLayout, an_empty_call_is_one_empty_chunk) {
  for (const wire::Kind kind : {wire::Kind::allreduce, wire::Kind::all_gather, wire::Kind::barrier}) {
    const ChunkLayout layout(call(kind, 0), 3, 4096);
    EXPECT_EQ(layout.chunks(), 1u);
    EXPECT_EQ(layout.at(0).elements, 0u);
  }
}

TEST(ChunkLayout, chunks_end_at_the_borders_of_parts_and_empty_parts_have_none) {
  // fp32: 1024 elements a chunk.
  const ChunkLayout layout(call(wire::Kind::reduce_scatter, 2500, {0, 1, 0, 0, 2049, 450, 0}), 7, 4096);
  const ChunkPiece wanted[] = {{0, 1, 1}, {1, 1024, 4}, {1025, 1024, 4}, {2049, 1, 4}, {2050, 450, 5}};
  ASSERT_EQ(layout.chunks(), 5u);
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(layout.at(i).offset, wanted[i].offset) << i;
    EXPECT_EQ(layout.at(i).elements, wanted[i].elements) << i;
    EXPECT_EQ(layout.at(i).owner, wanted[i].owner) << i;
  }
}

TEST(ChunkLayout, chunks_cover_every_element_once_and_name_its_owner) {
  Prng random(7);
  for (int round = 0; round < 300; ++round) {
    const auto members = static_cast<std::uint32_t>(random.between(1, 9));
    std::vector<std::uint64_t> parts;
    std::vector<std::uint32_t> owners;
    for (std::uint32_t rank = 0; rank < members; ++rank) {
      parts.push_back(random.chance(30) ? 0 : random.below(5000));
      owners.insert(owners.end(), parts.back(), rank);
    }
    const ChunkLayout layout(call(wire::Kind::all_gather, owners.size(), parts), members, 4096);
    std::uint64_t next = 0;
    for (std::uint32_t i = 0; i < layout.chunks(); ++i) {
      const ChunkPiece piece = layout.at(i);
      ASSERT_EQ(piece.offset, next);
      ASSERT_LE(piece.elements, layout.most_elements());
      for (std::uint64_t e = 0; e < piece.elements; ++e) ASSERT_EQ(owners[next + e], piece.owner);
      next += piece.elements;
      ASSERT_TRUE(piece.elements != 0 || owners.empty());
    }
    ASSERT_EQ(next, owners.size());
  }
}

}  // namespace
}  // namespace redsum::client
