// SPDX-License-Identifier: Apache-2.0
// Reducers that come into a running job: their lanes are opened beside the calls that run, and taken by the epoch that
// begins with them.
#include <algorithm>
#include <utility>

#include "client/job.h"

namespace redsum::client {
namespace {

constexpr DurationNs kDialFor = 5 * kSecond;

}  // namespace

wire::Hello Job::lane_hello(const wire::ReducerInfo& reducer, std::uint16_t shard) const {
  wire::Hello hello;
  hello.purpose = wire::Purpose::lane;
  hello.job = options_.job_id;
  hello.rank = membership_->rank;
  hello.incarnation = incarnation_;
  hello.shard = shard;
  hello.target_instance = reducer.instance;
  return hello;
}

void Job::handle(const wire::Recruit& message) {
  const auto named = [&](Incarnation instance) {
    return std::any_of(message.reducers.begin(), message.reducers.end(),
                       [&](const wire::ReducerInfo& reducer) { return reducer.instance == instance; });
  };
  std::erase_if(candidates_, [&](const auto& one) { return !named(one.first); });
  for (const wire::ReducerInfo& reducer : message.reducers)
    if (!candidates_.contains(reducer.instance)) dial_candidate(reducer);
}

void Job::dial_candidate(const wire::ReducerInfo& reducer) {
  const std::uint64_t attempt = ++attempts_;
  candidates_[reducer.instance] = {reducer, attempt, {}};
  for (std::uint16_t shard = 0; shard < reducer.shards; ++shard)
    dialer_->dial(reducer.address, lane_hello(reducer, shard), lane_key_, monotonic_now() + kDialFor,
                  [this, attempt, shard, instance = reducer.instance](Result<std::unique_ptr<transport::Link>> link) {
                    on_candidate_lane(instance, attempt, shard, std::move(link));
                  });
}

void Job::on_candidate_lane(Incarnation instance, std::uint64_t attempt, std::uint16_t shard,
                            Result<std::unique_ptr<transport::Link>> link) {
  const auto found = candidates_.find(instance);
  if (found == candidates_.end() || found->second.attempt != attempt) return;  // it is wanted no more
  Candidate& candidate = found->second;
  if (!link) {
    send(wire::Recruited{instance, link.error().code(), link.error().text()});
    candidates_.erase(found);
    return;
  }
  candidate.lanes.push_back({instance, shard, std::move(*link)});
  if (candidate.lanes.size() == candidate.reducer.shards) send(wire::Recruited{instance, Code::ok, ""});
}

// No reducer of the pool is left. That the own one registers is the answer.
void Job::bring_reducer() {
  if (own_reducer_) return;
  if (const Status status = start_reducer(); !status) send(wire::Brought{status.code(), status.text()});
}

void Job::handle(const wire::Commit& message) {
  tell(REDSUM_REDUCERS_CHANGED, "epoch " + std::to_string(message.epoch.count()) + " with " +
                                    std::to_string(message.reducers.size()) + " reducers");
  set_pool(message.epoch, message.reducers);
  auto lanes = std::make_shared<std::vector<ProgressAgent::NewLane>>();
  for (const wire::ReducerInfo& reducer : message.reducers) {
    auto candidate = candidates_.extract(reducer.instance);
    if (candidate.empty()) continue;
    for (ProgressAgent::NewLane& lane : candidate.mapped().lanes) lanes->push_back(std::move(lane));
  }
  progress_thread_.loop().post([this, message, lanes] { worker_.progress.commit(message, std::move(*lanes)); });
}

}  // namespace redsum::client
