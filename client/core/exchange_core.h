// SPDX-License-Identifier: Apache-2.0
// Messages from one worker of a communicator to another, over a lane of their own: what may be sent now, what an
// arriving frame means, when a place is free again. One Outbox at the sender, one Inbox at the receiver. Pure: no
// memory of payloads, thread, clock, socket.
//
// Messages match in the order in which both ends submitted them. A message is cut into frames of at most chunk_bytes
// (at least one, of an empty message without payload), which are numbered through all messages of the lane. Frame c
// lies in place c mod W. The receiver takes frames out of their places in order, once the call that wants them is
// submitted, and says how many it has taken (frames `held`, against the data); the sender sends number c only when it
// knows that c - W was taken. So what nobody has asked for yet waits in its place, and memory is bounded.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "transport/base/status.h"
#include "transport/base/types.h"
#include "transport/wire/call.h"
#include "transport/wire/control.h"
#include "transport/wire/header.h"

namespace redsum::client {

// What identifies one direction of a pair, alike at both ends.
struct ExchangeRoute {
  CommunicatorId communicator;
  Rank from, to;
  Epoch epoch;
  std::uint32_t chunk_bytes = 0;
  std::uint16_t window = 1;
};

// What one call has for, or wants from, the other rank. `call` outlives the message.
struct Message {
  Sequence sequence = 0;  // of the call, for its owner
  std::size_t part = 0;   // which of the call's parts, for its owner
  std::uint64_t elements = 0;
  const wire::CallDescription* call = nullptr;
  std::uint64_t signature = 0;  // of the call
};

// A piece of a message: elements [offset, offset + elements) of it.
struct MessagePiece {
  Sequence sequence = 0;
  std::size_t part = 0;
  std::uint64_t offset = 0, elements = 0;
  std::uint16_t place = 0;  // at the receiver
  bool last = false;        // of its message
};

class Outbox {
 public:
  explicit Outbox(const ExchangeRoute& route) : route_(route) {}
  void push(const Message& message) { messages_.push_back(message); }
  bool empty() const { return messages_.empty(); }
  bool holds(Sequence sequence) const;  // some message of that call, not wholly sent
  // The next frame that the window allows; false: none, now. The caller must send what it gets.
  bool next(MessagePiece& piece, wire::Header& header);
  // What the receiver says. An error means that it broke the protocol.
  Status on_held(const wire::Header& header);

 private:
  const ExchangeRoute route_;
  std::deque<Message> messages_;  // not wholly sent
  std::uint64_t number_ = 0;      // of the first of them on this lane
  std::uint32_t chunk_ = 0;       // of it, that goes next
  std::uint64_t sent_ = 0, taken_ = 0;
};

class Inbox {
 public:
  explicit Inbox(const ExchangeRoute& route) : route_(route), arrived_headers_(route.window) {}
  void push(const Message& message);
  bool empty() const { return messages_.empty(); }
  bool expects(Sequence sequence) const;  // some message of that call, not wholly taken
  // A frame lies in its place. An error means that the sender broke the protocol.
  Status on_message(const wire::Header& header);
  // The next frame that is here and wanted: its place is free when the caller asks for the next. false: none, now.
  // mismatch: the sender's call is another one, both are named; protocol_error: as above.
  Result<bool> next(MessagePiece& piece);
  // Frames that have not come and whose place and call are known, each told once, in order; false: no more, now.
  bool next_awaited(MessagePiece& piece);
  // The frame that tells the sender how many were taken, when that is due.
  std::optional<wire::Header> due_held();

 private:
  struct Expected : Message {
    std::uint64_t first_frame = 0;  // its number on the lane
    std::uint32_t frames = 1;
  };
  MessagePiece piece_of(const Expected& message, std::uint64_t frame) const;
  Status check(const Expected& message, const MessagePiece& piece, const wire::Header& header) const;

  const ExchangeRoute route_;
  std::deque<Expected> messages_;              // not wholly taken
  std::vector<wire::Header> arrived_headers_;  // by place
  std::uint64_t number_ = 0;                   // of the first message on this lane
  std::uint64_t frames_expected_ = 0;          // of all messages up to now
  std::uint64_t arrived_ = 0, taken_ = 0, told_ = 0;
  std::uint64_t awaited_ = 0;  // frames below were told as awaited, or had come before
};

}  // namespace redsum::client
