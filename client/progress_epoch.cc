// SPDX-License-Identifier: Apache-2.0
// Epochs at a worker: what is kept of calls for other ranks' sake, and how the reducers change under running calls.
#include <algorithm>
#include <set>
#include <utility>

#include "client/progress_agent.h"
#include "transport/base/log.h"
#include "transport/base/mutant.h"
#include "transport/wire/schedule.h"

namespace redsum::client {

// The shards of the epoch's reducers; lanes to reducers that stay are kept, the others are closed.
void ProgressAgent::adopt_pool(const wire::Commit& order, std::vector<NewLane> lanes) {
  std::map<std::pair<Incarnation, std::uint16_t>, LaneEnd> before;
  for (std::size_t shard = 0; shard < shards_.size(); ++shard)
    before[{reducers_[shards_[shard].reducer].instance, shards_[shard].shard}] = lanes_[shard];
  epoch_ = order.epoch;
  reducers_ = order.reducers;
  shards_ = shard_order(reducers_);
  std::vector<std::uint32_t> weights;
  for (const ShardAddress& shard : shards_) weights.push_back(reducers_[shard.reducer].weight);
  schedule_ = wire::make_schedule(weights);
  lanes_.assign(shards_.size(), {});
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    const auto found = before.find({reducers_[shards_[shard].reducer].instance, shards_[shard].shard});
    if (found != before.end()) lanes_[shard] = std::exchange(found->second, {});
  }
  for (const auto& [address, lane] : before)
    if (lane.open) transport_->close(lane.id);
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    if (lanes_[shard].open) continue;
    const auto found = std::find_if(lanes.begin(), lanes.end(), [&](const NewLane& lane) {
      return lane.instance == reducers_[shards_[shard].reducer].instance && lane.shard == shards_[shard].shard;
    });
    if (found != lanes.end()) lanes_[shard] = {transport_->adopt(std::move(found->link)), true};
  }
}

// Between prepare() and commit() nothing is under way, so the old memory may go.
Status ProgressAgent::place(Communicator& communicator) {
  const std::size_t bytes = 2 * shards_.size() * communicator.places * communicator.stride;
  communicator.shards = shards_.size();
  communicator.redirects.assign(shards_.size() * communicator.places, {});
  if (bytes <= communicator.memory.bytes()) return {};
  auto memory = Region::reserve(bytes);
  if (!memory) return memory.error();
  communicator.memory = std::move(*memory);
  return {};
}

void ProgressAgent::expect_loss(std::size_t shard, const Status& why) {
  if (grace_until_ != kNever) return;
  const wire::ReducerInfo& reducer = reducers_[shards_[shard].reducer];
  grace_until_ = clock_() + kLaneGrace;
  grace_error_ = {Code::reducer_lost, "the lane to reducer " + reducer.name + " (" + reducer.address + ") is lost: " +
                                          why.text() + "; check that the reducer runs and is reachable"};
  wake_at(grace_until_);
}

void ProgressAgent::expose(Communicator& communicator) {
  for (std::size_t shard = 0; shard < lanes_.size(); ++shard) {
    if (!lanes_[shard].open) continue;
    transport_->expose(
        lanes_[shard].id, communicator.id,
        {communicator.landing(shard, 0), communicator.stride, record_.settings.chunk_bytes + wire::kScalePrefixBytes,
         static_cast<std::uint16_t>(communicator.places), &communicator.redirect(shard, 0)});
  }
}

// After hide() nothing of the old epoch is sent or lands in anybody's memory.
std::vector<wire::CommunicatorProgress> ProgressAgent::prepare() {
  std::vector<wire::CommunicatorProgress> all;
  stopped_ = true;
  grace_until_ = kNever;
  for (auto& communicator : communicators_) {
    if (!communicator->core || !communicator->closed.ok()) continue;
    for (const LaneEnd& lane : lanes_)
      if (lane.open) transport_->hide(lane.id, communicator->id);
    std::fill(communicator->redirects.begin(), communicator->redirects.end(), Bytes{});
    communicator->core->stop();
    ShardProgress progress = communicator->core->progress();
    all.push_back({communicator->id.value, std::move(progress.bulk), std::move(progress.small)});
  }
  return all;
}

