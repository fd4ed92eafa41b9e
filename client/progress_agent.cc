// SPDX-License-Identifier: Apache-2.0
#include "client/progress_agent.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "kernels/convert.h"
#include "kernels/nonfinite.h"
#include "transport/base/check.h"
#include "transport/base/log.h"
#include "transport/base/mutant.h"
#include "transport/wire/schedule.h"

namespace redsum::client {
namespace {

constexpr DurationNs kTick = 50 * kMillisecond;  // while calls are pending
constexpr DurationNs kTrimAfter = 2 * kSecond;   // of idleness, backups' memory is given back

bool is_source(const Call& call, const Tensor& tensor, Rank rank) {
  if (call.description.kind == wire::Kind::broadcast) return call.description.root == rank.value;
  return tensor.input != nullptr;  // all_gather: the own part
}

std::string seconds(DurationNs ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) * 1e-9);
  return text;
}

}  // namespace

std::vector<ShardAddress> shard_order(const std::vector<wire::ReducerInfo>& reducers) {
  std::vector<ShardAddress> order;
  std::uint16_t most = 0;
  for (const wire::ReducerInfo& reducer : reducers) most = std::max(most, reducer.shards);
  for (std::uint16_t shard = 0; shard < most; ++shard)
    for (std::size_t reducer = 0; reducer < reducers.size(); ++reducer)
      if (shard < reducers[reducer].shards) order.push_back({reducer, shard});
  return order;
}

std::optional<Rank> ProgressAgent::Communicator::rank_of(std::uint32_t of_job) const {
  const auto at = std::find(members.begin(), members.end(), of_job);
  return at == members.end() ? std::nullopt : std::optional(Rank(static_cast<std::uint32_t>(at - members.begin())));
}

std::byte* ProgressAgent::Communicator::landing(std::size_t shard, std::size_t place) const {
  return memory.data() + (shard * places + place) * stride + wire::kHeaderBytes;
}

std::byte* ProgressAgent::Communicator::staging(std::size_t shard, std::size_t place) const {
  return memory.data() + ((shards + shard) * places + place) * stride + wire::kHeaderBytes;
}

ProgressAgent::ProgressAgent(Clock clock, Reports reports) : clock_(std::move(clock)), reports_(std::move(reports)) {}

ProgressAgent::~ProgressAgent() {
  for (auto& communicator : communicators_)
    for (auto& [sequence, call] : communicator->calls) {
      roll_back(*call);
      call->complete({Code::closed, "the job was left while the call was pending"}, 0);
    }
}

void ProgressAgent::enter(const wire::EpochRecord& record) {
  record_ = record;
  adopt_pool({record.epoch, record.reducers, {}}, {});
}

void ProgressAgent::leave_membership(const Status& pending) {
  for (auto& communicator : communicators_) {
    communicator->retired = true;  // nobody is to be told
    end(*communicator, pending, Origin::told);
  }
  communicators_.clear();
  early_.clear();
  for (const LaneEnd& lane : lanes_)
    if (lane.open) transport_->close(lane.id);
  lanes_.clear();
  shards_.clear();
  reducers_.clear();
  record_ = {};
  stopped_ = false;
  grace_until_ = kNever;
}

void ProgressAgent::adopt(std::size_t shard, std::unique_ptr<transport::Link> link) {
  REDSUM_CHECK(shard < lanes_.size() && !lanes_[shard].open);
  lanes_[shard] = {transport_->adopt(std::move(link)), true};
  REDSUM_CHECK(communicators_.empty());
}

Status ProgressAgent::open_communicator(CommunicatorId id, Rank rank, std::vector<std::uint32_t> members) {
  auto communicator = std::make_unique<Communicator>();
  communicator->id = id;
  communicator->rank = rank;
  communicator->members = std::move(members);
  if (!shards_.empty()) REDSUM_RETURN_IF_ERROR(open_shards(*communicator));
  communicators_.push_back(std::move(communicator));
  auto early = std::exchange(early_, {});
  for (auto& link : early) adopt_accepted(std::move(link));
  return {};
}

Status ProgressAgent::open_shards(Communicator& communicator) {
  communicator.places = std::size_t{record_.settings.window} + record_.settings.small_window;
  communicator.stride = transport::place_stride(record_.settings.chunk_bytes + wire::kScalePrefixBytes);
  REDSUM_RETURN_IF_ERROR(place(communicator));
  const bool keeps = record_.settings.mode != wire::Mode::direct;  // there the reducers never change
  communicator.core = std::make_unique<CommunicatorCore>(communicator.id, communicator.rank,
                                                         static_cast<std::uint32_t>(communicator.members.size()),
                                                         epoch_, record_.settings, schedule_, shards_.size(), keeps);
  if (stopped_)
    communicator.core->stop();
  else
    expose(communicator);
  return {};
}

