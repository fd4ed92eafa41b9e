// SPDX-License-Identifier: Apache-2.0
#include "client/core/exchange_core.h"

#include <algorithm>
#include <string>

#include "transport/base/mutant.h"

namespace redsum::client {
namespace {

std::uint64_t frame_elements(const ExchangeRoute& route, const wire::CallDescription& call) {
  return route.chunk_bytes / dtype_bytes(call.dtype);
}

std::uint32_t frames_of(const ExchangeRoute& route, const Message& message) {
  const std::uint64_t most = frame_elements(route, *message.call);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (message.elements + most - 1) / most));
}

MessagePiece cut(const ExchangeRoute& route, const Message& message, std::uint32_t chunk, std::uint64_t frame) {
  MessagePiece piece;
  piece.sequence = message.sequence;
  piece.part = message.part;
  const std::uint64_t most = frame_elements(route, *message.call);
  piece.offset = chunk * most;
  piece.elements = std::min(most, message.elements - piece.offset);
  piece.place = static_cast<std::uint16_t>(frame % route.window);
  piece.last = chunk + 1 == frames_of(route, message);
  return piece;
}

wire::Header header_of(const ExchangeRoute& route, wire::FrameType type) {
  wire::Header header;
  header.type = type;
  header.rank = (type == wire::FrameType::message ? route.from : route.to).value;
  header.epoch = route.epoch.value;
  header.communicator = route.communicator.value;
  return header;
}

Status refuse(const ExchangeRoute& route, Rank by, const char* what, std::uint64_t got, std::uint64_t wanted) {
  return {Code::protocol_error, "rank " + std::to_string(by.value) + " sent a frame of an exchange on communicator " +
                                    std::to_string(route.communicator.value) + " whose " + what + " is " +
                                    std::to_string(got) + ", expected " + std::to_string(wanted)};
}

}  // namespace

bool Outbox::holds(Sequence sequence) const {
  return std::any_of(messages_.begin(), messages_.end(), [&](const Message& m) { return m.sequence == sequence; });
}

bool Outbox::next(MessagePiece& piece, wire::Header& header) {
  const std::uint64_t window = route_.window + (mutant("exchange_window_too_large") ? 1u : 0u);
  if (messages_.empty() || sent_ >= taken_ + window) return false;
  const Message& message = messages_.front();
  piece = cut(route_, message, chunk_, sent_++);
  header = header_of(route_, wire::FrameType::message);
  header.dtype = message.call->dtype;
  header.place = piece.place;
  header.chunk = chunk_;
  header.sequence = number_;
  header.element_offset = message.elements;
  header.signature = message.signature;
  header.payload_bytes = static_cast<std::uint32_t>(piece.elements * dtype_bytes(header.dtype));
  header.contributors = 1;
  header.set_kind(message.call->kind);
  if (piece.elements == 0) header.flags |= wire::kFlagHeaderOnly;
  ++chunk_;
  if (piece.last) {
    messages_.pop_front();
    ++number_;
    chunk_ = 0;
  }
  return true;
}

Status Outbox::on_held(const wire::Header& header) {
  if (header.type != wire::FrameType::held)
    return refuse(route_, route_.to, "frame type", static_cast<unsigned>(header.type), 3);
  if (header.rank != route_.to.value) return refuse(route_, route_.to, "rank", header.rank, route_.to.value);
  if (header.epoch != route_.epoch.value) return refuse(route_, route_.to, "epoch", header.epoch, route_.epoch.value);
  if (header.sequence < taken_ || header.sequence > sent_)
    return refuse(route_, route_.to, "count of frames taken", header.sequence, sent_);
  taken_ = header.sequence;
  return {};
}

void Inbox::push(const Message& message) {
  Expected expected{message, frames_expected_, frames_of(route_, message)};
  frames_expected_ += expected.frames;
  messages_.push_back(expected);
}

bool Inbox::expects(Sequence sequence) const {
  return std::any_of(messages_.begin(), messages_.end(), [&](const Message& m) { return m.sequence == sequence; });
}

