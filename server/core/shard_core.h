// SPDX-License-Identifier: Apache-2.0
// What one shard decides: which arriving contribution belongs where, when a chunk is complete, what is sent back. Pure:
// it owns no memory of payloads, thread, clock or socket. A fold is an effect that the driver carries out and reports
// back.
//
// Memory as the driver lays it out, per communicator: each member has window + small_window staging places (bulk
// first); each place has two result buffers that alternate. Contribution c of a rank goes to place c mod W; it may come
// only after the rank holds result c - W. So when contribution c of every rank is here, every rank holds result c - W,
// and the other buffer of the place, which carried it, is free.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/base/types.h"
#include "transport/wire/control.h"
#include "transport/wire/header.h"

namespace redsum::server {

using BoardIndex = Number<struct BoardTag, std::uint32_t>;  // a communicator on this shard

// A chunk whose contributions are all here: fold the places of all members (or copy the one with payload) into the
// result buffer, then call on_folded().
struct Fold {
  BoardIndex board;
  PlaceIndex place;
  std::uint8_t buffer = 0;   // which of the place's two result buffers
  wire::Header like;         // kind, dtype, op, flags; payload_bytes includes the scale prefix
  std::optional<Rank> only;  // broadcast, all_gather: the only rank with payload
  std::uint32_t contributors = 0;
  bool nonfinite = false;  // the driver's to set: the result has NaN or infinite elements
};

struct ResultSend {
  BoardIndex board;
  Rank to;
  PlaceIndex place;
  std::uint8_t buffer = 0;
  wire::Header header;  // header.payload_bytes of the result buffer follow
};

// Contributions of one chunk differ. The sequence is the lowest one that can be at fault.
struct Disagreement {
  BoardIndex board;
  Sequence sequence = 0;
  std::string field;
  Rank first, second;
};

struct ShardEffects {
  std::vector<Fold> folds;  // in the order in which they must be carried out, per numbering
  std::vector<ResultSend> sends;
  std::vector<Disagreement> disagreements;
  void clear() {
    folds.clear();
    sends.clear();
    disagreements.clear();
  }
};

// Which rank made the others wait, on one board.
struct Lateness {
  std::uint64_t last_arrivals = 0;
  DurationNs lag_ns = 0;  // between the second to last arrival and this rank's, summed
};

class ShardCore {
 public:
  // `settings` is complete. The epoch is the only one whose frames count.
  BoardIndex open(std::uint32_t members, const wire::JobSettings& settings, Epoch epoch);
  void close(BoardIndex board);
  // Everything of older epochs is dropped, also folds that are under way; numbers begin at 0 again.
  void enter(BoardIndex board, Epoch epoch);

  // A contribution of `rank` lies in its place. An error is the sender's fault: end its lane. Older epochs are dropped.
  Status on_arrival(BoardIndex board, Rank rank, const wire::Header& header, TimeNs now, ShardEffects& effects);
  // The driver has carried out the fold; its result buffer holds the chunk.
  void on_folded(const Fold& fold, ShardEffects& effects);

  std::uint64_t slots_in_use(BoardIndex board) const;
  const std::vector<Lateness>& lateness(BoardIndex board) const;
  // First to last arrival of the slot that on_arrival() completed last.
  DurationNs last_skew_ns() const { return last_skew_ns_; }

 private:
  struct Slot {
    std::uint64_t number = 0;  // the number it collects now; the next one is number + window
    std::uint32_t arrived = 0;
    bool folding = false;
    std::uint8_t buffer = 0;
    wire::Header first;  // of the contribution that came first: what all others must agree with
    std::optional<Rank> only;
    TimeNs first_arrival = 0, previous_arrival = 0, last_arrival = 0;
  };
  // What a rank has sent in one numbering. Its chunks ascend: a frame that comes twice is no next one.
  struct Sender {
    std::uint64_t arrived = 0;  // contributions so far = the number of its next one
    Sequence sequence = 0;      // of the latest
    std::uint32_t chunk = 0;
  };
  struct Board {
    bool open = false;
    std::uint32_t members = 0;
    wire::JobSettings settings;
    Epoch epoch;
    std::vector<Slot> slots;              // by place
    std::vector<std::uint8_t> no_result;  // [place x members + rank]: wants the result without payload
    std::vector<Sender> senders[2];       // [small][rank]
    // [small]: the lowest number whose contributions disagreed. It gets no result, so no later one may: results of a
    // lane come in the order of their numbers.
    std::uint64_t stopped_at[2] = {~std::uint64_t{0}, ~std::uint64_t{0}};
    std::vector<Lateness> lateness;  // by rank
  };

  static void begin(Board& board);
  Status check_numbering(const Board& board, Rank rank, const wire::Header& header, const Slot& slot) const;
  void note_arrival(Board& board, Slot& slot, Rank rank, TimeNs now);

  std::vector<Board> boards_;
  std::vector<std::uint32_t> free_;
  DurationNs last_skew_ns_ = 0;
};

}  // namespace redsum::server
