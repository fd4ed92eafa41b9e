// SPDX-License-Identifier: Apache-2.0
// The inside of the simulated network: lanes, frames under way, the event heap. Private to transport/sim.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/base/prng.h"
#include "transport/sim/sim_network.h"

namespace redsum::sim {

class Endpoint;

struct Frame {
  wire::Header header;
  const std::byte* payload = nullptr;
  TimeNs due = 0;                     // when it arrives, before stalls
  std::uint64_t number = 0;           // of all deposits of its way, from 0
  std::uint32_t landed = 0;           // payload bytes that lie in the place already
  std::byte* at = nullptr;            // where they lie: the place, or memory it is redirected to
  bool discard = false;               // its communicator was hidden after a part had landed
  std::unique_ptr<std::byte[]> copy;  // of the payload, where the sender's memory may not be read any more
};

// Frames in order; the front one is the one that moves. Memory is kept, so that a running lane does not allocate.
class FrameQueue {
 public:
  bool empty() const { return head_ == frames_.size(); }
  std::size_t size() const { return frames_.size() - head_; }
  Frame& operator[](std::size_t i) { return frames_[head_ + i]; }
  void push(Frame&& frame) { frames_.push_back(std::move(frame)); }
  void pop();
  void clear();
  void cut_to(std::size_t size) { frames_.resize(head_ + size); }
  // Removes the frames from index `from` on that `gone` names; returns how many.
  template <typename Gone>
  std::size_t remove_if(std::size_t from, Gone gone);

 private:
  std::vector<Frame> frames_;
  std::size_t head_ = 0;
};

// What an end has said about one communicator.
struct Exposed {
  CommunicatorId communicator;
  bool hidden = false;
  std::uint32_t generation = 0;  // grows with every expose() and hide()
  transport::PlaceTable places;
};

struct End {
  Endpoint* endpoint = nullptr;  // nullptr: not adopted yet, or gone
  std::string name;              // of the endpoint, also when it is gone
  bool gone = false;             // closed by its owner, crashed, or its loss has been reported
  bool told = false;             // it has learnt of its loss; the inbox has it, or will when it is adopted
  std::vector<Exposed> exposed;
  Exposed* find(CommunicatorId communicator);
};

// One way of a lane, from end i to end 1 - i.
struct Direction {
  FrameQueue frames;
  Delay delay;
  TimeNs last_due = 0;
  TimeNs stalled_until = 0;
  std::uint64_t budget_bytes = ~std::uint64_t{0};  // until cut_after() strikes
  std::uint32_t ticket = 0;                        // of the one event that moves the front frame; older ones are void
  std::uint32_t land_bytes = 0;                    // how much that event lets land, if it is not the arrival
  std::uint64_t deposits = 0;                      // ever, with those that were dropped at once
  std::uint64_t awaited = ~std::uint64_t{0};       // its owner waits for more to be sent than so many
  bool moving = false;
  bool closing = false;  // what is queued still arrives, then the lane is dead
};

struct Lane {
  std::array<End, 2> ends;
  std::array<Direction, 2> ways;
  bool dead = false;
  Notice notice;  // of the cut_after() or the closing that is under way
  wire::Hello hello;
};

enum class EventKind : std::uint8_t { work, move, notice, wake };
struct Event {
  TimeNs time = 0;
  std::uint64_t sequence = 0;
  EventKind kind = EventKind::work;
  std::uint8_t side = 0;
  std::uint32_t subject = 0;  // lane, endpoint or slot in works_
  std::uint32_t ticket = 0;
};

class Fabric {
 public:
  explicit Fabric(std::uint64_t seed) : random(seed) { heap_.reserve(64); }

  // -- fabric.cc: events and frames
  void schedule(TimeNs when, EventKind kind, std::uint32_t subject, unsigned side = 0, std::uint32_t ticket = 0);
  void schedule_work(TimeNs when, std::function<void()> work);
  bool step();
  TimeNs next_time() const { return heap_.empty() ? kNever : heap_.front().time; }
  std::uint32_t make_lane(const wire::Hello& hello);
  void adopt(std::uint32_t lane, unsigned side, Endpoint* endpoint);
  bool deposit(std::uint32_t lane, unsigned side, const wire::Header& header, ConstBytes payload);
  void move_next(std::uint32_t lane, unsigned side);  // schedules the front frame of a way, if there is one
  static std::uint64_t sent(Direction& way);          // deposits before the first whose payload is still to be read
  bool under_way(std::uint32_t lane, unsigned side) { return !lanes[lane]->ways[side].frames.empty(); }
  DurationNs draw(const Delay& delay);
  void mix(std::uint64_t fact);

  // -- fabric_faults.cc: ends of lanes
  void expose(std::uint32_t lane, unsigned side, CommunicatorId communicator, const transport::PlaceTable& places);
  std::uint64_t hide(std::uint32_t lane, unsigned side, CommunicatorId communicator);  // returns frames forgotten
  void close(std::uint32_t lane, unsigned side, DurationNs notice_ns);
  void cut(std::uint32_t lane, const Notice& notice);
  void kill(std::uint32_t lane, const Notice& notice);  // dead from now on, nothing more lands
  void lose(std::uint32_t lane, unsigned side, Code code,
            const std::string& why);  // the end at `side` learns of its loss

  Prng random;
  TimeNs now = kSecond;
  Delay default_delay;
  std::uint64_t trace_hash = 0x9E3779B97F4A7C15ull;
  std::uint64_t events = 0;
  std::vector<std::unique_ptr<Lane>> lanes;
  std::vector<Endpoint*> endpoints;  // nullptr: destroyed

 private:
  void run(const Event& event);
  void move(std::uint32_t lane, unsigned side, std::uint32_t ticket);
  bool land(Lane& lane, unsigned side, Frame& frame, std::uint32_t until);
  void arrive(std::uint32_t lane, unsigned side);
  void tell_sent(Lane& lane, unsigned side);  // the end at `side` may have been waiting for it
  Status fits(Lane& lane, unsigned side, const Frame& frame) const;
  void break_protocol(std::uint32_t lane, unsigned side, const Status& why);
  void discard_begun(Lane& lane, unsigned side, CommunicatorId communicator);
  void copy_first(Direction& way, std::size_t count);
  void land_some(Lane& lane, unsigned side);

  std::vector<Event> heap_;
  std::uint64_t next_sequence_ = 0;
  std::vector<std::function<void()>> works_;
  std::vector<std::uint32_t> free_works_;
};

template <typename Gone>
std::size_t FrameQueue::remove_if(std::size_t from, Gone gone) {
  std::size_t keep = head_ + from;
  for (std::size_t i = head_ + from; i < frames_.size(); ++i) {
    if (gone(frames_[i])) continue;
    if (i != keep) frames_[keep] = std::move(frames_[i]);
    ++keep;
  }
  const std::size_t removed = frames_.size() - keep;
  frames_.resize(keep);
  return removed;
}

}  // namespace redsum::sim
