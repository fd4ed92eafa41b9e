// SPDX-License-Identifier: Apache-2.0
// The workers of a job change: this one asks for the next membership, and enters it as it entered the first.
#include <algorithm>
#include <numeric>
#include <utility>

#include "client/job.h"

namespace redsum::client {

std::shared_ptr<const Membership> Job::membership() const {
  std::lock_guard lock(membership_mutex_);
  return membership_;
}

void Job::on_change(Changed changed) {
  std::lock_guard lock(changed_mutex_);
  changed_ = std::move(changed);
}

void Job::tell(redsum_membership_event event, const std::string& text) const {
  Changed changed;
  {
    std::lock_guard lock(changed_mutex_);
    changed = changed_;
  }
  if (changed) changed(event, text);
}

Result<std::shared_ptr<const Membership>> Job::resume(Sequence sequence, bool admit) {
  const TimeNs limit = monotonic_now() + options_.connect_timeout;
  for (;;) {
    auto done = std::make_shared<std::promise<Status>>();
    auto future = done->get_future();
    loop_.post([=, this] { ask({sequence, admit}, limit, done); });
    const Status status = future.get();
    if (status) return membership();
    // Another one was lost on the way: those that are left try again.
    const bool lost = status.code() == Code::peer_lost || status.code() == Code::reducer_lost;
    if (admit || !lost || monotonic_now() >= limit) return failure(status);
  }
}

void Job::ask(wire::Resume request, TimeNs limit, std::shared_ptr<std::promise<Status>> done) {
  if (!connection_ && world_failure_.code() == Code::stale) return done->set_value(world_failure_);
  if (!connection_) return done->set_value({Code::closed, "the job has ended: the coordinator is gone"});
  if (joining_) return done->set_value({Code::invalid_argument, "this worker resumes or admits already"});
  if (request.admit && !world_failure_) return done->set_value(world_failure_);
  joining_ = true;
  admits_ = request.admit;
  awaits_members_ = true;
  joined_ = std::move(done);
  links_.clear();
  deadline_ = limit;
  request.limit_ms = static_cast<std::uint32_t>(
      std::clamp<DurationNs>((limit - monotonic_now()) / kMillisecond, 1, DurationNs{1} << 30));
  send(request);
}

void Job::handle(const wire::Resumed& message) {
  if (awaits_members_) finish_join({message.code, message.text});
}

void Job::handle(const wire::Applicants& message) {
  waiting_ = message.count;
  if (message.count == 0) return;
  tell(REDSUM_WORKERS_WAIT,
       std::to_string(message.count) + (message.count == 1 ? " worker waits" : " workers wait") + " to be taken in");
}

// True: the failure is of the membership that ends anyway, the next one is waited for.
bool Job::outlives(const wire::Fail& message) const {
  return awaits_members_ && !admits_ && message.code != Code::stale;
}

// The first membership of the job, or the next one.
void Job::handle(const wire::Joined& message) {
  if (!joining_ || !links_.empty()) return;
  const auto& workers = message.record.workers;
  const auto own = std::find_if(workers.begin(), workers.end(),
                                [&](const wire::WorkerInfo& worker) { return worker.incarnation == incarnation_; });
  if (own == workers.end())
    return finish_join({Code::protocol_error, "the coordinator has formed the job without this worker"});
  auto next = std::make_shared<const Membership>(Membership{message.record, own->rank});
  {
    std::lock_guard lock(membership_mutex_);
    membership_ = next;
  }
  awaits_members_ = ended_ = false;
  {
    std::lock_guard lock(over_mutex_);
    over_ = false;
  }
  waiting_ = 0;
  world_failure_ = {};
  candidates_.clear();
  while (!creations_.empty())
    finish_create(creations_.begin()->first, failure(Code::closed, "the workers of the job change"));
  progress_thread_.loop().post([this, began = message.record.epoch] {
    worker_.progress.leave_membership({Code::closed, "the workers of the job have changed"});
    std::lock_guard lock(closed_mutex_);
    closed_.clear();
    any_closed_.store(false, std::memory_order_release);
    began_.store(began.value, std::memory_order_release);
  });
  open_lanes(*next);
}

void Job::open_lanes(const Membership& membership) {
  const wire::EpochRecord& record = membership.record;
  set_pool(record.epoch, record.reducers);
  lane_key_ = wire::lane_key(options_.pool_key, options_.job_id, record.lane_nonce);
  shards_ = shard_order(record.reducers);
  if (shards_.empty() && record.settings.mode != wire::Mode::ring)
    return finish_join({Code::reducer_lost, "the coordinator named no reducer for the job"});
  if (peers_) peers_->open(record, membership.rank, lane_key_);
  opening_ = ++attempts_;
  if (shards_.empty()) return start_data_path();
  links_.resize(shards_.size());
  links_missing_ = shards_.size();
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) open_lane(shard);
}

void Job::open_lane(std::size_t shard) {
  const ShardAddress at = shards_[shard];
  const wire::ReducerInfo reducer = membership_->record.reducers[at.reducer];
  dialer_->dial(reducer.address, lane_hello(reducer, at.shard), lane_key_, deadline_,
                [this, shard, reducer, attempt = opening_](Result<std::unique_ptr<transport::Link>> link) {
                  if (attempt == opening_ && joining_) on_lane(shard, reducer, std::move(link));
                });
}

void Job::on_lane(std::size_t shard, const wire::ReducerInfo& reducer, Result<std::unique_ptr<transport::Link>> link) {
  if (!link)
    return finish_join(
        {link.error().code() == Code::timeout ? Code::reducer_lost : link.error().code(),
         "cannot open a lane to reducer " + reducer.name + " (" + reducer.address + "): " + link.error().text()});
  links_[shard] = std::move(*link);
  if (--links_missing_ == 0) start_data_path();
}

void Job::start_data_path() {
  auto links = std::make_shared<std::vector<std::unique_ptr<transport::Link>>>(std::exchange(links_, {}));
  progress_thread_.loop().post([this, links, membership = membership_, attempt = opening_] {
    ProgressAgent& progress = worker_.progress;
    progress.enter(membership->record);
    for (std::size_t shard = 0; shard < links->size(); ++shard) progress.adopt(shard, std::move((*links)[shard]));
    std::vector<std::uint32_t> everybody(membership->record.workers.size());
    std::iota(everybody.begin(), everybody.end(), 0u);
    const Status status = progress.open_communicator(CommunicatorId(0), Rank(membership->rank), std::move(everybody));
    loop_.post([this, status, attempt] {
      if (attempt != opening_ || !joining_) return;
      if (status) send(wire::Ready{});
      finish_join(status);
    });
  });
}

void Job::finish_join(const Status& status) {
  if (!joining_) return;
  joining_ = awaits_members_ = false;
  joined_->set_value(status);
}

}  // namespace redsum::client
