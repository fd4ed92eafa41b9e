// SPDX-License-Identifier: Apache-2.0
// A ring of cores without a network: frames go from each rank to the next, in any interleaving of the lanes.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "client/core/ring_core.h"
#include "transport/base/prng.h"

namespace redsum::client {

using wire::FrameType;
using wire::Kind;
using wire::RingOrder;

inline wire::CallDescription call_of(Kind kind, std::uint64_t count, std::uint32_t root = 0) {
  wire::CallDescription call;
  call.kind = kind;
  call.count = count;
  call.root = root;
  call.via = wire::Via::ring;
  return call;
}

// Places are watched: a frame that is deposited into one whose last one is still needed is found at once.
class Ring {
 public:
  Ring(std::uint32_t members, RingOrder begins = RingOrder::ring, std::uint16_t window = 1)
      : settings_{4096, window, 2, 1024, wire::Mode::ring, begins}, lanes_(members) {
    for (std::uint32_t rank = 0; rank < members; ++rank)
      cores_.push_back(std::make_unique<RingCore>(CommunicatorId(0), Rank(rank), members, Epoch(1), settings_));
  }
  std::uint32_t members() const { return static_cast<std::uint32_t>(cores_.size()); }
  RingCore& core(std::uint32_t rank) { return *cores_[rank]; }

  void submit(std::uint32_t rank, Sequence sequence, const wire::CallDescription& call) {
    core(rank).submit(sequence, call);
    pump(rank);
  }
  void pump(std::uint32_t rank) {
    RingStep step;
    while (true) {
      const auto more = core(rank).next(step);
      ASSERT_TRUE(more) << more.error().to_string();
      if (!*more) return;
      carry_out(rank, step);
    }
  }
  bool deliver(std::uint32_t lane) {  // the oldest frame that rank `lane` sent
    if (lanes_[lane].empty()) return false;
    const wire::Header header = lanes_[lane].front();
    lanes_[lane].pop_front();
    const std::uint32_t to = (lane + 1) % members();
    const Status status = core(to).on_frame(header);
    EXPECT_TRUE(status) << status.to_string();
    pump(to);
    return true;
  }
  void run(Prng& random) {
    while (true) {
      std::vector<std::uint32_t> busy;
      for (std::uint32_t lane = 0; lane < members(); ++lane)
        if (!lanes_[lane].empty()) busy.push_back(lane);
      if (busy.empty()) return;
      deliver(busy[random.below(busy.size())]);
    }
  }

  // All ranks submit `calls`, but the odd one its own, while frames arrive.
  void submit_and_run(Prng& random, const std::vector<wire::CallDescription>& calls,
                      const std::vector<wire::CallDescription>& of_odd, std::uint32_t odd) {
    std::vector<Sequence> next(members(), 0);
    for (bool more = true; more;) {
      more = false;
      const auto rank = static_cast<std::uint32_t>(random.below(members()));
      if (next[rank] < calls.size()) {
        submit(rank, next[rank], (rank == odd ? of_odd : calls)[next[rank]]);
        ++next[rank];
      }
      deliver(static_cast<std::uint32_t>(random.below(members())));
      for (const Sequence at : next) more = more || at < calls.size();
    }
    run(random);
  }

  std::vector<std::deque<wire::Header>> lanes() const { return lanes_; }
  // The ranks whose contributions to a chunk have been folded, in that order; and who has got its data.
  std::map<std::pair<Sequence, std::uint32_t>, std::vector<std::uint32_t>> order;
  std::map<std::pair<Sequence, std::uint32_t>, std::set<std::uint32_t>> got;
  std::map<std::uint32_t, std::vector<Sequence>> complete;  // by rank
  std::vector<std::pair<std::uint32_t, Sequence>> disagreements;
  std::uint64_t payload_bytes = 0;

 private:
  void carry_out(std::uint32_t rank, const RingStep& step) {
    const std::pair<Sequence, std::uint32_t> key{step.sequence, step.chunk};
    if (step.kind == RingStep::Kind::disagree) {
      disagreements.emplace_back(rank, step.sequence);
      return;
    }
    if (step.kind == RingStep::Kind::contribute) order[key].push_back(rank);
    if (step.wanted) got[key].insert(rank);
    if (step.call_complete) complete[rank].push_back(step.sequence);
    if (step.passes) {
      lanes_[rank].push_back(step.header);
      payload_bytes += step.header.payload_bytes;
    }
  }

  wire::JobSettings settings_;
  std::vector<std::unique_ptr<RingCore>> cores_;
  std::vector<std::deque<wire::Header>> lanes_;
};

inline std::vector<wire::CallDescription> draw_calls(Prng& random, std::uint32_t members) {
  std::vector<wire::CallDescription> calls;
  for (std::uint64_t i = random.between(1, 8); i > 0; --i) {
    const auto kind = static_cast<Kind>(random.below(static_cast<unsigned>(Kind::all_to_all)));
    std::uint64_t count = kind == Kind::barrier ? 0 : random.below(random.chance(50) ? 300 : 20'000);
    if (wire::has_parts(kind)) count = count / members * members;
    calls.push_back(call_of(kind, count, static_cast<std::uint32_t>(random.below(members))));
  }
  return calls;
}

}  // namespace redsum::client
