// SPDX-License-Identifier: Apache-2.0
#include "client/core/numbering.h"

namespace redsum::client {

ShardMap::ShardMap(std::span<const std::uint16_t> schedule, std::size_t shards)
    : schedule_(schedule.begin(), schedule.end()), entries_(shards) {
  for (std::uint32_t at = 0; at < schedule_.size(); ++at) entries_[schedule_[at]].push_back(at);
}

}  // namespace redsum::client
