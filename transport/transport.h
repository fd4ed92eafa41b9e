// SPDX-License-Identifier: Apache-2.0
// The seam between redsum and a network. Bulk bytes move by one operation: deposit(lane, header, payload) puts the
// payload into the peer's buffer `header.place` of `header.communicator` and then tells the peer that it arrived. A
// lane is reliable and ordered. A transport does not know what an all-reduce is: it reports arrival and lane loss,
// nothing else.
//
// A lane begins as a Link: a connected, authenticated channel made by a backend's Dialer or Listener on a control
// thread, then adopted by the one Transport whose thread owns it from then on. Data threads never shake hands, and
// strangers never reach them.
//
// Threads: a Transport belongs to one thread; every call and every sink callback happens there. Dialer and Listener
// belong to the thread of the loop they were made with.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "transport/base/status.h"
#include "transport/base/time.h"
#include "transport/base/types.h"
#include "transport/wire/handshake.h"
#include "transport/wire/header.h"

namespace redsum::transport {

using LaneId = Number<struct LaneTag, std::uint64_t>;  // never used again within one Transport

// Where arriving payloads of one communicator go: place i is the `place_bytes` bytes at first + i x stride. The 64
// bytes before each place belong to it too (one-sided transports land the header there), so stride >= place_bytes + 64.
struct PlaceTable {
  std::byte* first = nullptr;
  std::size_t stride = 0;
  std::size_t place_bytes = 0;
  std::uint16_t places = 0;
  // Optional, the owner's, one for each place: other memory for the payload of the next frame of that place, if it has
  // exactly that size; empty: none. A backend that moves the payload itself puts it there and reports it there, others
  // take no notice; so the owner looks where the payload lies. Read when a frame of the place begins; the owner changes
  // an entry at any time and has to clear it once the frame has arrived. Memory it names is the transport's to write
  // until then or until hide().
  const Bytes* redirects = nullptr;
};

// How far apart places of so many bytes are: header and place, in whole cache lines.
constexpr std::size_t place_stride(std::size_t place_bytes) noexcept {
  return wire::kHeaderBytes + (place_bytes + 63) / 64 * 64;
}

// What a transport reports to its owner. No callback may close or adopt a lane of the same transport except by
// Transport::close(), which is safe from everywhere.
class LaneSink {
 public:
  virtual ~LaneSink() = default;
  // A frame lies in its place. `header` has passed check_header() and fits the place; `payload` is the place's memory
  // and stays as it is until the peer deposits into that place again.
  virtual void on_arrival(LaneId lane, const wire::Header& header, Bytes payload) = 0;
  // The lane is gone and forgotten: by the peer, the network or a frame that breaks the protocol. Not called for lanes
  // that the owner closed. Reported once.
  virtual void on_lane_lost(LaneId lane, const Status& why) = 0;
};

// A connected and authenticated channel that no transport owns yet. Destroying it closes it.
class Link {
 public:
  virtual ~Link() = default;
  virtual const wire::Hello& hello() const = 0;  // who is at the other end (listener) or who we said we are (dialer)
  virtual std::string peer_address() const = 0;  // "host:port", for messages
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual LaneId adopt(std::unique_ptr<Link> link) = 0;

  // From now on frames of `communicator` that arrive on `lane` land in `places`, whose memory outlives hide(). Frames
  // that arrive before expose() break the protocol: the lane is lost.
  virtual void expose(LaneId lane, CommunicatorId communicator, const PlaceTable& places) = 0;

  // From now on frames of `communicator` are dropped silently, in both directions: what is queued to be sent and not
  // begun is forgotten. When it returns, the transport no longer reads or writes memory of that communicator.
  virtual void hide(LaneId lane, CommunicatorId communicator) = 0;

  // Queues one frame; the header is copied and sealed (magic, version and CRC filled in), the payload is read later, so
  // it must stay as it is until the peer is known to hold it, or until hide() or close(). header.payload_bytes must
  // equal payload.size(). False: the lane is gone.
  virtual bool deposit(LaneId lane, const wire::Header& header, ConstBytes payload) = 0;

  // How many of the frames deposited on the lane since it was adopted the transport has done with, because the network
  // has all of them (so the peer gets them though the lane is closed now) or hide() forgot them. Counts in order:
  // the payload of the n-th frame (from 1) is the owner's again once sent() >= n. Never falls, and ends at the number
  // of deposits that returned true. A lane that is gone: kAllSent. Once it has said less than all, arm() wakes up for
  // its growth too.
  virtual std::uint64_t sent(LaneId lane) const = 0;
  static constexpr std::uint64_t kAllSent = std::numeric_limits<std::uint64_t>::max();
  // True when nothing queued on the lane still has to be read from the owner's memory: sent() counts every deposit.
  virtual bool drained(LaneId lane) const = 0;
  // True while the peer may be writing into places of the lane: a frame is half here, or here and not reported yet. A
  // backend that cannot know says true.
  virtual bool landing(LaneId lane) const = 0;

  virtual void close(LaneId lane) = 0;  // unknown or lost lanes are fine
  virtual std::string peer_address(LaneId lane) const = 0;

  // Moves what can be moved without waiting and calls the sink; returns how many frames it moved either way.
  virtual std::size_t poll() = 0;
  // Asks for a wake-up of the owner's loop when something arrives. False: something already did; poll again.
  virtual bool arm() = 0;

  struct Counters {
    std::uint64_t bytes_sent = 0, bytes_received = 0;  // frames with their headers
    std::uint64_t frames_sent = 0, frames_received = 0;
    std::uint64_t send_calls = 0, receive_calls = 0;  // system calls, where the backend makes any
    std::uint64_t frames_dropped = 0;                 // of hidden communicators
  };
  virtual Counters counters() const = 0;
};

// Makes links to reducers. One unit of resolve + connect + handshake, tried again with jittered back-off until the
// deadline.
class Dialer {
 public:
  virtual ~Dialer() = default;
  using Done = std::function<void(Result<std::unique_ptr<Link>>)>;
  // `address` is host:port ([v6]:port too). `done` is called once, on the loop's thread; after cancel() it is not
  // called.
  virtual void dial(const std::string& address, const wire::Hello& hello, const wire::Key& key, TimeNs deadline,
                    Done done) = 0;
  virtual void cancel() = 0;
};

// Takes links in. A peer that does not prove its key is closed without effect.
class Listener {
 public:
  virtual ~Listener() = default;
  // The key that `hello` must prove, or why it is refused. Called on the loop's thread.
  using KeyFor = std::function<Result<wire::Key>(const wire::Hello&)>;
  using Accepted = std::function<void(std::unique_ptr<Link>)>;
  virtual std::string address() const = 0;  // as bound, with the real port
};

}  // namespace redsum::transport
