// SPDX-License-Identifier: Apache-2.0
#include "server/shard_agent.h"

#include <algorithm>
#include <cstring>

#include "kernels/nonfinite.h"
#include "transport/base/check.h"
#include "transport/base/log.h"
#include "transport/base/mutant.h"

namespace redsum::server {
namespace {

constexpr DurationNs kFoldBudget = 100 * kMicrosecond;  // between two polls of the transport
constexpr std::size_t kFoldStepBytes = 256 * 1024;      // of all inputs together: some 20-50 us

// A place takes the scale prefix and a chunk.
std::size_t place_stride(std::uint32_t chunk_bytes) noexcept {
  return transport::place_stride(chunk_bytes + wire::kScalePrefixBytes);
}

}  // namespace

std::uint64_t reservation_bytes(std::uint32_t members, const wire::JobSettings& settings) noexcept {
  // Small places are as far apart as bulk ones, but only their first small_bytes are ever touched: count those, rounded
  // to pages at both ends.
  constexpr std::uint64_t kPages = 2 * 4096;
  const std::uint64_t bulk = place_stride(settings.chunk_bytes);
  const std::uint64_t small = std::min<std::uint64_t>(bulk, place_stride(settings.small_bytes) + kPages);
  return (std::uint64_t{members} + 2) * (settings.window * bulk + settings.small_window * small) + kPages;
}

std::byte* ShardAgent::Communicator::staging(std::size_t member, std::size_t place) const {
  return memory.data() + (member * places + place) * stride + wire::kHeaderBytes;
}

std::byte* ShardAgent::Communicator::result(std::size_t place, std::uint8_t buffer) const {
  return memory.data() + ((members.size() + buffer) * places + place) * stride + wire::kHeaderBytes;
}

void ShardAgent::FoldQueue::pop() {
  if (++head == tasks.size()) {
    tasks.clear();
    head = 0;
  }
}

void ShardAgent::FoldQueue::forget(const Communicator* communicator) {
  tasks.erase(tasks.begin(), tasks.begin() + static_cast<std::ptrdiff_t>(head));
  head = 0;
  std::erase_if(tasks, [&](const FoldTask& task) { return task.communicator == communicator; });
}

ShardAgent::ShardAgent(Clock clock, OnDisagreement on_disagreement, DurationNs idle_release)
    : clock_(std::move(clock)), on_disagreement_(std::move(on_disagreement)), idle_release_(idle_release) {}

void ShardAgent::open_job(const std::string& name, const wire::EpochRecord& record) {
  close_job(name);
  auto job = std::make_unique<Job>();
  job->name = name;
  job->record = record;
  job->lanes.resize(record.workers.size());
  jobs_[name] = std::move(job);
}

Status ShardAgent::open_communicator(const std::string& name, CommunicatorId id,
                                     const std::vector<std::uint32_t>& members) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return {Code::closed, "job '" + name + "' is not open on this reducer"};
  Job& job = *found->second;
  for (const std::uint32_t rank : members)
    if (rank >= job.lanes.size())
      return {Code::protocol_error, "communicator " + std::to_string(id.value) + " of job '" + name + "' names rank " +
                                        std::to_string(rank) + " of " + std::to_string(job.lanes.size())};
  if (job.communicators.contains(id))
    return {Code::protocol_error,
            "communicator " + std::to_string(id.value) + " of job '" + name + "' is open already"};

  const wire::JobSettings& settings = job.record.settings;
  auto communicator = std::make_unique<Communicator>();
  communicator->job = &job;
  communicator->id = id;
  communicator->members = members;
  communicator->stride = place_stride(settings.chunk_bytes);
  communicator->places = std::size_t{settings.window} + settings.small_window;
  auto memory = Region::reserve((members.size() + 2) * communicator->places * communicator->stride);
  if (!memory) return memory.error();
  communicator->memory = std::move(*memory);
  communicator->board = core_.open(static_cast<std::uint32_t>(members.size()), settings, job.record.epoch);
  if (boards_.size() <= communicator->board.value) boards_.resize(communicator->board.value + 1);
  boards_[communicator->board.value] = communicator.get();

