// SPDX-License-Identifier: Apache-2.0
// A decorator that makes any transport worse, as far as the seam allows: frames are told late, deposits reach the inner
// transport late, lanes break after a number of frames or bytes. Order and contents stay as the seam promises. What
// happens follows from the plan's seed and the calls; time is counted in polls, so that no clock is needed. With the
// default plan it changes nothing.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/prng.h"
#include "transport/transport.h"

namespace redsum::fault {

struct Range {
  std::uint64_t least = 0, most = 0;  // both included
};

struct Plan {
  std::uint64_t seed = 1;
  std::uint64_t late_arrival_percent = 0;  // of the frames that arrive; those behind on the lane wait too
  Range late_arrival_polls{1, 8};
  std::uint64_t late_deposit_percent = 0;  // of the deposits; likewise
  Range late_deposit_polls{1, 8};
  std::uint64_t broken_lane_percent = 0;  // of the lanes: they break once both of the following have passed
  Range broken_after_frames{0, 100};      // sent and received
  Range broken_after_bytes{0, 0};         // headers count
};

class FaultTransport final : public transport::Transport, private transport::LaneSink {
 public:
  // `make_inner` is called once, with the sink that the inner transport reports to. nullptr: it failed.
  using MakeInner = std::function<std::unique_ptr<transport::Transport>(transport::LaneSink&)>;
  static std::unique_ptr<FaultTransport> make(transport::LaneSink& sink, const Plan& plan, const MakeInner& make_inner);

  // Breaks a lane now; the owner hears of it in the next poll, after what had arrived. The peer sees a closed
  // connection.
  void break_lane(transport::LaneId lane);

  transport::LaneId adopt(std::unique_ptr<transport::Link> link) override;
  void expose(transport::LaneId lane, CommunicatorId communicator, const transport::PlaceTable& places) override;
  void hide(transport::LaneId lane, CommunicatorId communicator) override;
  bool deposit(transport::LaneId lane, const wire::Header& header, ConstBytes payload) override;
  std::uint64_t sent(transport::LaneId lane) const override;
  bool drained(transport::LaneId lane) const override;
  bool landing(transport::LaneId lane) const override;
  void close(transport::LaneId lane) override;
  std::string peer_address(transport::LaneId lane) const override { return inner_->peer_address(lane); }
  std::size_t poll() override;
  bool arm() override;
  Counters counters() const override;

  struct Injected {
    std::uint64_t late_arrivals = 0, late_deposits = 0, broken_lanes = 0;
  };
  Injected injected() const { return injected_; }

 private:
  struct Lane {
    std::uint64_t arrival_poll = 0;  // what arrives is told in this poll at the earliest
    std::uint64_t deposit_poll = 0;  // likewise
    bool breaks = false;
    std::uint64_t frames_left = 0, bytes_left = 0;  // until it breaks
    bool broken = false;                            // closed below; its owner has not heard of it yet
    bool refuses = false;                           // broken, and deposits say so already
    std::uint64_t deposits = 0;                     // the owner's, ever
    std::uint64_t passed = 0;                       // of them to the inner transport
    // From the frame that the inner transport counts as `from` on, so many were forgotten here before they reached it.
    struct Skip {
      std::uint64_t from = 0, frames = 0;
    };
    std::vector<Skip> skips;
    std::uint64_t number_of(std::uint64_t inner) const;  // of the owner's deposit
  };
  struct Arrival {  // or the lane's loss, when `why` is an error
    transport::LaneId lane;
    std::uint64_t poll = 0;
    wire::Header header;
    Bytes payload;
    Status why;
    bool forgotten = false;
  };
  struct Deposit {
    transport::LaneId lane;
    std::uint64_t poll = 0;
    wire::Header header;
    ConstBytes payload;
    std::uint64_t number = 0;  // of the owner's deposits on the lane, from 0
    bool forgotten = false;
  };

  FaultTransport(transport::LaneSink& sink, const Plan& plan) : sink_(sink), plan_(plan), random_(plan.seed) {}
  void on_arrival(transport::LaneId lane, const wire::Header& header, Bytes payload) override;
  void on_lane_lost(transport::LaneId lane, const Status& why) override;
  Lane* find(transport::LaneId lane);
  std::uint64_t draw(const Range& range) { return random_.between(range.least, range.most); }
  bool strikes(Lane& lane, std::size_t payload_bytes);  // this frame is one too many
  bool pass_on(const Deposit& deposit, Lane& lane);
  void break_now(transport::LaneId id, Lane& lane);
  void release_deposits();
  std::size_t release_arrivals();
  void forget_deposits(transport::LaneId lane);

  transport::LaneSink& sink_;
  const Plan plan_;
  Prng random_;
  std::uint64_t poll_ = 0;  // number of the current or last poll
  std::map<std::uint64_t, Lane> lanes_;
  std::vector<Arrival> arrivals_;  // held back, in order
  std::vector<Deposit> deposits_;  // likewise
  std::uint64_t dropped_ = 0;      // of hidden communicators, while held back
  Injected injected_;
  std::unique_ptr<transport::Transport> inner_;  // last: its destructor may not meet a sink that is gone
};

}  // namespace redsum::fault
