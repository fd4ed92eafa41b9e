// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "transport/tcp/lane.h"
#include "transport/tcp/socket.h"

namespace redsum::tcp {
namespace {
constexpr std::size_t kFirstFrames = 16;
constexpr std::size_t kGatherFrames = 32;  // in one system call, two pieces each
}  // namespace

SendQueue::SendQueue() : frames_(kFirstFrames) {}

std::uint64_t SendQueue::sent() const noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    const Frame& frame = at(i);
    if (rest_.empty() || frame.payload != rest_.data()) return frame.number;
  }
  return pushed_;
}

void SendQueue::push(const wire::Header& header, ConstBytes payload) {
  if (count_ == frames_.size()) grow();
  Frame& frame = at(count_++);
  frame.header = header;
  frame.header.magic = wire::kMagic;
  frame.header.version = wire::kVersion;
  wire::seal(frame.header);
  frame.payload = payload.data();
  frame.payload_bytes = payload.size();
  frame.number = pushed_++;
  queued_bytes_ += frame.bytes();
}

void SendQueue::grow() {
  std::vector<Frame> wider(frames_.size() * 2);
  for (std::size_t i = 0; i < count_; ++i) wider[i] = at(i);
  frames_ = std::move(wider);
  head_ = 0;
}

std::size_t SendQueue::forget(std::uint16_t communicator) {
  std::size_t kept = 0, forgotten = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    Frame& frame = at(i);
    const bool begun = i == 0 && head_sent_ > 0;
    if (frame.header.communicator == communicator && !begun) {
      queued_bytes_ -= frame.bytes();
      ++forgotten;
      continue;
    }
    if (frame.header.communicator == communicator && frame.payload_bytes != 0 && frame.payload != rest_.data()) {
      rest_.assign(frame.payload, frame.payload + frame.payload_bytes);
      frame.payload = rest_.data();
    }
    if (kept != i) at(kept) = frame;
    ++kept;
  }
  count_ = kept;
  return forgotten;
}

Moved SendQueue::send(int descriptor, transport::Transport::Counters& counters, Status& why) {
  while (count_ != 0) {
    iovec pieces[2 * kGatherFrames];
    std::size_t piece_count = 0, total = 0;
    std::size_t skip = head_sent_;
    const auto add = [&](const void* data, std::size_t bytes) {
      if (skip >= bytes) {
        skip -= bytes;
        return;
      }
      // sendmsg() does not write through the pointer.
      pieces[piece_count++] = {static_cast<std::byte*>(const_cast<void*>(data)) + skip, bytes - skip};
      total += bytes - skip;
      skip = 0;
    };
    for (std::size_t i = 0; i < std::min(count_, kGatherFrames); ++i) {
      add(&at(i).header, wire::kHeaderBytes);
      add(at(i).payload, at(i).payload_bytes);
    }
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = piece_count;
    ++counters.send_calls;
    const ssize_t sent = ::sendmsg(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Moved::blocked;
      why = {Code::peer_lost, "sending failed: " + errno_text(errno)};
      return Moved::broken;
    }
    consume(static_cast<std::size_t>(sent), counters);
    // A short write has marked the socket as full: the next edge tells when there is room.
    if (static_cast<std::size_t>(sent) < total) return Moved::blocked;
  }
  return Moved::all;
}

void SendQueue::consume(std::size_t bytes, transport::Transport::Counters& counters) {
  counters.bytes_sent += bytes;
  queued_bytes_ -= bytes;
  head_sent_ += bytes;
  while (count_ != 0 && head_sent_ >= at(0).bytes()) {
    head_sent_ -= at(0).bytes();
    if (!rest_.empty() && at(0).payload == rest_.data()) rest_ = {};
    head_ = (head_ + 1) & (frames_.size() - 1);
    --count_;
    ++counters.frames_sent;
  }
}

}  // namespace redsum::tcp
