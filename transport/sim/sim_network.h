// SPDX-License-Identifier: Apache-2.0
// A simulated network behind the transport seam: virtual time, one heap of events ordered by (time, sequence), and
// everything that is random drawn from one seed, so that a seed replays a run on any compiler. Lanes are reliable and
// ordered; memory is one-sided, as with RDMA: header and payload land in the exposed place when the network says so,
// whether or not the receiver polls, and the payload is read from the sender's memory as late as at that moment. Part
// of a payload may land before its arrival is told. A buffer that is used again too early, at either end, therefore
// shows up as wrong bytes.
//
// One thread. The network outlives its endpoints and links. Nothing happens except in step() and run_until(); sink
// callbacks come only from Transport::poll().
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/base/prng.h"
#include "transport/base/time.h"
#include "transport/transport.h"

namespace redsum::sim {

class Fabric;

using EndpointId = Number<struct EndpointTag, std::uint32_t>;  // one transport of one process's life
using SimLane = Number<struct SimLaneTag, std::uint32_t>;      // a lane with its two ends

// The ends of a lane, in the order in which make_link() returned them.
enum class Side : std::uint8_t { left = 0, right = 1 };

// How long a frame is under way: uniform in [least, most], plus its share of the bandwidth. A frame never overtakes
// another of its lane and direction.
struct Delay {
  DurationNs least_ns = 5 * kMicrosecond;
  DurationNs most_ns = 50 * kMicrosecond;
  DurationNs per_kib_ns = 0;
};

// How the two ends hear of the end of a lane, counted from the cut. kNever: that end never learns (half-open).
struct Notice {
  DurationNs left_ns = 0;
  DurationNs right_ns = 0;
};

class SimEndpoint : public transport::Transport {
 public:
  virtual EndpointId id() const = 0;
  // Called from step() when something lies ready after arm() returned true; `wake` polls (and arms again). None: nobody
  // is called and whoever owns the endpoint polls it when it likes.
  virtual void on_wake(std::function<void()> wake) = 0;
};

class SimNetwork {
 public:
  explicit SimNetwork(std::uint64_t seed);
  ~SimNetwork();
  SimNetwork(const SimNetwork&) = delete;

  // -- time
  TimeNs now() const;                                // starts at one second: 0 is no point in time here
  void at(TimeNs when, std::function<void()> work);  // the past is now; equal times run in the order of the calls
  bool step();                                       // runs the next event; false: there is none
  void run_until(TimeNs when);                       // runs what is due until then; now() == when afterwards
  // Runs until `done` holds (checked after each event). False: it does not hold at `limit`, or nothing is left to
  // happen.
  bool run_until(const std::function<bool()>& done, TimeNs limit);
  Prng& random();  // of this run; drawing from it is part of the run

  // -- who is there
  std::unique_ptr<SimEndpoint> make_endpoint(transport::LaneSink& sink, std::string name);
  struct LinkPair {
    std::unique_ptr<transport::Link> left, right;
    SimLane lane;
  };
  // A fresh lane; both links carry `hello`. Frames wait for the other end to be adopted. Destroying a link closes the
  // lane.
  LinkPair make_link(const wire::Hello& hello);

  // -- weather
  void set_default_delay(const Delay& delay);  // of lanes made from now on
  void set_delay(SimLane lane, Side from, const Delay& delay);
  void set_delay(EndpointId from, const Delay& delay);  // all that it sends on the lanes it has now
  void set_wake_delay(EndpointId at, DurationNs least_ns,
                      DurationNs most_ns);  // a slow process: from arrival to on_wake

  // -- faults
  void stall(EndpointId at, TimeNs until);  // the process stands still: poll() does nothing, no wake. Memory lands
  void stall(SimLane lane, Side from, TimeNs until);  // what `from` sends stays under way until then
  // Now: of the frame that is under way in each direction some bytes land, no arrival is told, then the lane is dead.
  void cut(SimLane lane, const Notice& notice);
  // As soon as `bytes` more have crossed from `from` (headers count): exactly so many land.
  void cut_after(SimLane lane, Side from, std::uint64_t bytes, const Notice& notice);
  // The process is gone: no callback any more, deposits go nowhere. A first part of what it had sent still arrives,
  // then the peers learn after `notice_ns` (kNever: the host is gone, silence). The owner destroys the endpoint when it
  // likes.
  void crash(EndpointId endpoint, DurationNs notice_ns);
  bool crashed(EndpointId endpoint) const;

  // -- what happened
  std::uint64_t trace_hash() const;  // of every event with its time, header and bytes
  void trace(std::uint64_t fact);    // mixes in something of the caller's
  std::uint64_t events() const;      // run so far

 private:
  std::unique_ptr<Fabric> fabric_;
};

}  // namespace redsum::sim
