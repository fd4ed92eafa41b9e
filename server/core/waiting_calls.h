// SPDX-License-Identifier: Apache-2.0
// Who waits for which call of one communicator, and with which arguments: from this the coordinator tells a rank whom
// it waits for, and why calls do not match. Bounded: the calls that nobody spoke of for longest are forgotten.
#pragma once
#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "transport/base/time.h"
#include "transport/base/types.h"
#include "transport/wire/call.h"

namespace redsum::server {

inline constexpr std::size_t kMaxWaitingCalls = 64;

struct WaitingCall {
  struct Group {
    wire::CallDescription call;
    std::vector<std::uint32_t> ranks;  // that asked for just this, ascending
  };
  Sequence sequence = 0;
  std::vector<Group> groups;   // in the order in which they were first heard of
  std::vector<bool> reported;  // by rank
  std::uint32_t reports = 0;
  TimeNs verdict_at = kNever;  // it does not match: the text waits until then for the others' descriptions
  std::string reporter;        // the reducer that found out, if one did
};

class WaitingCalls {
 public:
  explicit WaitingCalls(std::uint32_t members) : members_(members) {}

  WaitingCall& at(
      Sequence sequence);  // of a new one if need be; the reference lives until the next call of at() or clear()
  WaitingCall* find(Sequence sequence);  // nullptr: nobody has spoken of it
  // A second report of the same rank for the same call changes nothing.
  void add(WaitingCall& call, std::uint32_t rank, const wire::CallDescription& description);
  std::vector<std::uint32_t> missing(const WaitingCall& call) const;
  TimeNs next_verdict() const;
  WaitingCall* due(TimeNs now);  // whose verdict is due; nullptr: none
  void clear() { calls_.clear(); }
  std::size_t size() const { return calls_.size(); }

 private:
  std::uint32_t members_;
  std::list<WaitingCall> calls_;  // spoken of last: in front
};

// "call 7 differs in count: rank 0 has 10, ranks 1, 2 have 12 (allreduce of 10 fp32, sum)"; when no difference is
// known, what is.
std::string mismatch_text(const WaitingCall& call, const std::vector<std::uint32_t>& missing);
// The ranks outside the largest group; of equal groups that with the lowest rank is right.
std::vector<std::uint32_t> odd_ranks(const WaitingCall& call);

}  // namespace redsum::server
