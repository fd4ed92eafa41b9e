// SPDX-License-Identifier: Apache-2.0
// One submitted collective: shared by the user's handle and the progress agent, freed by whoever lets go last.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "client/core/chunk_layout.h"
#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/base/types.h"
#include "transport/wire/call.h"

namespace redsum::client {

// A piece of a call's data; the memory is the user's. Where this rank only sends or only receives it, the other address
// is nullptr.
struct Tensor {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t count = 0;  // elements
  std::uint64_t first = 0;  // its first element in the call
  std::size_t index = 0;    // in the caller's list, which may have empty ones
};

// What this rank has for `rank` in an exchange, or wants from it; the memory is the user's.
struct OutgoingPart {
  std::uint32_t rank = 0;
  const std::byte* from = nullptr;
  std::uint64_t elements = 0;
};
struct IncomingPart {
  std::uint32_t rank = 0;
  std::byte* to = nullptr;
  std::uint64_t elements = 0;
};

class Call {
 public:
  using Callback = std::function<void(const Status&)>;

  // -- set before submission, constant after
  wire::CallDescription description;
  Sequence sequence = 0;
  std::vector<Tensor> tensors;         // without empty ones, ascending by `first`
  bool in_place = false;               // some output is its input
  std::vector<OutgoingPart> outgoing;  // of an exchange, which has no tensors. The own part in both: it is copied
  std::vector<IncomingPart> incoming;
  bool rollback = true;
  TimeNs submitted = 0, deadline = kNever;
  DurationNs timeout = 0;  // for messages

  std::string name() const;  // "call 7 (barrier)", "receive of 5 fp32 from rank 1"

  // -- the progress agent's alone: the layout, and copies of the input by chunk, dtype as the user's; see ProgressAgent
  ChunkLayout layout;
  std::vector<std::byte*> backups;
  std::size_t backup_bytes = 0;  // of one block

  // -- completion. Any thread.
  bool done() const { return done_.load(std::memory_order_acquire); }
  bool wait_until(TimeNs limit);  // false: not done yet
  // Once; runs the callback on this thread.
  void complete(const Status& status, std::uint32_t contributors, Epoch epoch = {});
  bool on_complete(Callback callback);              // false: there is one already
  const Status& status() const { return status_; }  // after done()
  std::uint32_t contributors() const { return contributors_; }
  Epoch epoch() const { return epoch_; }  // in which it completed

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<bool> done_{false};
  Status status_;
  std::uint32_t contributors_ = 0;
  Epoch epoch_;
  Callback callback_;
  bool has_callback_ = false;
};
using CallPtr = std::shared_ptr<Call>;

// " 1 5 7 and 12 more" for messages: at most 16 of `ranks`, `all` in all.
std::string ranks_text(const std::vector<std::uint32_t>& ranks, std::size_t all);

// Copies elements [offset, offset + count) of the call into `to`, as `wire` elements; and back. `to`/`from` are
// contiguous.
void gather(const Call& call, std::uint64_t offset, std::uint64_t count, DType wire, std::byte* to);
void scatter(const Call& call, std::uint64_t offset, std::uint64_t count, DType wire, const std::byte* from);
// What a roll-back needs: elements of tensors in place, in the user's dtype, copied aside and put back. The others are
// left out of both (their places in the block hold nothing).
void save_in_place(const Call& call, std::uint64_t offset, std::uint64_t count, std::byte* to);
void put_back(const Call& call, std::uint64_t offset, std::uint64_t count, const std::byte* from);
// Some of the elements will be overwritten by their result.
bool overwrites_input(const Call& call, std::uint64_t offset, std::uint64_t count);
// The elements where they lie, when they lie in one tensor's input (output); otherwise nullptr.
const std::byte* contiguous_input(const Call& call, std::uint64_t offset, std::uint64_t count);
std::byte* contiguous_output(const Call& call, std::uint64_t offset, std::uint64_t count);

}  // namespace redsum::client
