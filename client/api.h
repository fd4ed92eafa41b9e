// SPDX-License-Identifier: Apache-2.0
// What the functions of the C interface share: the objects behind its handles, and how errors leave it. No exception
// leaves a function.
#pragma once
#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "client/job.h"
#include "client/keys_in_use.h"
#include "client/redsum.h"

struct redsum_comm {
  std::shared_ptr<redsum::client::Job> job;
  redsum::CommunicatorId id;
  redsum::Epoch began;  // of its membership
  bool world = false;
  std::vector<std::uint32_t> members;  // ranks in the job
  std::uint32_t rank = 0;              // own, in the communicator
  std::shared_ptr<redsum::client::KeysInUse> keys = std::make_shared<redsum::client::KeysInUse>();

  std::mutex mutex;                              // submissions: sequence and hand-over are one step
  redsum::Sequence next_sequence = 0;            // of collectives, the same on every rank
  redsum::Sequence next_own = 0;                 // of sends and receives
  std::deque<redsum::client::CallPtr> pending;   // completed ones leave at the front
  std::uint64_t completed = 0, failed = 0;       // of those that left `pending`
  std::optional<redsum::Sequence> first_failed;  // collective among these

  void forget_completed() {
    while (!pending.empty() && pending.front()->done()) {
      const redsum::client::Call& call = *pending.front();
      (call.status().ok() ? completed : failed) += 1;
      const bool own = (call.sequence & redsum::client::kOwnSequences) != 0;
      if (!call.status().ok() && !own && !first_failed) first_failed = call.sequence;
      pending.pop_front();
    }
  }
};

struct redsum_handle {
  redsum::client::CallPtr call;
  std::shared_ptr<redsum::client::KeysInUse> keys;  // holds the call's key; empty: it has none, or has given it back
  std::mutex mutex;

  redsum_handle(redsum::client::CallPtr of, std::shared_ptr<redsum::client::KeysInUse> holder)
      : call(std::move(of)), keys(std::move(holder)) {}
  ~redsum_handle() { give_key_back(); }
  void give_key_back() {
    std::lock_guard lock(mutex);
    if (keys) keys->give(call->description.key);
    keys = nullptr;
  }
};

namespace redsum::client {

// A call of this kind with the caller's options; what every call needs is checked.
Result<CallPtr> begin_call(const redsum_comm* comm, redsum_handle** handle, wire::Kind kind, redsum_dtype dtype,
                           redsum_op op, const redsum_call_options* options);
// `rank` of `comm`, or invalid_argument with the argument's name.
Result<std::uint32_t> rank_of(const redsum_comm& comm, const char* name, std::int32_t rank);
// Checks that the call can be carried out now and hands it over; fills in sequence and deadline.
Status submit(redsum_comm& comm, CallPtr call, redsum_handle** handle);

// The world communicator is that of this membership.
void enter(redsum_comm& world, const Membership& membership);

redsum_status report(const Status& status);  // and keeps the text for redsum_last_error()
const char* last_error_text();               // of this thread

// Runs the body of a C function: a Status out, whatever happens inside.
template <typename Body>
redsum_status guarded(Body body) noexcept {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return static_cast<redsum_status>(Code::resource_exhausted);
  } catch (const std::exception& error) {
    return report({Code::internal, error.what()});
  }
}

// To a caller whose struct has `bytes` bytes: that of an older or newer version of the header.
template <typename T>
void write_sized(T* to, T value, std::size_t bytes) {
  value.struct_bytes = std::min(bytes, sizeof value);
  std::memcpy(static_cast<void*>(to), &value, value.struct_bytes);
}

}  // namespace redsum::client