ProgressAgent::Communicator* ProgressAgent::find(CommunicatorId id) const {
  for (const auto& communicator : communicators_)
    if (communicator->id == id) return communicator.get();
  return nullptr;
}

void ProgressAgent::close_communicator(CommunicatorId id, const Status& pending) {
  std::erase_if(early_, [&](const auto& link) { return link->hello().shard == id.value; });
  Communicator* communicator = find(id);
  if (!communicator) return;
  end(*communicator, pending, Origin::told);
  std::erase_if(communicators_, [&](const auto& c) { return c.get() == communicator; });
}

// After hide() the transport touches no memory of the communicator, so inputs can be put back and handed to their
// owners.
void ProgressAgent::end(Communicator& communicator, const Status& why, Origin origin) {
  if (communicator.closed.ok()) {
    communicator.closed = why;
    if (!communicator.retired) reports_.on_closed(communicator.id, why, origin == Origin::here);
    for (const LaneEnd& lane : lanes_)
      if (lane.open && communicator.core) transport_->hide(lane.id, communicator.id);
    if (communicator.ring) communicator.ring->close();
    for (Exchange* exchange : {&communicator.exchange, &communicator.pairs})
      if (exchange->path) exchange->path->close();
    drop_kept(communicator);
  }
  auto calls = std::move(communicator.calls);
  communicator.calls.clear();
  for (auto& [sequence, call] : calls) {
    roll_back(*call);
    call->complete(why, 0);
  }
}

void ProgressAgent::fail(CommunicatorId id, const Status& why) {
  if (Communicator* communicator = find(id); communicator && communicator->closed.ok())
    end(*communicator, why, Origin::told);
}

void ProgressAgent::fail_here(CommunicatorId id, const Status& why) {
  if (Communicator* communicator = find(id); communicator && communicator->closed.ok())
    end(*communicator, why, Origin::here);
}

void ProgressAgent::fail_all(const Status& why) {
  grace_until_ = kNever;
  for (auto& communicator : communicators_)
    if (communicator->closed.ok()) end(*communicator, why, Origin::told);
}

void ProgressAgent::submit(CommunicatorId id, CallPtr call) {
  Communicator* communicator = find(id);
  if (!communicator || communicator->retired || !communicator->closed.ok()) {
    const bool failed = communicator && !communicator->closed.ok();
    call->complete(failed ? communicator->closed : Status(Code::closed, "the communicator was closed"), 0);
    return;
  }
  last_call_ = clock_();
  finite_check_.look(*call, id, communicator->rank);
  if (communicator->calls.empty()) communicator->last_progress = last_call_;
  wake_at(std::min(last_call_ + kTick, call->deadline));
  Call& pending = *call;
  communicator->calls.emplace(pending.sequence, std::move(call));
  if (wire::is_exchange(pending.description.kind)) return submit_to_exchange(*communicator, pending);
  if (pending.description.via == wire::Via::ring) return submit_to_ring(*communicator, pending);
  pending.layout = communicator->core->submit(pending.sequence, pending.description);
  pump(*communicator);
}

const wire::CallDescription* ProgressAgent::describe(CommunicatorId id, Sequence sequence) const {
  const Communicator* communicator = find(id);
  if (!communicator) return nullptr;
  const auto call = communicator->calls.find(sequence);
  return call == communicator->calls.end() ? nullptr : &call->second->description;
}

void ProgressAgent::pump(Communicator& communicator) {
  ChunkSend send;
  while (communicator.closed.ok() && communicator.core->next_send(send)) {
    const LaneEnd& lane = lanes_[send.shard];
    if (send.again) {
      const auto kept = communicator.kept.find({send.sequence, send.header.chunk});
      ConstBytes payload;
      if (kept != communicator.kept.end()) payload = {kept->second.block, kept->second.bytes};
      if (payload.size() != send.header.payload_bytes)
        return end(communicator,
                   {Code::internal, "chunk " + std::to_string(send.header.chunk) + " of call " +
                                        std::to_string(send.sequence) + " is needed again and not kept"},
                   Origin::here);
      if (lane.open) transport_->deposit(lane.id, send.header, payload);
      continue;
    }
    Call& call = *communicator.calls.find(send.sequence)->second;
    const Backup backup = backup_of(communicator, call, send);
    const bool as_it_lies =
        as_on_wire(call, send.header) && contiguous_input(call, send.header.element_offset, send.elements);
    bool kept = backup.elements == 0 || as_it_lies || keep_backup(call, send.header.chunk, backup);
    const ConstBytes payload = payload_of(communicator, call, send);
    redirect(communicator, call, send);
    if (lane.open) transport_->deposit(lane.id, send.header, payload);
    if (backup.elements != 0 && as_it_lies) kept = keep_backup(call, send.header.chunk, backup);
    if (!kept) return end(communicator, no_backup(send.sequence), Origin::here);
  }
}