  Communicator& opened = *(job.communicators[id] = std::move(communicator));
  for (const std::uint32_t rank : opened.members)
    if (job.lanes[rank].open) expose(job, rank, opened);
  return {};
}

void ShardAgent::expose(Job& job, std::uint32_t rank, Communicator& communicator) {
  const auto at = std::find(communicator.members.begin(), communicator.members.end(), rank);
  if (at == communicator.members.end()) return;
  const auto member = static_cast<std::size_t>(at - communicator.members.begin());
  const transport::LaneId lane = job.lanes[rank].id;
  lanes_[lane].routes.push_back({communicator.id, &communicator, Rank(static_cast<std::uint32_t>(member))});
  transport_->expose(
      lane, communicator.id,
      {communicator.staging(member, 0), communicator.stride, job.record.settings.chunk_bytes + wire::kScalePrefixBytes,
       static_cast<std::uint16_t>(communicator.places)});
}

void ShardAgent::hide(Communicator& communicator) {
  Job& job = *communicator.job;
  for (const std::uint32_t rank : communicator.members) {
    if (!job.lanes[rank].open) continue;
    const transport::LaneId lane = job.lanes[rank].id;
    transport_->hide(lane, communicator.id);
    std::erase_if(lanes_[lane].routes, [&](const Route& route) { return route.communicator == &communicator; });
  }
  small_.forget(&communicator);
  bulk_.forget(&communicator);
}

void ShardAgent::enter(const std::string& name, Epoch epoch) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  job.record.epoch = epoch;
  for (auto& [id, communicator] : job.communicators) {
    hide(*communicator);
    core_.enter(communicator->board, epoch);
    communicator->disagreed = false;
    for (const std::uint32_t rank : communicator->members)
      if (job.lanes[rank].open) expose(job, rank, *communicator);
  }
}

void ShardAgent::close(Communicator& communicator) {
  hide(communicator);
  core_.close(communicator.board);
  boards_[communicator.board.value] = nullptr;
}

void ShardAgent::close_communicator(const std::string& name, CommunicatorId id) {
  const auto job = jobs_.find(name);
  if (job == jobs_.end()) return;
  const auto communicator = job->second->communicators.find(id);
  if (communicator == job->second->communicators.end()) return;
  close(*communicator->second);
  job->second->communicators.erase(communicator);
}

void ShardAgent::close_job(const std::string& name) {
  const auto found = jobs_.find(name);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  for (auto& [id, communicator] : job.communicators) close(*communicator);
  for (Lane& lane : job.lanes) {
    if (!lane.open) continue;
    transport_->close(lane.id);
    lanes_.erase(lane.id);
  }
  last_state_ = nullptr;
  jobs_.erase(found);
}

void ShardAgent::adopt(std::unique_ptr<transport::Link> link) {
  const wire::Hello hello = link->hello();
  const auto found = jobs_.find(hello.job);
  if (found == jobs_.end()) return;
  Job& job = *found->second;
  if (hello.rank >= job.lanes.size() || job.record.workers[hello.rank].incarnation != hello.incarnation) {
    log::info("a lane of job '" + hello.job + "' for rank " + std::to_string(hello.rank) + " from " +
              link->peer_address() + " is not of this epoch; closed");
    return;
  }
  Lane& lane = job.lanes[hello.rank];
  if (lane.open) end_lane(lane.id, {Code::stale, "a newer lane of the same worker took its place"});
  lane = {transport_->adopt(std::move(link)), hello.incarnation, true};
  lanes_[lane.id] = {&job, hello.rank, {}};
  last_state_ = nullptr;
  for (auto& [id, communicator] : job.communicators) expose(job, hello.rank, *communicator);
}

void ShardAgent::end_lane(transport::LaneId id, const Status& why) {
  const auto found = lanes_.find(id);
  if (found == lanes_.end()) return;
  const LaneState& state = found->second;
  log::info("lane of job '" + state.job->name + "' to rank " + std::to_string(state.rank) +
            " ended: " + why.to_string());
  state.job->lanes[state.rank].open = false;
  transport_->close(id);
  lanes_.erase(found);
  last_state_ = nullptr;
  ++counters_.lanes_lost;
}

