// SPDX-License-Identifier: Apache-2.0
// The ring of one communicator at one worker: carries out the steps of RingCore between a lane from the rank before and
// one to the next rank. A partial result is folded into staging and goes on from there, so that places belong to the
// rank before alone: a frame that it sends twice spoils nothing. A result is made, received and passed on in the user's
// memory where it lies there as on the wire, else in its place. So a call ends only when the transport has all that
// this rank passes on of it. One thread, the progress agent's.
//
// Memory: two places and a staging buffer for every number that may be under way.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/call.h"
#include "client/core/ring_core.h"
#include "kernels/fold.h"
#include "transport/base/region.h"
#include "transport/transport.h"

namespace redsum::client {

class RingPath {
 public:
  // What the owner does for it.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual Call& call_of(Sequence sequence) = 0;  // a pending call
    // Copies the chunk's input aside where its result will overwrite it; false: no memory, the communicator has ended.
    virtual bool protect(Call& call, std::uint32_t chunk, std::uint64_t offset, std::uint64_t elements) = 0;
    virtual void finish(Sequence sequence) = 0;     // all results are here, and all that this rank passes on is away
    virtual void disagreed(Sequence sequence) = 0;  // the rank before asked for something else
    virtual void found_nonfinite(std::uint64_t elements) = 0;  // in a result that is wanted here
  };

  RingPath(CommunicatorId id, Rank rank, std::uint32_t members, const wire::EpochRecord& record,
           transport::Transport& transport);
  Status reserve();  // once, before anything else

  void adopt_next(std::unique_ptr<transport::Link> link) { next_ = {transport_.adopt(std::move(link)), true}; }
  void adopt_before(std::unique_ptr<transport::Link> link);
  bool wants_next() const { return core_.members() > 1 && !asked_; }  // a lane to the next rank is to be dialled,
  void asked_for_next() { asked_ = true; }                            // and is now
  bool has_before() const { return before_.open; }
  bool is_before(transport::LaneId lane) const { return before_.open && before_.id == lane; }
  std::optional<Rank> lose(transport::LaneId lane);  // the neighbour behind it; none: it is none of its lanes
  void close();  // its lanes; from then on the transport touches no memory of the communicator

  const PendingCalls& calls() const { return core_.calls(); }
  RingCore& core() { return core_; }

  // Each may end calls through the owner. An error: the rank before broke the protocol, its lane is closed.
  Status submit(Call& call, Owner& owner);
  Status on_arrival(const wire::Header& header, Bytes payload, Owner& owner);
  Status pump(Owner& owner);  // whatever may go on
  void settle(Owner& owner);  // ends calls whose frames are away by now
  bool sending() const { return !unsent_.empty(); }

 private:
  struct LaneEnd {
    transport::LaneId id;
    bool open = false;
  };
  struct Unsent {
    Sequence sequence = 0;
    std::uint64_t deposits = 0;
  };

  bool carry_out(RingStep& step, Bytes payload, Owner& owner);
  void contribute(RingStep& step, Call& call, Owner& owner);
  void take_result(const RingStep& step, Call& call, Bytes payload, Owner& owner);
  const std::byte* spread(const RingStep& step, Call& call);
  const std::byte* fold(RingStep& step, Call& call, Owner& owner);
  const std::byte* begin(const RingStep& step, const kernels::FoldSpec& spec, Call& call);
  const std::byte* own(const RingStep& step, Call& call, std::byte* into);
  std::byte* output_of(const RingStep& step, const Call& call) const;
  void pass(const RingStep& step, const std::byte* payload);
  std::byte* place(std::size_t index) const { return memory_.data() + index * stride_ + wire::kHeaderBytes; }
  std::byte* staging(std::size_t index) const { return place(core_.places() + index); }
  std::byte* scratch() const { return place(core_.places() + core_.places() / 2u); }

  const CommunicatorId id_;
  const Rank rank_;
  const std::uint32_t chunk_bytes_;
  transport::Transport& transport_;
  RingCore core_;
  LaneEnd next_, before_;
  bool asked_ = false;
  Region memory_;
  std::size_t stride_ = 0;
  std::vector<Bytes> redirects_;  // by place: the user's memory that awaits a result
  std::uint64_t deposits_ = 0;    // on the lane to the next rank
  std::vector<Unsent> unsent_;    // complete but for frames that are still to be read from memory
};

}  // namespace redsum::client
