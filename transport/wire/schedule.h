// SPDX-License-Identifier: Apache-2.0
// Which shard sums which chunk: number i of a communicator goes to entry i mod L of the schedule, the smooth weighted
// round-robin of the shards. Every member computes the same schedule from the epoch record without talking.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace redsum::wire {

inline constexpr std::uint32_t kMaxWeight = 64;  // of one shard; bounds the schedule's length

// weights[i] >= 1 is shard i's share. Returns shard indices; every shard i stands weights[i] times in it. Equal weights
// give 0,1,..,n-1 when the caller lists the shards of different reducers alternately (first shards first).
std::vector<std::uint16_t> make_schedule(std::span<const std::uint32_t> weights);

}  // namespace redsum::wire