Status Inbox::on_message(const wire::Header& header) {
  if (header.type != wire::FrameType::message)
    return refuse(route_, route_.from, "frame type", static_cast<unsigned>(header.type), 5);
  if (header.rank != route_.from.value) return refuse(route_, route_.from, "rank", header.rank, route_.from.value);
  if (header.epoch != route_.epoch.value) return refuse(route_, route_.from, "epoch", header.epoch, route_.epoch.value);
  if (arrived_ >= taken_ + route_.window)
    return refuse(route_, route_.from, "number, of which a window may be under way,", arrived_, taken_);
  if (header.place != arrived_ % route_.window)
    return refuse(route_, route_.from, "place", header.place, arrived_ % route_.window);
  arrived_headers_[header.place] = header;
  ++arrived_;
  return {};
}

MessagePiece Inbox::piece_of(const Expected& message, std::uint64_t frame) const {
  return cut(route_, message, static_cast<std::uint32_t>(frame - message.first_frame), frame);
}

Result<bool> Inbox::next(MessagePiece& piece) {
  if (messages_.empty() || taken_ == arrived_) return false;
  const Expected& message = messages_.front();
  piece = piece_of(message, taken_);
  if (const Status status = check(message, piece, arrived_headers_[piece.place]); !status) return failure(status);
  ++taken_;
  if (piece.last) {
    messages_.pop_front();
    ++number_;
  }
  return true;
}

// First what would mean that the ranks ask for different things, then what no worker sends.
Status Inbox::check(const Expected& message, const MessagePiece& piece, const wire::Header& header) const {
  const wire::CallDescription& call = *message.call;
  if (header.sequence != number_) return refuse(route_, route_.from, "message", header.sequence, number_);
  if (header.kind() != call.kind || header.dtype != call.dtype || header.element_offset != message.elements ||
      header.signature != message.signature) {
    const std::string other = std::string(wire::kind_name(header.kind())) + " of " +
                              std::to_string(header.element_offset) + " " + std::string(dtype_name(header.dtype));
    const std::string own = std::string(wire::kind_name(call.kind)) + " of " + std::to_string(message.elements) + " " +
                            std::string(dtype_name(call.dtype));
    std::string text = "rank " + std::to_string(route_.to.value) + " expects '" + own + "' from rank " +
                       std::to_string(route_.from.value) + ", which has '" + other + "' for it";
    if (other == own) text += ", with another root, count or key";
    if (!call.key.empty()) text += " (key '" + call.key + "')";
    return {Code::mismatch, text + "; they match in the order in which both ranks submit them"};
  }
  const std::uint64_t chunk = taken_ - message.first_frame;
  if (header.chunk != chunk) return refuse(route_, route_.from, "chunk", header.chunk, chunk);
  const std::uint64_t bytes = piece.elements * dtype_bytes(call.dtype);
  if (header.payload_bytes != bytes) return refuse(route_, route_.from, "payload", header.payload_bytes, bytes);
  return {};
}

bool Inbox::next_awaited(MessagePiece& piece) {
  awaited_ = std::max(awaited_, arrived_);
  if (awaited_ >= std::min(frames_expected_, taken_ + route_.window)) return false;
  const auto after = std::partition_point(messages_.begin(), messages_.end(),
                                          [&](const Expected& m) { return m.first_frame <= awaited_; });
  piece = piece_of(*std::prev(after), awaited_++);
  return true;
}

// Every half window: often enough that a sender never waits while places are free, and cheap.
std::optional<wire::Header> Inbox::due_held() {
  const std::uint64_t taken = mutant("exchange_held_early") ? arrived_ : taken_;
  if (taken - told_ < std::max<std::uint64_t>(1, route_.window / 2u)) return std::nullopt;
  told_ = taken;
  wire::Header header = header_of(route_, wire::FrameType::held);
  header.sequence = told_;
  header.flags |= wire::kFlagHeaderOnly;
  return header;
}

}  // namespace redsum::client
