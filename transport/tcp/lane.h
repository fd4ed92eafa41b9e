// SPDX-License-Identifier: Apache-2.0
// The two halves of one lane over a stream socket, and nothing about threads, loops or lanes' owners: SendQueue gathers
// queued frames into few system calls, FrameReader puts arriving payloads straight into their places. Neither allocates
// in the steady state. One thread.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "transport/base/status.h"
#include "transport/base/types.h"
#include "transport/transport.h"
#include "transport/wire/header.h"

namespace redsum::tcp {

// How a transfer ended that moves as much as it can.
enum class Moved : std::uint8_t {
  all,      // sending: the queue is empty; reading: the socket is empty for now
  blocked,  // sending: the socket is full
  budget,   // reading: there may be more, but it is the others' turn
  broken,   // the lane is over, see the status
};

class SendQueue {
 public:
  SendQueue();
  bool empty() const noexcept { return count_ == 0; }
  std::size_t queued_bytes() const noexcept { return queued_bytes_; }
  // How many of the frames ever pushed need the owner's memory no more, in order: what is before the first that does.
  std::uint64_t sent() const noexcept;
  bool drained() const noexcept { return sent() == pushed_; }

  void push(const wire::Header& header, ConstBytes payload);  // seals its copy of the header
  // Frames of `communicator` that have not begun are forgotten (their number is returned); of one that has, the rest is
  // copied, so that the stream stays in step.
  std::size_t forget(std::uint16_t communicator);
  Moved send(int descriptor, transport::Transport::Counters& counters, Status& why);

 private:
  struct Frame {
    wire::Header header;
    const std::byte* payload = nullptr;
    std::size_t payload_bytes = 0;
    std::uint64_t number = 0;  // of all frames ever pushed, from 0; it keeps those that are forgotten in the count
    std::size_t bytes() const noexcept { return wire::kHeaderBytes + payload_bytes; }
  };
  Frame& at(std::size_t i) noexcept { return frames_[(head_ + i) & (frames_.size() - 1)]; }
  const Frame& at(std::size_t i) const noexcept { return frames_[(head_ + i) & (frames_.size() - 1)]; }
  void grow();
  void consume(std::size_t bytes, transport::Transport::Counters& counters);

  std::vector<Frame> frames_;  // a ring; its size is a power of two
  std::size_t head_ = 0, count_ = 0;
  std::size_t head_sent_ = 0;     // bytes of the first frame that have left
  std::size_t queued_bytes_ = 0;  // not sent
  std::uint64_t pushed_ = 0;      // frames, ever
  std::vector<std::byte> rest_;   // of a frame that was begun when its communicator was hidden
};

class FrameReader {
 public:
  // on_frame() may call expose(), hide() and stop().
  class Target {
   public:
    virtual ~Target() = default;
    virtual void on_frame(const wire::Header& header, Bytes payload) = 0;
  };

  void expose(std::uint16_t communicator, const transport::PlaceTable& places);
  void hide(std::uint16_t communicator);
  bool in_payload() const noexcept { return in_payload_; }  // a frame is half in its place
  void stop() noexcept { stopped_ = true; }                 // from within on_frame(): the lane is closed, read no more

  // Reads until the socket is empty, the budget is spent or the lane is over. `scratch` takes what is to be dropped.
  // `to_end`: the peer is known to have ended the stream, so read until that end is met.
  Moved read(int descriptor, bool to_end, Bytes scratch, Target& target, transport::Transport::Counters& counters,
             Status& why);

 private:
  struct Places {
    transport::PlaceTable table;
    bool hidden = false;
  };
  static constexpr std::size_t kAheadBytes = 2048;
  // Frames with at most so much payload come through the read-ahead buffer, several in one system call and one small
  // copy; larger ones never pass through it: behind them only the next header is read ahead.
  static constexpr std::size_t kSmallBytes = 512;

  bool begin_frame(const std::byte* header_bytes, Status& why);
  bool end_frame(Target& target, transport::Transport::Counters& counters, Status& why);
  bool parse(Target& target, transport::Transport::Counters& counters, Status& why);

  std::unordered_map<std::uint16_t, Places> communicators_;
  wire::Header header_;               // of the frame under way
  std::byte* destination_ = nullptr;  // its place, or where that is redirected
  bool dropping_ = false;             // its communicator is hidden
  std::size_t payload_got_ = 0;
  bool in_payload_ = false;
  bool small_ = false;  // the last payload was
  bool stopped_ = false;
  std::size_t ahead_count_ = 0;  // bytes in ahead_ that are not yet part of a frame
  std::array<std::byte, kAheadBytes> ahead_;
};

}  // namespace redsum::tcp