// Where the payload of a chunk is sent from: the user's memory, the roll-back copy, or staging; in this order of
// cheapness.
ConstBytes ProgressAgent::payload_of(Communicator& communicator, Call& call, const ChunkSend& send) {
  const wire::Header& header = send.header;
  if (send.elements == 0) return {};
  if (as_on_wire(call, header) && !send.have) {
    if (!call.backups.empty() && call.backups[header.chunk]) return {call.backups[header.chunk], header.payload_bytes};
    if (const std::byte* input = contiguous_input(call, header.element_offset, send.elements))
      return {input, header.payload_bytes};
  }
  std::byte* staging = communicator.staging(send.shard, mutant("staging_shared") ? 0 : header.place);
  compose(call, header, send.elements, staging);
  return {staging, header.payload_bytes};
}

// A payload as it goes out: the scales if it has any, then the elements in the wire type.
void ProgressAgent::compose(const Call& call, const wire::Header& header, std::uint64_t elements, std::byte* to) {
  const wire::CallDescription& description = call.description;
  if (header.has(wire::kFlagScaled)) {
    std::memcpy(to, &description.prescale, sizeof(double));
    std::memcpy(to + sizeof(double), &description.postscale, sizeof(double));
    to += wire::kScalePrefixBytes;
  }
  // In place, a result may lie where the input was.
  const std::byte* backup = call.backups.empty() ? nullptr : call.backups[header.chunk];
  if (backup)
    kernels::convert(description.wire_dtype, to, description.dtype, backup, elements);
  else
    gather(call, header.element_offset, elements, description.wire_dtype, to);
}

// Where a result is wanted as it is on the wire and in one piece, the transport may put it there itself.
void ProgressAgent::redirect(Communicator& communicator, const Call& call, const ChunkSend& send) {
  if (send.result_elements == 0 || call.description.wire_dtype != call.description.dtype) return;
  if (std::byte* output = contiguous_output(call, send.header.element_offset, send.result_elements))
    communicator.redirect(send.shard, send.header.place) = {output,
                                                            send.result_elements * dtype_bytes(call.description.dtype)};
}

void ProgressAgent::on_arrival(transport::LaneId lane, const wire::Header& header, Bytes payload) {
  Communicator* communicator = find(CommunicatorId(header.communicator));
  if (!communicator || !communicator->closed.ok() || ring_arrival(*communicator, lane, header, payload) ||
      exchange_arrival(*communicator, lane, header, payload))
    return;
  std::size_t shard = 0;
  while (shard < lanes_.size() && !(lanes_[shard].open && lanes_[shard].id == lane)) ++shard;
  if (shard == lanes_.size()) return;
  if (header.epoch < communicator->core->epoch().value) return;  // of an epoch that has ended
  const auto result = communicator->core->on_result(static_cast<std::uint16_t>(shard), header);
  if (!result) {
    transport_->close(lane);
    on_lane_lost(lane, result.error());
    return;
  }
  communicator->last_progress = clock_();
  Bytes& redirect = communicator->redirect(shard, header.place);
  const Bytes redirected = redirect;
  if (!mutant("redirect_kept")) redirect = {};
  if (result->elements != 0 && (redirected.empty() || redirected.data() != payload.data()))
    deliver(*communicator, *result, payload.data());
  if (header.has(wire::kFlagNonFinite) && result->elements != 0)
    nonfinite_results_ += kernels::count_nonfinite(
        communicator->calls.find(result->sequence)->second->description.wire_dtype, payload.data(), result->elements);
  if (result->call_complete && communicator->core->keeps() &&
      !keep(*communicator, *communicator->calls.find(result->sequence)->second))
    return end(*communicator, no_backup(result->sequence), Origin::here);
  if (result->call_complete) finish(*communicator, result->sequence);
  if (result->known) on_known(*communicator, *result->known);
  pump(*communicator);
  if (result->call_complete && communicator->ring) pump_ring(*communicator);
}

