// SPDX-License-Identifier: Apache-2.0
// What a worker decides for one communicator: how a call is cut into chunks, which number and shard each chunk gets,
// what may be sent now, which result belongs where, when a call is complete. Pure: no memory of payloads, thread,
// clock, socket.
//
// Each of the two numberings (PendingCalls) has a window of its own.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
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
};

class CommunicatorCore {
 public:
  // schedule: shard indices (wire::make_schedule), shards: how many there are.
  CommunicatorCore(CommunicatorId id, Rank rank, std::uint32_t members, Epoch epoch, const wire::JobSettings& settings,
                   std::span<const std::uint16_t> schedule, std::size_t shards);

  // Sequences come from the caller, ascending without gaps.
  // Returns how the call is cut; valid until its last result.
  const ChunkLayout& submit(Sequence sequence, const wire::CallDescription& call);
  // The next chunk that the windows allow, small ones first; false: none, now. The caller must send what it gets.
  bool next_send(ChunkSend& send);
  // A result on the lane of `shard`. An error means that the shard broke the protocol.
  Result<ChunkResult> on_result(std::uint16_t shard, const wire::Header& header);

  const PendingCalls& calls() const { return calls_; }
  void barriers_after(const UnderWay& others) { calls_.barriers_after(others); }
  const wire::JobSettings& settings() const { return settings_; }
  std::uint32_t members() const { return members_; }
  Rank rank() const { return rank_; }
  CommunicatorId id() const { return id_; }

 private:
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
  };

  bool next_of(Numbering& numbering, ChunkSend& send);
  void fill(const PendingCall& call, std::uint64_t number, std::uint16_t shard, std::uint16_t place,
            ChunkSend& send) const;

  const CommunicatorId id_;
  const Rank rank_;
  const std::uint32_t members_;
  const Epoch epoch_;
  const wire::JobSettings settings_;
  const ShardMap map_;
  PendingCalls calls_;
  Numbering bulk_, small_;
};

}  // namespace redsum::client
