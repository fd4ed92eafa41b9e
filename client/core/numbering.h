// SPDX-License-Identifier: Apache-2.0
// Where numbers go. Numbers of a communicator run 0, 1, 2 ...; number i goes to shard schedule[i mod L], and there it
// is that shard's local number. A window is kept per shard on local numbers, so progress there is one integer: results
// held.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace redsum::client {

class ShardMap {
 public:
  ShardMap() = default;
  // `schedule` lists shard indices below `shards`, each at least once (wire::make_schedule).
  ShardMap(std::span<const std::uint16_t> schedule, std::size_t shards);

  std::size_t shards() const { return entries_.size(); }
  std::size_t round() const { return schedule_.size(); }
  std::uint16_t shard_of(std::uint64_t number) const { return schedule_[number % schedule_.size()]; }
  // The communicator's number that is `local` on `shard`.
  std::uint64_t global(std::size_t shard, std::uint64_t local) const {
    const std::vector<std::uint32_t>& entries = entries_[shard];
    return local / entries.size() * schedule_.size() + entries[local % entries.size()];
  }

 private:
  std::vector<std::uint16_t> schedule_;
  std::vector<std::vector<std::uint32_t>> entries_;  // by shard: its positions in a round
};

}  // namespace redsum::client
