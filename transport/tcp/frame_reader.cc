// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/lane.h"
#include "transport/tcp/socket.h"
#include "transport/wire/violation.h"

namespace redsum::tcp {
namespace {
constexpr std::size_t kTurnBytes = 512u << 10;  // of one lane, before the others have their turn
}

void FrameReader::expose(std::uint16_t communicator, const transport::PlaceTable& places) {
  communicators_.insert_or_assign(communicator, Places{places, false});
}

void FrameReader::hide(std::uint16_t communicator) {
  communicators_.insert_or_assign(communicator, Places{{}, true});
  if (in_payload_ && header_.communicator == communicator) dropping_ = true;
}

Moved FrameReader::read(int descriptor, bool to_end, Bytes scratch, Target& target,
                        transport::Transport::Counters& counters, Status& why) {
  for (std::size_t turn_bytes = 0; turn_bytes < kTurnBytes;) {
    iovec pieces[2];
    std::size_t piece_count = 0, payload_want = 0;
    bool rest_fits = true;
    if (in_payload_) {
      const std::size_t rest = header_.payload_bytes - payload_got_;
      payload_want = !dropping_ ? rest : std::min(rest, scratch.size());
      rest_fits = payload_want == rest;
      pieces[piece_count++] = {dropping_ ? scratch.data() : destination_ + payload_got_, payload_want};
    }
    std::size_t ahead_want = 0;
    if (rest_fits) {
      ahead_want = (small_ ? kAheadBytes : wire::kHeaderBytes) - ahead_count_;
      pieces[piece_count++] = {ahead_.data() + ahead_count_, ahead_want};
    }
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = piece_count;
    ++counters.receive_calls;
    const ssize_t got = ::recvmsg(descriptor, &message, MSG_DONTWAIT);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Moved::all;
      why = {Code::peer_lost, "receiving failed: " + errno_text(errno)};
      return Moved::broken;
    }
    if (got == 0) {
      why = {Code::peer_lost, in_payload_ || ahead_count_ != 0
                                  ? "the peer closed the connection in the middle of a frame"
                                  : "the peer closed the connection"};
      return Moved::broken;
    }
    const auto bytes = static_cast<std::size_t>(got);
    counters.bytes_received += bytes;
    turn_bytes += bytes;
    const std::size_t of_payload = std::min(bytes, payload_want);
    payload_got_ += of_payload;
    ahead_count_ += bytes - of_payload;
    if (!parse(target, counters, why)) return Moved::broken;
    if (stopped_) return Moved::all;
    // A short read has emptied the socket, and what comes later is a new edge; an end that is there already is not.
    if (!to_end && bytes < payload_want + ahead_want) return Moved::all;
  }
  return Moved::budget;
}

// Takes frames out of what has been read. Afterwards either a payload is under way and the read-ahead buffer is empty,
// or the buffer holds the beginning of a header.
bool FrameReader::parse(Target& target, transport::Transport::Counters& counters, Status& why) {
  std::size_t at = 0;
  for (;;) {
    if (!in_payload_) {
      if (ahead_count_ - at < wire::kHeaderBytes) break;
      if (!begin_frame(ahead_.data() + at, why)) return false;
      at += wire::kHeaderBytes;
    }
    const std::size_t take = std::min(header_.payload_bytes - payload_got_, ahead_count_ - at);
    if (take != 0 && !dropping_) std::memcpy(destination_ + payload_got_, ahead_.data() + at, take);
    payload_got_ += take;
    at += take;
    if (payload_got_ < header_.payload_bytes) break;
    if (!end_frame(target, counters, why)) return false;
    if (stopped_) return true;
  }
  ahead_count_ -= at;
  if (at != 0 && ahead_count_ != 0) std::memmove(ahead_.data(), ahead_.data() + at, ahead_count_);
  return true;
}

bool FrameReader::begin_frame(const std::byte* header_bytes, Status& why) {
  std::memcpy(&header_, header_bytes, sizeof header_);
  if (const char* field = wire::check_header(header_)) {
    why = wire::violation(header_, field);
    return false;
  }
  const auto found = communicators_.find(header_.communicator);
  if (found == communicators_.end()) {
    why = wire::violation("communicator", header_.communicator, "not one that is open on this lane");
    return false;
  }
  const Places& to = found->second;
  dropping_ = to.hidden;
  if (!dropping_) {
    if (header_.place >= to.table.places) {
      why = wire::violation("place", header_.place, "limit " + std::to_string(to.table.places));
      return false;
    }
    if (header_.payload_bytes > to.table.place_bytes) {
      why = wire::violation("payload bytes", header_.payload_bytes, "limit " + std::to_string(to.table.place_bytes));
      return false;
    }
    destination_ = to.table.first + header_.place * to.table.stride;
    const Bytes other = to.table.redirects ? to.table.redirects[header_.place] : Bytes();
    if (!other.empty() && other.size() == header_.payload_bytes) destination_ = other.data();
  }
  payload_got_ = 0;
  in_payload_ = true;
  small_ = header_.payload_bytes <= kSmallBytes;
  return true;
}

bool FrameReader::end_frame(Target& target, transport::Transport::Counters& counters, Status& why) {
  in_payload_ = false;
  ++counters.frames_received;
  if (dropping_) {
    ++counters.frames_dropped;
    return true;
  }
  const Bytes payload(destination_, header_.payload_bytes);
  if (header_.has(wire::kFlagPayloadCrc)) {
    if (const std::uint32_t crc = wire::crc32c(payload); crc != header_.payload_crc) {
      why = wire::violation("payload CRC", header_.payload_crc, "the bytes have " + std::to_string(crc));
      return false;
    }
  }
  target.on_frame(header_, payload);
  return true;
}

}  // namespace redsum::tcp
