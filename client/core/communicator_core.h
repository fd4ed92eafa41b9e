// SPDX-License-Identifier: Apache-2.0
// What a worker decides for one communicator: how a call is cut into chunks, which number and shard each chunk gets,
// what may be sent now, which result belongs where, when a call is complete. Pure: no memory of payloads, thread,
// clock, socket.
//
// Each of the two numberings (PendingCalls) has a window of its own.
//
// Epochs. Where the pool has more than one reducer, what a call contributed may be needed again after its end: when a
// reducer is lost, stop() and progress() say how far this rank is, and rebase() goes on in a new epoch. Chunks below
// the least progress of all ranks are finished everywhere; the others are numbered from 0 again, in (sequence, chunk)
// order, which is the same list on every rank, and contributed again. A rank that has the result of one already drops
// it. A call therefore stays here until every rank is known to hold its results: the result of number c on a shard says
// that of number c - W.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/core/chunk_layout.h"
#include "client/core/numbering.h"
#include "client/core/pending_calls.h"
#include "transport/base/status.h"
#include "transport/base/types.h"
#include "transport/wire/call.h"
#include "transport/wire/control.h"
#include "transport/wire/header.h"

namespace redsum::client {

// A chunk that may be sent now: header complete but for its CRC, payload = elements [header.element_offset, +
// elements).
struct ChunkSend {
  Sequence sequence = 0;
  std::uint16_t shard = 0;
  std::uint64_t elements = 0;
  std::uint64_t result_elements = 0;  // of the result that this rank will get; 0: one without payload
  bool again = false;                 // the call is complete here: the payload is what was kept of it
  bool have = false;                  // its result is held already: the call may end before the payload has been read
  bool stays = false;                 // what it contributes is likely to be needed after the call's end
  wire::Header header;                // payload_bytes set; 0 with kFlagHeaderOnly where this rank has no payload
};

// A result that has arrived where the core expected it.
struct ChunkResult {
  Sequence sequence = 0;
  std::uint32_t chunk = 0;
  std::uint64_t element_offset = 0;
  std::uint64_t elements = 0;  // 0: a result without payload
  std::uint32_t contributors = 0;
  bool call_complete = false;  // it was the call's last
  // A chunk whose contribution is not needed again from now on.
  struct Known {
    Sequence sequence = 0;
    std::uint32_t chunk = 0;
  };
  std::optional<Known> known;
};

// Results held on each shard, bulk and small: the progress of one communicator at one rank.
struct ShardProgress {
  std::vector<std::uint64_t> bulk, small;
};

class CommunicatorCore {
 public:
  // schedule: shard indices (wire::make_schedule), shards: how many there are.
  // keeps: calls stay until every rank holds their results.
  CommunicatorCore(CommunicatorId id, Rank rank, std::uint32_t members, Epoch epoch, const wire::JobSettings& settings,
                   std::span<const std::uint16_t> schedule, std::size_t shards, bool keeps = false);

  // Sequences come from the caller, ascending without gaps.
  // Returns how the call is cut; valid until its last result.
  const ChunkLayout& submit(Sequence sequence, const wire::CallDescription& call);
  // The next chunk that the windows allow, small ones first; false: none, now. The caller must send what it gets.
  bool next_send(ChunkSend& send);
  // A result on the lane of `shard`. An error means that the shard broke the protocol.
  Result<ChunkResult> on_result(std::uint16_t shard, const wire::Header& header);

  // -- epochs
  void stop() { stopped_ = true; }  // nothing is sent until rebase()
  ShardProgress progress() const;
  // `below`: the least progress of all ranks on the shards of the epoch before; missing entries are 0. An error: it is
  // more than this rank's own, or less than what results said before.
  Status rebase(Epoch epoch, const ShardProgress& below, std::span<const std::uint16_t> schedule, std::size_t shards);
  Epoch epoch() const { return epoch_; }
  bool keeps() const { return keeps_; }
  // The chunks of a call that may have to be contributed again, and what is contributed: place and epoch aside, the
  // same each time.
  std::vector<std::uint32_t> unknown_chunks(Sequence sequence);
  wire::Header contribution_of(Sequence sequence, std::uint32_t chunk);
  std::set<std::pair<Sequence, std::uint32_t>> again() const;  // chunks that this epoch does again

  const PendingCalls& calls() const { return calls_; }
  void barriers_after(const UnderWay& others) { calls_.barriers_after(others); }
  const wire::JobSettings& settings() const { return settings_; }
  std::uint32_t members() const { return members_; }
  Rank rank() const { return rank_; }
  CommunicatorId id() const { return id_; }

 private:
  struct Again {
    Sequence sequence = 0;
    std::uint32_t chunk = 0;
    bool have = false;
  };
  // Progress on one shard in one numbering; local numbers.
  struct Progress {
    std::uint64_t sent = 0, held = 0;
  };
  struct Numbering {
    std::uint16_t window = 1;
    std::uint16_t first_place = 0;
    const PendingCalls::Numbering* numbers = nullptr;
    std::vector<Progress> shards;
    std::size_t turn = 0;  // which shard may send next
    // Numbers of this epoch: first those that are done again, then those of calls submitted since it began.
    std::vector<Again> again;
    std::uint64_t base = 0;  // how many numbers had been given out when it began
    std::uint64_t submitted() const { return again.size() + numbers->submitted() - base; }
  };
  // A chunk by its number in the epoch.
  struct Placed {
    PendingCall* call = nullptr;
    std::uint32_t chunk = 0;
    bool have = false;  // its result was held before the epoch began
  };

  bool next_of(Numbering& numbering, ChunkSend& send);
  void fill(const Placed& placed, std::uint16_t shard, std::uint16_t place, ChunkSend& send) const;
  Placed at(const Numbering& numbering, std::uint64_t number);  // call: nullptr where it is not here
  void begin_rounds(Numbering& numbering, std::size_t shards);
  Status rebase(Numbering& numbering, const std::vector<std::uint64_t>& below);
  std::optional<ChunkResult::Known> learn(Numbering& numbering, std::size_t shard);

  const CommunicatorId id_;
  const Rank rank_;
  const std::uint32_t members_;
  Epoch epoch_;
  const wire::JobSettings settings_;
  ShardMap map_;
  const bool keeps_;
  bool stopped_ = false;
  PendingCalls calls_;
  Numbering bulk_, small_;
};

}  // namespace redsum::client
