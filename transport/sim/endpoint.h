// SPDX-License-Identifier: Apache-2.0
// The simulated transport itself: an inbox that the fabric fills and poll() empties. Private to transport/sim.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/sim/fabric.h"

namespace redsum::sim {

// Names a lane's end as the seam does: never 0, never used again.
inline transport::LaneId lane_id(std::uint32_t lane, unsigned side) {
  return transport::LaneId((std::uint64_t{lane} << 1 | side) + 1);
}

class SimLink final : public transport::Link {
 public:
  SimLink(Fabric& fabric, std::uint32_t lane, unsigned side) : fabric_(&fabric), lane_(lane), side_(side) {}
  ~SimLink() override;
  const wire::Hello& hello() const override { return fabric_->lanes[lane_]->hello; }
  std::string peer_address() const override;
  std::uint32_t lane() const { return lane_; }
  unsigned side() const { return side_; }
  void release() { taken_ = true; }

 private:
  Fabric* fabric_;
  std::uint32_t lane_;
  unsigned side_;
  bool taken_ = false;
};

class Endpoint final : public SimEndpoint {
 public:
  Endpoint(Fabric& fabric, transport::LaneSink& sink, std::string name, std::uint32_t index);
  ~Endpoint() override;

  transport::LaneId adopt(std::unique_ptr<transport::Link> link) override;
  void expose(transport::LaneId lane, CommunicatorId communicator, const transport::PlaceTable& places) override;
  void hide(transport::LaneId lane, CommunicatorId communicator) override;
  bool deposit(transport::LaneId lane, const wire::Header& header, ConstBytes payload) override;
  std::uint64_t sent(transport::LaneId lane) const override;
  bool drained(transport::LaneId lane) const override;
  bool landing(transport::LaneId lane) const override;
  void close(transport::LaneId lane) override;
  std::string peer_address(transport::LaneId lane) const override;
  std::size_t poll() override;
  bool arm() override;
  Counters counters() const override { return counted; }
  EndpointId id() const override { return EndpointId(index_); }
  void on_wake(std::function<void()> wake) override { wake_ = std::move(wake); }

  // -- for the fabric
  struct Letter {  // an arrival, or a loss where `why` is set
    std::uint32_t lane = 0;
    std::uint8_t side = 0;
    std::uint32_t generation = 0;  // of the exposure whose place has it
    std::byte* payload = nullptr;
    wire::Header header;
    std::unique_ptr<Status> why;
  };
  void receive(Letter&& letter);
  void sent_grew() {
    if (armed_) schedule_wake();
  }
  void wake();
  void stall(TimeNs until);
  void crash(DurationNs notice_ns);
  const std::string& name() const { return name_; }
  const std::vector<std::pair<std::uint32_t, unsigned>>& lanes() const { return lanes_; }

  Counters counted;
  DurationNs least_wake_ns = 0, most_wake_ns = 0;
  bool crashed = false;

 private:
  End* end_of(transport::LaneId lane) const;  // nullptr: not ours, closed or lost
  void schedule_wake();
  bool hand_over(Letter& letter);

  Fabric& fabric_;
  transport::LaneSink& sink_;
  std::string name_;
  std::uint32_t index_;
  std::vector<std::pair<std::uint32_t, unsigned>> lanes_;  // all that were ever adopted here
  std::vector<Letter> inbox_;
  std::size_t read_ = 0;  // of the inbox
  TimeNs stalled_until_ = 0;
  bool armed_ = false, wake_scheduled_ = false;
  std::function<void()> wake_;
};

}  // namespace redsum::sim
