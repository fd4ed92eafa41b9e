// SPDX-License-Identifier: Apache-2.0
// What a worker decides for one communicator in ring mode: how a call is cut, which number each chunk gets, when its
// fold may begin here, what an arriving frame means and what goes on to the next rank. Pure: no memory of payloads,
// thread, clock, socket.
//
// Numbers run in submission order in two numberings (PendingCalls) with a window each. A chunk goes round twice
// (RingRoute). A rank begins number c only when it holds the results of all numbers up to c - W. Since a rank passes a
// result on before it takes part in anything later, on one ordered lane, this makes every place free when it is
// deposited into: of the partial result of c, because the result of c - W says that all have passed on that chunk's
// partial result; of the result of c, because it says that all take part in c, so hold the result of c - W.
// A place of a partial result is number mod W, that of its result behind those of all partial results.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "client/core/pending_calls.h"
#include "client/core/ring_route.h"
#include "transport/base/status.h"
#include "transport/base/types.h"
#include "transport/wire/call.h"
#include "transport/wire/control.h"
#include "transport/wire/header.h"

namespace redsum::client {

// One step at this rank, to be carried out at once, in the order in which the core tells them.
struct RingStep {
  enum class Kind : std::uint8_t {
    contribute,  // add the own contribution to the partial result that lies in its place (first: begin one)
    result,      // a result has arrived
    disagree,    // the rank before asks for something else in call `sequence`: nothing goes on
    echo,        // another call differs: nothing goes on, and nothing is to be done
  };
  Kind kind = Kind::contribute;
  Sequence sequence = 0;
  std::uint32_t chunk = 0;
  ChunkPiece piece;
  std::uint16_t place = 0, result_place = 0;  // where they lie at this rank, and go at the next
  bool first = false, last = false;           // contribute: of the fold. last: it makes the result
  bool arrives = false;                       // with payload: a partial result, or a result
  bool wanted = false;                        // its data is this rank's output: of a result, or of a source
  bool awaits = false;         // contribute: the result will come with payload that is this rank's output
  bool passes = false;         // `header` and what it describes go to the next rank
  bool nonfinite = false;      // result: it is said to have NaN or infinite elements, and `header` says so too
  bool call_complete = false;  // here: every result is held
  wire::Header header;         // complete but for its CRC
};

class RingCore {
 public:
  RingCore(CommunicatorId id, Rank rank, std::uint32_t members, Epoch epoch, const wire::JobSettings& settings);

  // As CommunicatorCore::submit.
  const ChunkLayout& submit(Sequence sequence, const wire::CallDescription& call);
  // A frame of the rank before. An error means that it broke the protocol.
  Status on_frame(const wire::Header& header);
  // The next step; false: none, now. An error as above.
  Result<bool> next(RingStep& step);

  const PendingCalls& calls() const { return calls_; }
  void barriers_after(const UnderWay& others) { calls_.barriers_after(others); }
  std::uint16_t places() const { return static_cast<std::uint16_t>(2 * bulk_.window + 2 * small_.window); }
  std::uint32_t members() const { return members_; }
  static DType partial_dtype_of(const wire::CallDescription& call);

 private:
  struct Slot {
    enum class State : std::uint8_t { idle, arrived, contributed, held, stuck };
    State state = State::idle;
    bool contested = false;      // contributed, and a partial result came that has no business there
    bool seen = false;           // a partial result has arrived for it before:
    Sequence last_sequence = 0;  // of this chunk. A later one must be of a later chunk
    std::uint32_t last_chunk = 0;
    wire::Header header;  // arrived
  };
  struct Numbering {
    std::uint16_t window = 1, first_place = 0;
    const PendingCalls::Numbering* numbers = nullptr;
    std::vector<Slot> slots;          // by number mod window
    std::uint64_t held = 0;           // all numbers below are
    std::uint64_t begun = 0;          // the first number that has not been looked at for beginning it
    std::uint64_t announced = 0;      // submitted numbers below were looked at for partial results that came before
    std::deque<std::uint64_t> ready;  // arrived and submitted
    Slot& slot(std::uint64_t number) { return slots[number % window]; }
  };

  Status on_partial(Numbering& numbering, std::uint64_t number, const wire::Header& header);
  Status on_taken_place(Numbering& numbering, std::uint64_t number, const wire::Header& header);
  Status on_result(Numbering& numbering, std::uint64_t number, const wire::Header& header);
  Result<bool> next_of(Numbering& numbering, RingStep& step);
  bool next_arrived(Numbering& numbering, RingStep& step, Status& wrong);
  bool next_begun(Numbering& numbering, RingStep& step);
  static bool is_of(const wire::Header& header, const PendingCall& call, const RingStep& step);
  bool differs(const wire::Header& header);  // its call is under way here as well, and is another one
  void disagree(Slot& slot, const wire::Header& header, RingStep& step);
  // agrees: it is of the same chunk of the same call.
  Status check_arrived(const PendingCall& call, const RingRoute& route, const RingStep& step,
                       const wire::Header& header, bool& agrees) const;
  void contribute(Numbering& numbering, PendingCall& call, std::uint64_t number, const RingRoute& route,
                  RingStep& step);
  void hold(Numbering& numbering, PendingCall& call, std::uint64_t number, RingStep& step);
  void describe(const Numbering& numbering, const PendingCall& call, std::uint64_t number, RingStep& step) const;
  void fill(const PendingCall& call, const RingStep& step, wire::FrameType type, bool has_data,
            std::uint32_t contributors, wire::Header& header) const;
  RingRoute route_of(const PendingCall& call, const RingStep& step) const {
    return {call.description, step.chunk, step.piece, members_, settings_.ring_order};
  }

  const CommunicatorId id_;
  const Rank rank_;
  const std::uint32_t members_;
  const Epoch epoch_;
  const wire::JobSettings settings_;
  PendingCalls calls_;
  Numbering bulk_, small_;
  std::deque<RingStep> results_;  // arrived, and disagreements
};

}  // namespace redsum::client