void ShardAgent::on_lane_lost(transport::LaneId lane, const Status& why) {
  counters_.protocol_errors += why.code() == Code::protocol_error;
  end_lane(lane, why);
}

void ShardAgent::on_arrival(transport::LaneId lane, const wire::Header& header, Bytes) {
  if (!last_state_ || last_lane_ != lane) {
    const auto found = lanes_.find(lane);
    if (found == lanes_.end()) return;
    last_lane_ = lane;
    last_state_ = &found->second;
  }
  for (const Route& route : last_state_->routes) {
    if (route.id.value != header.communicator) continue;
    Communicator& communicator = *route.communicator;
    if (!communicator.touched) next_release_ = std::min(next_release_, clock_() + idle_release_);
    communicator.touched = true;
    const Status status = core_.on_arrival(route.communicator->board, route.rank, header, clock_(), effects_);
    if (!status) {
      ++counters_.protocol_errors;
      log::warn("job '" + last_state_->job->name + "', " + transport_->peer_address(lane) + ": " + status.to_string());
      end_lane(lane, status);
    }
    take_effects(communicator);
    return;
  }
}

void ShardAgent::take_effects(Communicator& communicator) {
  for (const Fold& fold : effects_.folds) {
    FoldQueue& queue = fold.like.has(wire::kFlagSmall) ? small_ : bulk_;
    queue.tasks.push_back({fold, &communicator, 0, 0});
    counters_.skew_seconds.add(core_.last_skew_ns());
  }
  for (const Disagreement& found : effects_.disagreements) {
    ++counters_.mismatches;
    if (communicator.disagreed) continue;
    communicator.disagreed = true;
    log::info("job '" + communicator.job->name + "', communicator " + std::to_string(communicator.id.value) +
              ": ranks " + std::to_string(found.first.value) + " and " + std::to_string(found.second.value) +
              " differ in " + found.field + " of call " + std::to_string(found.sequence));
    on_disagreement_({communicator.job->name, communicator.id.value, found.sequence, communicator.job->record.epoch});
  }
  for (const ResultSend& send : effects_.sends) {
    const Lane& lane = communicator.job->lanes[communicator.members[send.to.value]];
    if (!lane.open) continue;
    transport_->deposit(lane.id, send.header,
                        {communicator.result(send.place.value, send.buffer), send.header.payload_bytes});
  }
  effects_.clear();
}

bool ShardAgent::fold_step(FoldTask& task) {
  const Fold& fold = task.fold;
  const Communicator& communicator = *task.communicator;
  const std::size_t prefix = fold.like.has(wire::kFlagScaled) && fold.like.payload_bytes ? wire::kScalePrefixBytes : 0;
  const std::size_t element = dtype_bytes(fold.like.dtype);
  const std::size_t count = (fold.like.payload_bytes - prefix) / element;
  if (count == 0) return true;
  std::byte* out = communicator.result(fold.place.value, fold.buffer);
  if (fold.only) {
    std::memcpy(out, communicator.staging(fold.only->value, fold.place.value) + prefix, count * element);
    return true;
  }
  const std::size_t members = communicator.members.size();
  const std::size_t step = std::min(count - task.done, std::max<std::size_t>(kFoldStepBytes / (element * members), 64));
  kernels::FoldSpec spec{fold.like.dtype, fold.like.op, fold.contributors};
  if (prefix) {
    const std::byte* scales = communicator.staging(0, fold.place.value);
    std::memcpy(&spec.prescale, scales, sizeof(double));
    std::memcpy(&spec.postscale, scales + sizeof(double), sizeof(double));
  }
  inputs_.resize(members);
  for (std::size_t member = 0; member < members; ++member)
    inputs_[mutant("wrong_fold_order") ? members - 1 - member : member] =
        communicator.staging(member, fold.place.value) + prefix + task.done * element;
  count_nonfinite(task, kernels::fold_counting(spec, out + task.done * element, inputs_, step));
  task.done += step;
  return task.done == count;
}