void ProgressAgent::commit(const wire::Commit& order, std::vector<NewLane> lanes) {
  adopt_pool(order, std::move(lanes));
  stopped_ = false;
  grace_until_ = kNever;
  for (std::size_t shard = 0; shard < lanes_.size(); ++shard)
    if (!lanes_[shard].open) {
      const Status why(Code::peer_lost, "it was lost before the epoch began");
      expect_loss(shard, why);
      reports_.on_lane_lost(reducers_[shards_[shard].reducer], why);
    }
  const TimeNs now = clock_();
  for (std::size_t i = 0; i < communicators_.size(); ++i) {
    Communicator& communicator = *communicators_[i];
    if (!communicator.core || !communicator.closed.ok()) continue;
    const auto least = std::find_if(order.least.begin(), order.least.end(),
                                    [&](const auto& one) { return one.communicator == communicator.id.value; });
    const ShardProgress below = least == order.least.end() ? ShardProgress() : ShardProgress{least->bulk, least->small};
    Status status = communicator.core->rebase(epoch_, below, schedule_, shards_.size());
    if (status) status = place(communicator);
    if (!status) {
      end(communicator, status, Origin::here);
      continue;
    }
    communicator.last_progress = now;
    std::erase_if(communicator.kept, [&, again = communicator.core->again()](const auto& one) {
      if (again.contains(one.first)) return false;
      blocks_.give(one.second.block, one.second.block_bytes);
      return true;
    });
    expose(communicator);
    pump(communicator);
  }
  log::info("epoch " + std::to_string(epoch_.count()) + " with " + std::to_string(reducers_.size()) + " reducers");
}

void ProgressAgent::retire(CommunicatorId id, const Status& pending) {
  Communicator* communicator = find(id);
  if (!communicator) return;
  const bool may_be_needed = communicator->core && communicator->core->keeps() && !mutant("gone_when_left");
  if (!may_be_needed || !communicator->closed.ok() || !communicator->calls.empty())
    return close_communicator(id, pending);
  communicator->retired = true;
}

bool ProgressAgent::may_be_needed() const {
  return std::any_of(communicators_.begin(), communicators_.end(),
                     [](const auto& one) { return one->retired && one->closed.ok(); });
}

void ProgressAgent::leave(const Status& pending, const Status& others) {
  retire(CommunicatorId(0), pending);
  for (auto& communicator : communicators_)
    if (!communicator->retired && communicator->closed.ok()) end(*communicator, others, Origin::told);
}

bool ProgressAgent::keep(Communicator& communicator, Call& call) {
  if (mutant("nothing_kept")) return true;
  for (const std::uint32_t chunk : communicator.core->unknown_chunks(call.sequence)) {
    const wire::Header header = communicator.core->contribution_of(call.sequence, chunk);
    if (header.payload_bytes == 0) continue;
    KeptChunk kept{nullptr, header.payload_bytes, header.payload_bytes};
    if (as_on_wire(call, header) && !call.backups.empty() && call.backups[chunk]) {
      kept.block = std::exchange(call.backups[chunk], nullptr);
      kept.block_bytes = call.backup_bytes;
    } else {
      kept.block = blocks_.take(kept.block_bytes);
      if (!kept.block) return false;
      const std::size_t prefix = header.has(wire::kFlagScaled) ? wire::kScalePrefixBytes : 0;
      compose(call, header, (header.payload_bytes - prefix) / dtype_bytes(header.dtype), kept.block);
    }
    communicator.kept[{call.sequence, chunk}] = kept;
  }
  return true;
}

void ProgressAgent::on_known(Communicator& communicator, const ChunkResult::Known& known) {
  const auto kept = communicator.kept.find({known.sequence, known.chunk});
  if (kept != communicator.kept.end()) {
    blocks_.give(kept->second.block, kept->second.block_bytes);
    communicator.kept.erase(kept);
    return;
  }
  // A pending call that needs no roll-back needs its copy for the others alone.
  const auto call = communicator.calls.find(known.sequence);
  if (call == communicator.calls.end() || call->second->rollback || call->second->backups.empty()) return;
  if (std::byte* block = std::exchange(call->second->backups[known.chunk], nullptr))
    blocks_.give(block, call->second->backup_bytes);
}

void ProgressAgent::drop_kept(Communicator& communicator) {
  for (const auto& [chunk, kept] : communicator.kept) blocks_.give(kept.block, kept.block_bytes);
  communicator.kept.clear();
}

}  // namespace redsum::client
