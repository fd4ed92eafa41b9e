// SPDX-License-Identifier: Apache-2.0
#include "client/ring_path.h"

#include <algorithm>
#include <utility>

#include "kernels/nonfinite.h"
#include "kernels/partial.h"
#include "transport/base/mutant.h"

namespace redsum::client {
namespace {

kernels::FoldSpec spec_of(const wire::CallDescription& call, std::uint32_t members) {
  return {call.wire_dtype, call.op, members, call.prescale, call.postscale};
}

}  // namespace

RingPath::RingPath(CommunicatorId id, Rank rank, std::uint32_t members, const wire::EpochRecord& record,
                   transport::Transport& transport)
    : id_(id),
      rank_(rank),
      chunk_bytes_(record.settings.chunk_bytes),
      transport_(transport),
      core_(id, rank, members, record.epoch, record.settings) {}

Status RingPath::reserve() {
  stride_ = transport::place_stride(chunk_bytes_);
  auto memory = Region::reserve((core_.places() + core_.places() / 2u + 1) * stride_);
  if (!memory) return memory.error();
  memory_ = std::move(*memory);
  redirects_.resize(core_.places());
  return {};
}

void RingPath::adopt_before(std::unique_ptr<transport::Link> link) {
  before_ = {transport_.adopt(std::move(link)), true};
  transport_.expose(before_.id, id_, {place(0), stride_, chunk_bytes_, core_.places(), redirects_.data()});
}

std::optional<Rank> RingPath::lose(transport::LaneId lane) {
  const std::uint32_t members = core_.members();
  if (next_.open && next_.id == lane) {
    next_.open = false;
    return Rank((rank_.value + 1) % members);
  }
  if (!is_before(lane)) return std::nullopt;
  before_.open = false;
  return Rank((rank_.value + members - 1) % members);
}

void RingPath::close() {
  unsent_.clear();
  for (LaneEnd* end : {&next_, &before_}) {
    if (!std::exchange(end->open, false)) continue;
    transport_.hide(end->id, id_);
    transport_.close(end->id);
  }
}

Status RingPath::submit(Call& call, Owner& owner) {
  call.layout = core_.submit(call.sequence, call.description);
  return pump(owner);
}

Status RingPath::pump(Owner& owner) {
  RingStep step;
  while (next_.open || core_.members() == 1) {
    const auto more = core_.next(step);
    if (!more) return more.error();
    if (!*more || !carry_out(step, {}, owner)) break;
  }
  return {};
}

Status RingPath::on_arrival(const wire::Header& header, Bytes payload, Owner& owner) {
  REDSUM_RETURN_IF_ERROR(core_.on_frame(header));
  if (header.type == wire::FrameType::result) {
    // It goes on at once: its place belongs to the next one as soon as that one may come.
    RingStep step;
    const auto more = core_.next(step);
    if (!more) return more.error();
    if (*more && !carry_out(step, payload, owner)) return {};
  }
  return pump(owner);
}

// False: the communicator has ended.
bool RingPath::carry_out(RingStep& step, Bytes payload, Owner& owner) {
  if (step.kind == RingStep::Kind::echo) return true;
  if (step.kind == RingStep::Kind::disagree) {
    owner.disagreed(step.sequence);
    return true;
  }
  Call& call = owner.call_of(step.sequence);
  if (step.kind == RingStep::Kind::result) {
    take_result(step, call, payload, owner);
  } else {
    if (call.rollback && (step.wanted || step.awaits) &&
        overwrites_input(call, step.piece.offset, step.piece.elements) &&
        !owner.protect(call, step.chunk, step.piece.offset, step.piece.elements))
      return false;
    contribute(step, call, owner);
  }
  if (!step.call_complete) return true;
  if (core_.members() == 1 || mutant("ring_ends_unsent") || transport_.sent(next_.id) >= deposits_)
    owner.finish(step.sequence);
  else
    unsent_.push_back({step.sequence, deposits_});
  return true;
}

void RingPath::settle(Owner& owner) {
  if (unsent_.empty()) return;
  const std::uint64_t sent = transport_.sent(next_.id);
  for (std::size_t i = 0; i < unsent_.size();) {
    if (unsent_[i].deposits > sent) {
      ++i;
      continue;
    }
    const Sequence sequence = unsent_[i].sequence;
    unsent_.erase(unsent_.begin() + static_cast<std::ptrdiff_t>(i));
    owner.finish(sequence);
  }
}

void RingPath::pass(const RingStep& step, const std::byte* payload) {
  if (!step.passes) return;
  if (transport_.deposit(next_.id, step.header, {payload, step.header.payload_bytes})) ++deposits_;
}

// The user's memory, where the data of this chunk lies there as on the wire.
std::byte* RingPath::output_of(const RingStep& step, const Call& call) const {
  if (call.description.wire_dtype != call.description.dtype) return nullptr;
  return contiguous_output(call, step.piece.offset, step.piece.elements);
}

// This rank's elements of the chunk in the wire type: where they lie, or copied to `into`.
const std::byte* RingPath::own(const RingStep& step, Call& call, std::byte* into) {
  const wire::CallDescription& description = call.description;
  if (description.wire_dtype == description.dtype) {
    if (!call.backups.empty() && call.backups[step.chunk]) return call.backups[step.chunk];
    if (const std::byte* input = contiguous_input(call, step.piece.offset, step.piece.elements)) return input;
  }
  gather(call, step.piece.offset, step.piece.elements, description.wire_dtype, into);
  return into;
}

void RingPath::contribute(RingStep& step, Call& call, Owner& owner) {
  Bytes& redirect = redirects_[step.result_place];
  redirect = {};
  if (step.awaits)
    if (std::byte* output = output_of(step, call))
      redirect = {output, step.piece.elements * dtype_bytes(call.description.wire_dtype)};
  if (step.piece.elements == 0 || call.description.kind == wire::Kind::barrier) return pass(step, nullptr);
  const std::byte* payload = wire::has_one_source(call.description.kind) ? spread(step, call) : fold(step, call, owner);
  pass(step, payload);
}

// The data of one source, which goes on as it is.
const std::byte* RingPath::spread(const RingStep& step, Call& call) {
  if (step.first) return own(step, call, staging(step.place));
  const std::byte* payload = place(step.place);
  if (step.wanted) scatter(call, step.piece.offset, step.piece.elements, call.description.wire_dtype, payload);
  return payload;
}

const std::byte* RingPath::begin(const RingStep& step, const kernels::FoldSpec& spec, Call& call) {
  if (kernels::begins_as_is(spec)) return own(step, call, staging(step.place));
  std::byte* partial = staging(step.place);
  kernels::begin_partial(spec, partial, own(step, call, scratch()), step.piece.elements);
  return partial;
}

// The partial result with this rank's contribution, or the result where it is the last.
const std::byte* RingPath::fold(RingStep& step, Call& call, Owner& owner) {
  const wire::CallDescription& description = call.description;
  const kernels::FoldSpec spec = spec_of(description, core_.members());
  const std::size_t elements = step.piece.elements;
  if (step.first && !step.last) return begin(step, spec, call);
  const std::byte* partial = place(step.place);
  const std::byte* mine = own(step, call, scratch());
  if (!step.last) {
    kernels::extend_partial(spec, staging(step.place), partial, mine, elements);
    return staging(step.place);
  }
  std::byte* output = step.wanted ? output_of(step, call) : nullptr;
  std::byte* result = output ? output : place(step.result_place);  // none arrives there: it is made here
  const void* only = mine;
  const std::size_t nonfinite = step.first ? kernels::fold_counting(spec, result, {&only, 1}, elements)
                                           : kernels::finish_partial(spec, result, partial, mine, elements);
  if (nonfinite != 0) step.header.flags |= wire::kFlagNonFinite;
  if (nonfinite != 0 && step.wanted) owner.found_nonfinite(nonfinite);
  if (step.wanted && !output) scatter(call, step.piece.offset, elements, description.wire_dtype, result);
  return result;
}

void RingPath::take_result(const RingStep& step, Call& call, Bytes payload, Owner& owner) {
  Bytes& redirect = redirects_[step.result_place];
  const bool redirected = !redirect.empty() && redirect.data() == payload.data();
  redirect = {};
  if (step.wanted && !redirected)
    scatter(call, step.piece.offset, step.piece.elements, call.description.wire_dtype, payload.data());
  if (step.wanted && step.nonfinite)
    owner.found_nonfinite(kernels::count_nonfinite(call.description.wire_dtype, payload.data(), step.piece.elements));
  pass(step, payload.data());
}

}  // namespace redsum::client
