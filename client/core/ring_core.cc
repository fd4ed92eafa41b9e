// SPDX-License-Identifier: Apache-2.0
#include "client/core/ring_core.h"

#include <algorithm>
#include <string>

#include "transport/base/check.h"
#include "transport/base/mutant.h"

namespace redsum::client {
namespace {

constexpr const char* kInUse = "place, which is in use,";

Status refuse(CommunicatorId id, const char* what, std::uint64_t got, std::uint64_t wanted) {
  return {Code::protocol_error, "the rank before sent a frame on communicator " + std::to_string(id.value) + " whose " +
                                    what + " is " + std::to_string(got) + ", expected " + std::to_string(wanted)};
}

}  // namespace

RingCore::RingCore(CommunicatorId id, Rank rank, std::uint32_t members, Epoch epoch, const wire::JobSettings& settings)
    : id_(id), rank_(rank), members_(members), epoch_(epoch), settings_(settings) {
  bulk_.numbers = &calls_.bulk();
  bulk_.window = ring_window(members, settings);
  small_.numbers = &calls_.small();
  small_.window = settings.small_window;
  small_.first_place = bulk_.window;
  for (Numbering* numbering : {&bulk_, &small_}) numbering->slots.resize(numbering->window);
}

DType RingCore::partial_dtype_of(const wire::CallDescription& call) {
  if (wire::has_one_source(call.kind) || call.kind == wire::Kind::barrier) return call.wire_dtype;
  return partial_dtype(call.wire_dtype, call.op, call.prescale);
}

const ChunkLayout& RingCore::submit(Sequence sequence, const wire::CallDescription& call) {
  const ChunkLayout layout = ring_layout(call, members_, settings_, dtype_bytes(partial_dtype_of(call)));
  return calls_.submit(sequence, call, layout, settings_.small_bytes).layout;
}

void RingCore::describe(const Numbering& numbering, const PendingCall& call, std::uint64_t number,
                        RingStep& step) const {
  step = RingStep{};
  step.sequence = call.sequence;
  step.chunk = static_cast<std::uint32_t>(number - call.first_number);
  step.piece = call.layout.at(step.chunk);
  step.place = static_cast<std::uint16_t>(numbering.first_place + number % numbering.window);
  step.result_place = static_cast<std::uint16_t>(step.place + places() / 2);
}

void RingCore::fill(const PendingCall& call, const RingStep& step, wire::FrameType type, bool has_data,
                    std::uint32_t contributors, wire::Header& header) const {
  const bool partial = type == wire::FrameType::partial;
  header = wire::Header{};
  header.type = type;
  header.dtype = partial ? partial_dtype_of(call.description) : call.description.wire_dtype;
  header.op = call.description.op;
  header.rank = partial ? rank_.value : (rank_.value + 1) % members_;
  header.epoch = epoch_.value;
  header.place = partial ? step.place : step.result_place;
  header.communicator = id_.value;
  header.chunk = step.chunk;
  header.sequence = call.sequence;
  header.element_offset = step.piece.offset;
  header.signature = call.signature;
  header.contributors = contributors;
  if (call.small) header.flags |= wire::kFlagSmall;
  header.set_kind(call.description.kind);
  if (has_data)
    header.payload_bytes = static_cast<std::uint32_t>(step.piece.elements * dtype_bytes(header.dtype));
  else
    header.flags |= wire::kFlagHeaderOnly;
}

Status RingCore::on_frame(const wire::Header& header) {
  const std::uint32_t before = (rank_.value + members_ - 1) % members_;
  const bool partial = header.type == wire::FrameType::partial;
  if (!partial && header.type != wire::FrameType::result)
    return refuse(id_, "frame type", static_cast<unsigned>(header.type), 4);
  if (header.rank != (partial ? before : rank_.value))
    return refuse(id_, "rank", header.rank, partial ? before : rank_.value);
  if (header.epoch != epoch_.value) return refuse(id_, "epoch", header.epoch, epoch_.value);
  Numbering& numbering = header.has(wire::kFlagSmall) ? small_ : bulk_;
  const unsigned first = numbering.first_place + (partial ? 0u : places() / 2u);
  if (header.place < first || header.place >= first + numbering.window)
    return refuse(id_, "place", header.place, first);
  // The one number that may be under way in that place.
  const std::uint64_t window = numbering.window;
  const std::uint64_t number = numbering.held + (header.place - first + window - numbering.held % window) % window;
  return partial ? on_partial(numbering, number, header) : on_result(numbering, number, header);
}

Status RingCore::on_partial(Numbering& numbering, std::uint64_t number, const wire::Header& header) {
  Slot& slot = numbering.slot(number);
  const bool later = !slot.seen || header.sequence > slot.last_sequence ||
                     (header.sequence == slot.last_sequence && header.chunk > slot.last_chunk);
  if (!later) return refuse(id_, "chunk that has been here", header.chunk, slot.last_chunk + 1);
  slot.seen = true;
  slot.last_sequence = header.sequence;
  slot.last_chunk = header.chunk;
  if (slot.state == Slot::State::stuck) return {};
  if (slot.state != Slot::State::idle) return on_taken_place(numbering, number, header);
  slot.state = Slot::State::arrived;
  slot.header = header;
  if (number < numbering.announced) numbering.ready.push_back(number);
  return {};
}

// Of a number that begins here none may arrive: either earlier calls differ and the numbers of the rank before have
// shifted, or it runs ahead of its window. One frame cannot tell which. The result of the number can: it comes only if
// all ranks agree, and the rank before makes it, so whatever it put in that place before came too early. Where this
// rank has gone on from a partial result, the next frame for the place comes behind its result, calls that differ or
// not.
Status RingCore::on_taken_place(Numbering& numbering, std::uint64_t number, const wire::Header& header) {
  Slot& slot = numbering.slot(number);
  const PendingCall* call = calls_.at(*numbering.numbers, number);
  RingStep step;
  if (call) describe(numbering, *call, number, step);
  if (!call || slot.state != Slot::State::contributed || route_of(*call, step).position(rank_) != 0 ||
      is_of(header, *call, step))
    return refuse(id_, kInUse, header.place, header.place + 1u);
  if (differs(header)) {
    disagree(slot, header, step);
    results_.push_back(step);
  } else {
    slot.contested = true;
  }
  return {};
}

Status RingCore::on_result(Numbering& numbering, std::uint64_t number, const wire::Header& header) {
  const Slot& slot = numbering.slot(number);
  if (slot.state == Slot::State::stuck) return {};
  PendingCall* call = calls_.at(*numbering.numbers, number);
  if (slot.state != Slot::State::contributed || !call)
    return refuse(id_, "result has no contribution in sequence", header.sequence, number);
  RingStep step;
  describe(numbering, *call, number, step);
  const RingRoute route = route_of(*call, step);
  const std::uint32_t position = route.position(rank_);
  if (position == route.last()) return refuse(id_, "result, which this rank makes, sequence", header.sequence, 0);
  if (header.sequence != call->sequence) return refuse(id_, "sequence", header.sequence, call->sequence);
  if (header.chunk != step.chunk) return refuse(id_, "chunk", header.chunk, step.chunk);
  if (header.signature != call->signature) return refuse(id_, "signature", header.signature, call->signature);
  if (header.contributors != members_) return refuse(id_, "contributors", header.contributors, members_);
  const DType dtype = call->description.wire_dtype;
  step.nonfinite = header.has(wire::kFlagNonFinite);
  if (step.nonfinite &&
      (!wire::reduces(call->description.kind) || (!dtype_is_float(dtype) && !dtype_is_complex(dtype))))
    return refuse(id_, "nonfinite flag", 1, 0);
  if (slot.contested) return refuse(id_, kInUse, step.place, step.place + 1u);
  step.kind = RingStep::Kind::result;
  step.arrives = route.result_has_data(position);
  const std::uint64_t bytes = step.arrives ? step.piece.elements * dtype_bytes(dtype) : 0;
  if (header.payload_bytes != bytes) return refuse(id_, "payload", header.payload_bytes, bytes);
  step.wanted = step.arrives && receives_data(call->description, step.piece, rank_);
  step.passes = position + 1 < route.last();
  if (step.passes)
    fill(*call, step, wire::FrameType::result, route.result_has_data(position + 1), members_, step.header);
  if (step.passes && step.nonfinite) step.header.flags |= wire::kFlagNonFinite;
  hold(numbering, *call, number, step);
  results_.push_back(step);
  return {};
}

// The result of `number` is here. The step is the last that sees `call` when it completes it.
void RingCore::hold(Numbering& numbering, PendingCall& call, std::uint64_t number, RingStep& step) {
  numbering.slot(number).state = Slot::State::held;
  while (numbering.slot(numbering.held).state == Slot::State::held) {
    numbering.slot(numbering.held).state = Slot::State::idle;
    ++numbering.held;
  }
  step.call_complete = ++call.held == call.chunks;
  if (step.call_complete) calls_.forget(call);
}

Result<bool> RingCore::next(RingStep& step) {
  if (!results_.empty()) {
    step = results_.front();
    results_.pop_front();
    return true;
  }
  const auto small = next_of(small_, step);
  if (!small || *small) return small;
  return next_of(bulk_, step);
}

Result<bool> RingCore::next_of(Numbering& numbering, RingStep& step) {
  // What came before the call was submitted here.
  const std::uint64_t end = std::min(numbering.numbers->submitted(), numbering.held + numbering.window);
  for (; numbering.announced < end; ++numbering.announced)
    if (numbering.slot(numbering.announced).state == Slot::State::arrived)
      numbering.ready.push_back(numbering.announced);
  Status wrong;
  if (next_arrived(numbering, step, wrong)) return true;
  if (!wrong) return failure(wrong);
  return next_begun(numbering, step);
}

bool RingCore::next_arrived(Numbering& numbering, RingStep& step, Status& wrong) {
  for (std::size_t i = 0; i < numbering.ready.size(); ++i) {
    const std::uint64_t number = numbering.ready[i];
    PendingCall* call = calls_.at(*numbering.numbers, number);
    REDSUM_CHECK(call != nullptr);
    if (!calls_.may_begin(*call)) continue;
    numbering.ready.erase(numbering.ready.begin() + static_cast<std::ptrdiff_t>(i));
    describe(numbering, *call, number, step);
    const RingRoute route = route_of(*call, step);
    bool agrees = true;
    wrong = check_arrived(*call, route, step, numbering.slot(number).header, agrees);
    if (!wrong) return false;
    if (agrees) {
      contribute(numbering, *call, number, route, step);
    } else {
      disagree(numbering.slot(number), numbering.slot(number).header, step);
    }
    return true;
  }
  return false;
}

Status RingCore::check_arrived(const PendingCall& call, const RingRoute& route, const RingStep& step,
                               const wire::Header& header, bool& agrees) const {
  agrees = is_of(header, call, step);
  if (!agrees) return {};
  const std::uint32_t position = route.position(rank_);
  if (position == 0) return refuse(id_, "partial result, which begins here, sequence", header.sequence, 0);
  if (header.contributors != position) return refuse(id_, "contributors", header.contributors, position);
  if (header.element_offset != step.piece.offset)
    return refuse(id_, "offset", header.element_offset, step.piece.offset);
  const std::uint64_t bytes =
      route.partial_has_data() ? step.piece.elements * dtype_bytes(partial_dtype_of(call.description)) : 0;
  if (header.payload_bytes != bytes) return refuse(id_, "payload", header.payload_bytes, bytes);
  return {};
}

bool RingCore::is_of(const wire::Header& header, const PendingCall& call, const RingStep& step) {
  return header.sequence == call.sequence && header.chunk == step.chunk && header.signature == call.signature;
}

bool RingCore::differs(const wire::Header& header) {
  const PendingCall* call = calls_.find(header.sequence);
  return call && call->signature != header.signature;
}

// Nothing goes on in this slot. Only another signature of the same call names a call that differs: anything else is its
// echo, numbers that have shifted.
void RingCore::disagree(Slot& slot, const wire::Header& header, RingStep& step) {
  slot.state = Slot::State::stuck;
  step.kind = differs(header) ? RingStep::Kind::disagree : RingStep::Kind::echo;
  step.sequence = header.sequence;
}

bool RingCore::next_begun(Numbering& numbering, RingStep& step) {
  const std::uint64_t window = numbering.window + (mutant("ring_window_too_large") ? 1u : 0u);
  const std::uint64_t end = std::min(numbering.numbers->submitted(), numbering.held + window);
  for (; numbering.begun < end; ++numbering.begun) {
    PendingCall* call = calls_.at(*numbering.numbers, numbering.begun);
    if (!call) continue;  // begun elsewhere and complete
    describe(numbering, *call, numbering.begun, step);
    const RingRoute route = route_of(*call, step);
    if (route.position(rank_) != 0) continue;
    if (!calls_.may_begin(*call)) return false;
    contribute(numbering, *call, numbering.begun++, route, step);
    return true;
  }
  return false;
}

void RingCore::contribute(Numbering& numbering, PendingCall& call, std::uint64_t number, const RingRoute& route,
                          RingStep& step) {
  const std::uint32_t position = route.position(rank_);
  const bool wants = receives_data(call.description, step.piece, rank_);
  step.kind = RingStep::Kind::contribute;
  step.first = position == 0;
  step.last = position == route.last();
  step.arrives = !step.first && route.partial_has_data();
  const bool spreads = wire::has_one_source(call.description.kind);
  step.wanted = wants && route.partial_has_data() && (spreads ? step.arrives : step.last);
  step.awaits = wants && !step.last && route.result_has_data(position);
  step.passes = members_ > 1;
  numbering.slot(number).state = Slot::State::contributed;
  if (!step.last)
    return fill(call, step, wire::FrameType::partial, route.partial_has_data(), position + 1, step.header);
  if (step.passes) fill(call, step, wire::FrameType::result, route.result_has_data(0), members_, step.header);
  hold(numbering, call, number, step);
}

}  // namespace redsum::client
