// SPDX-License-Identifier: Apache-2.0
// The nouns that every layer shares. Distinct types, so that a rank cannot be passed where a place is meant.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace redsum {

template <typename Tag, typename Rep>
struct Number {
  Rep value{};
  constexpr Number() = default;
  constexpr explicit Number(Rep v) : value(v) {}
  constexpr auto operator<=>(const Number&) const = default;
};

using Rank = Number<struct RankTag, std::uint32_t>;                    // place of a worker in a communicator, 0-based
using CommunicatorId = Number<struct CommunicatorTag, std::uint16_t>;  // unique within a job
using PlaceIndex = Number<struct PlaceTag, std::uint16_t>;             // a buffer at the peer, see Transport::expose
using ChunkNumber = Number<struct ChunkNumberTag, std::uint64_t>;      // running number of a chunk on one shard
using Sequence = std::uint64_t;                                        // number of a collective in its communicator
using Incarnation = std::uint64_t;                                     // one life of a process: larger = newer

// (coordinator term 12 bits, count 20 bits), as in the header. Compared as one integer: a later term beats any count.
struct Epoch {
  std::uint32_t value = 0;
  constexpr Epoch() = default;
  constexpr explicit Epoch(std::uint32_t v) : value(v) {}
  constexpr Epoch(std::uint32_t term, std::uint32_t count) : value(term << 20 | (count & 0xFFFFF)) {}
  constexpr std::uint32_t term() const { return value >> 20; }
  constexpr std::uint32_t count() const { return value & 0xFFFFF; }
  constexpr auto operator<=>(const Epoch&) const = default;
};

using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;

}  // namespace redsum

template <typename Tag, typename Rep>
struct std::hash<redsum::Number<Tag, Rep>> {
  std::size_t operator()(redsum::Number<Tag, Rep> n) const noexcept { return std::hash<Rep>{}(n.value); }
};