void ShardAgent::count_nonfinite(FoldTask& task, std::uint64_t elements) {
  if (elements == 0) return;
  task.fold.nonfinite = true;
  task.communicator->nonfinite += elements;
  counters_.nonfinite += elements;
}

void ShardAgent::finish(const FoldTask& task) {
  Communicator& communicator = *task.communicator;
  const std::uint64_t bytes = std::uint64_t{task.fold.like.payload_bytes} * task.fold.contributors;
  ++counters_.chunks_reduced;
  counters_.bytes_reduced += bytes;
  ++communicator.chunks_reduced;
  communicator.bytes_reduced += bytes;
  const TimeNs now = clock_();
  communicator.last_use = now;
  counters_.fold_seconds.add(now - task.begun);
  core_.on_folded(task.fold, effects_);
  take_effects(communicator);
}

std::size_t ShardAgent::do_work(TimeNs begun) {
  if (begun >= next_release_) release_idle(begun);
  std::size_t steps = 0;
  while (!small_.empty() || !bulk_.empty()) {
    FoldQueue& queue = small_.empty() ? bulk_ : small_;
    FoldTask& task = queue.front();
    const TimeNs now = clock_();
    if (task.begun == 0) task.begun = now;
    ++steps;
    if (fold_step(task)) {
      const FoldTask done = task;
      queue.pop();
      finish(done);
    }
    if (now - begun > kFoldBudget) break;
  }
  return steps;
}

void ShardAgent::release_idle(TimeNs now) {
  next_release_ = kNever;
  for (auto& [name, job] : jobs_) {
    for (auto& [id, communicator] : job->communicators) {
      if (!communicator->touched) continue;
      const bool idle = core_.slots_in_use(communicator->board) == 0 && now - communicator->last_use >= idle_release_;
      const bool untouched = std::all_of(job->lanes.begin(), job->lanes.end(), [&](const Lane& lane) {
        return !lane.open || (transport_->drained(lane.id) && !transport_->landing(lane.id));
      });
      if (idle && untouched) {
        communicator->memory.give_back();
        communicator->touched = false;
      } else {
        const TimeNs again = idle ? now + kSecond : std::max(communicator->last_use + idle_release_, now + kSecond);
        next_release_ = std::min(next_release_, again);
      }
    }
  }
}

std::vector<JobOnReducer> ShardAgent::jobs() const {
  constexpr std::size_t kSlowest = 8;
  std::vector<JobOnReducer> result;
  for (const auto& [name, job] : jobs_) {
    JobOnReducer entry;
    entry.job = name;
    entry.world_size = static_cast<std::uint32_t>(job->lanes.size());
    for (const Lane& lane : job->lanes) entry.lanes_open += lane.open;
    entry.communicators = static_cast<std::uint32_t>(job->communicators.size());
    std::vector<RankLag> lag(job->lanes.size());
    for (const auto& [id, communicator] : job->communicators) {
      entry.reserved_bytes +=
          reservation_bytes(static_cast<std::uint32_t>(communicator->members.size()), job->record.settings);
      entry.slots_in_use += core_.slots_in_use(communicator->board);
      entry.chunks_reduced += communicator->chunks_reduced;
      entry.bytes_reduced += communicator->bytes_reduced;
      entry.nonfinite += communicator->nonfinite;
      const auto& lateness = core_.lateness(communicator->board);
      for (std::size_t member = 0; member < lateness.size(); ++member) {
        RankLag& rank = lag[communicator->members[member]];
        rank.rank = communicator->members[member];
        rank.last_arrivals += lateness[member].last_arrivals;
        rank.lag_seconds += static_cast<double>(lateness[member].lag_ns) * 1e-9;
      }
    }
    std::sort(lag.begin(), lag.end(), [](const RankLag& a, const RankLag& b) { return a.lag_seconds > b.lag_seconds; });
    if (lag.size() > kSlowest) lag.resize(kSlowest);
    entry.slowest = std::move(lag);
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace redsum::server
