// SPDX-License-Identifier: Apache-2.0
// The calls of one communicator that are under way in one mode: by sequence, and by the numbers of their chunks in two
// numberings, bulk and small (calls of one chunk of at most settings.small_bytes, which therefore never wait behind
// bulk data). The size of a call decides, so all ranks agree. Pure.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "client/core/chunk_layout.h"
#include "transport/base/types.h"
#include "transport/wire/call.h"

namespace redsum::client {

struct PendingCall {
  Sequence sequence = 0;
  wire::CallDescription description;
  std::uint64_t signature = 0;
  std::uint64_t first_number = 0;  // in its numbering
  std::uint32_t chunks = 1;
  std::uint32_t held = 0;   // results
  std::uint32_t known = 0;  // chunks whose results every rank is known to hold
  bool complete = false;    // here: it stays only because other ranks may need its contributions again
  ChunkLayout layout;
  bool small = false;
};

// Calls of a communicator that are under way in one mode.
class UnderWay {
 public:
  virtual ~UnderWay() = default;
  virtual std::optional<Sequence> oldest() const = 0;
};

class PendingCalls final : public UnderWay {
 public:
  // Numbers given out in one numbering, and its calls, ascending by sequence and number.
  class Numbering {
   public:
    std::uint64_t submitted() const { return submitted_; }

   private:
    friend class PendingCalls;
    std::uint64_t submitted_ = 0;
    std::deque<Sequence> calls_;
  };

  // Gives the call its numbers. Sequences come ascending.
  const PendingCall& submit(Sequence sequence, const wire::CallDescription& call, const ChunkLayout& layout,
                            std::uint32_t small_bytes);
  // The pending call that has `number`; nullptr: none, it is not submitted or complete.
  PendingCall* at(const Numbering& numbering, std::uint64_t number);
  PendingCall* find(Sequence sequence);
  void forget(PendingCall& call);
  std::deque<PendingCall>& all() { return calls_; }  // by sequence

  Numbering& bulk() { return bulk_; }
  Numbering& small() { return small_; }
  bool empty() const { return !oldest(); }
  std::optional<Sequence> oldest() const override;  // that is not complete
  // A barrier goes out once everything submitted before it is complete here: so its completion says that of all ranks.
  bool may_begin(const PendingCall& call) const;
  // Barriers wait for these too: the communicator's calls in another mode. They outlive this.
  void barriers_after(const UnderWay& others) { others_.push_back(&others); }

 private:
  Numbering bulk_, small_;
  std::vector<const UnderWay*> others_;
  std::deque<PendingCall> calls_;  // by sequence; completed ones leave from anywhere
};

// Whether `rank` has payload to contribute to the chunk, and gets the payload of its result: whose data is spread has
// it already, a reduction for one rank goes to that rank alone.
bool sends_data(const wire::CallDescription& call, const ChunkPiece& piece, Rank rank);
bool receives_data(const wire::CallDescription& call, const ChunkPiece& piece, Rank rank);

}  // namespace redsum::client