void ProgressAgent::deliver(Communicator& communicator, const ChunkResult& result, const std::byte* payload) {
  Call& call = *communicator.calls.find(result.sequence)->second;
  scatter(call, result.element_offset, result.elements, call.description.wire_dtype, payload);
}

void ProgressAgent::finish(Communicator& communicator, Sequence sequence) {
  const auto found = communicator.calls.find(sequence);
  const CallPtr call = std::move(found->second);
  communicator.calls.erase(found);
  drop_backups(*call);
  const wire::CallDescription& description = call->description;
  // Who spreads its data gets no payload back; where it wants it in other memory, that is a local copy.
  if (wire::has_one_source(description.kind))
    for (const Tensor& tensor : call->tensors)
      if (is_source(*call, tensor, communicator.rank) && tensor.output && tensor.output != tensor.input)
        std::memcpy(tensor.output, tensor.input, tensor.count * dtype_bytes(description.dtype));
  const bool of_two = description.kind == wire::Kind::send;
  call->complete({}, of_two ? 2u : static_cast<std::uint32_t>(communicator.members.size()), epoch_);
}

void ProgressAgent::on_lane_lost(transport::LaneId lane, const Status& why) {
  if (ring_lane_lost(lane, why) || exchange_lane_lost(lane, why)) return;
  for (std::size_t shard = 0; shard < lanes_.size(); ++shard) {
    if (!lanes_[shard].open || lanes_[shard].id != lane) continue;
    lanes_[shard].open = false;
    const wire::ReducerInfo& reducer = reducers_[shards_[shard].reducer];
    log::info("the lane to shard " + std::to_string(shards_[shard].shard) + " of reducer " + reducer.name + " (" +
              reducer.address + ") is lost: " + why.to_string());
    reports_.on_lane_lost(reducer, why);
    expect_loss(shard, why);
  }
}

void ProgressAgent::on_stalled(const wire::Stalled& stalled) {
  Communicator* communicator = find(CommunicatorId(stalled.communicator));
  if (!communicator) return;
  communicator->stalled_sequence = stalled.sequence;
  communicator->missing = stalled.missing;
  communicator->missing_count = stalled.missing_count;
}

bool ProgressAgent::busy() const {
  return std::any_of(communicators_.begin(), communicators_.end(), [](const auto& c) { return !c->calls.empty(); });
}

void ProgressAgent::tick(TimeNs now) {
  if (rings_) settle_rings();
  if (exchanges_) settle_exchanges();
  if (now < next_tick_) return;
  next_tick_ = kNever;
  if (now >= grace_until_) fail_all(grace_error_);
  for (auto& communicator : communicators_) {
    check_ring(*communicator, now);
    check_exchanges(*communicator, now);
    check_deadlines(*communicator, now);
  }
  if (grace_until_ != kNever) wake_at(grace_until_);
  if (busy()) {
    wake_at(now + kTick);
  } else if (now - last_call_ >= kTrimAfter) {
    blocks_.trim();
  } else {
    wake_at(last_call_ + kTrimAfter);
  }
}

Status ProgressAgent::timeout_error(const Communicator& communicator, const Call& call, TimeNs now) const {
  std::string text = call.name() + " is not complete after " + seconds(now - call.submitted) +
                     "; operation_timeout is " + seconds(call.timeout);
  if (wire::is_exchange(call.description.kind))
    return {Code::timeout, text + exchange_of(communicator, call.description.kind).path->waits_for(call.sequence)};
  if (communicator.stalled_sequence == call.sequence && communicator.missing_count != 0) {
    text += "; ranks that have not submitted it:" + ranks_text(communicator.missing, communicator.missing_count);
  }
  return {Code::timeout, text};
}

void ProgressAgent::check_deadlines(Communicator& communicator, TimeNs now) {
  if (communicator.calls.empty()) return;
  for (const auto& [sequence, call] : communicator.calls) {
    if (now >= call->deadline) {
      end(communicator, timeout_error(communicator, *call, now), Origin::here);
      return;
    }
    wake_at(call->deadline);
  }
  const auto& [oldest, call] = *communicator.calls.begin();
  const TimeNs since = std::max(communicator.last_progress, call->submitted);
  if (now - since >= kStallAfter && now - communicator.last_stall_report >= kStallAgain) {
    communicator.last_stall_report = now;
    reports_.on_stall(communicator.id, oldest, call->description, awaited_lanes(communicator, *call));
  }
}

}  // namespace redsum::client
