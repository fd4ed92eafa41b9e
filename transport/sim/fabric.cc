// SPDX-License-Identifier: Apache-2.0
#include "transport/sim/fabric.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "transport/sim/endpoint.h"
#include "transport/wire/violation.h"

namespace redsum::sim {
namespace {

constexpr const char* kReset = "the connection was reset";

bool later(const Event& a, const Event& b) {
  return a.time != b.time ? a.time > b.time : a.sequence > b.sequence;
}

}  // namespace

void FrameQueue::pop() {
  frames_[head_].copy.reset();
  ++head_;
  if (head_ == frames_.size()) return clear();
  if (head_ >= 64 && head_ * 2 > frames_.size()) {
    frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(head_));
    head_ = 0;
  }
}

void FrameQueue::clear() {
  frames_.clear();
  head_ = 0;
}

Exposed* End::find(CommunicatorId communicator) {
  for (Exposed& each : exposed)
    if (each.communicator == communicator) return &each;
  return nullptr;
}

void Fabric::mix(std::uint64_t fact) {
  std::uint64_t z = (trace_hash ^ fact) + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  trace_hash = z ^ (z >> 31);
}

DurationNs Fabric::draw(const Delay& delay) {
  return static_cast<DurationNs>(
      random.between(static_cast<std::uint64_t>(delay.least_ns), static_cast<std::uint64_t>(delay.most_ns)));
}

// -- events

void Fabric::schedule(TimeNs when, EventKind kind, std::uint32_t subject, unsigned side, std::uint32_t ticket) {
  heap_.push_back({std::max(when, now), next_sequence_++, kind, static_cast<std::uint8_t>(side), subject, ticket});
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void Fabric::schedule_work(TimeNs when, std::function<void()> work) {
  if (free_works_.empty()) {
    free_works_.push_back(static_cast<std::uint32_t>(works_.size()));
    works_.emplace_back();
  }
  const std::uint32_t slot = free_works_.back();
  free_works_.pop_back();
  works_[slot] = std::move(work);
  schedule(when, EventKind::work, slot);
}

bool Fabric::step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), later);
  const Event event = heap_.back();
  heap_.pop_back();
  now = event.time;
  ++events;
  run(event);
  return true;
}

void Fabric::run(const Event& event) {
  switch (event.kind) {
    case EventKind::work: {
      const std::function<void()> work = std::move(works_[event.subject]);
      works_[event.subject] = nullptr;
      free_works_.push_back(event.subject);
      return work();
    }
    case EventKind::move:
      return move(event.subject, event.side, event.ticket);
    case EventKind::notice:
      return lose(event.subject, event.side, Code::peer_lost, kReset);
    case EventKind::wake:
      if (endpoints[event.subject]) endpoints[event.subject]->wake();
      return;
  }
}

// -- frames

std::uint32_t Fabric::make_lane(const wire::Hello& hello) {
  auto lane = std::make_unique<Lane>();
  lane->hello = hello;
  for (Direction& way : lane->ways) way.delay = default_delay;
  lanes.push_back(std::move(lane));
  return static_cast<std::uint32_t>(lanes.size() - 1);
}

void Fabric::adopt(std::uint32_t index, unsigned side, Endpoint* endpoint) {
  Lane& lane = *lanes[index];
  End& end = lane.ends[side];
  end.endpoint = endpoint;
  end.name = endpoint->name();
  if (std::exchange(end.told, false)) return lose(index, side, Code::peer_lost, kReset);
  move_next(index, 1 - side);
}

bool Fabric::deposit(std::uint32_t index, unsigned side, const wire::Header& header, ConstBytes payload) {
  Lane& lane = *lanes[index];
  Direction& way = lane.ways[side];
  const std::uint64_t number = way.deposits++;
  if (lane.dead || lane.ends[1 - side].gone) return true;  // its owner has not heard of it yet
  Frame frame;
  frame.number = number;
  frame.header = header;
  frame.header.magic = wire::kMagic;
  frame.header.version = wire::kVersion;
  wire::seal(frame.header);
  frame.payload = payload.data();
  const auto bytes = static_cast<DurationNs>(payload.size() + wire::kHeaderBytes);
  frame.due = std::max(way.last_due, now + draw(way.delay)) + bytes * way.delay.per_kib_ns / 1024;
  way.last_due = frame.due;
  way.frames.push(std::move(frame));
  move_next(index, side);
  return true;
}

// Half of the frames land at once when they arrive; of the others all or a part lands earlier.
void Fabric::move_next(std::uint32_t index, unsigned side) {
  Lane& lane = *lanes[index];
  Direction& way = lane.ways[side];
  if (way.moving || way.frames.empty() || lane.dead || !lane.ends[1 - side].endpoint) return;
  way.moving = true;
  const Frame& frame = way.frames[0];
  way.land_bytes = 0;
  TimeNs when = std::max({now, frame.due, way.stalled_until});
  const std::uint64_t manner = random.below(4);
  const std::uint32_t left = frame.header.payload_bytes - frame.landed;
  if (manner >= 2 && left > 0) {
    way.land_bytes = manner == 2 ? left : static_cast<std::uint32_t>(random.between(1, left));
    when = now + static_cast<TimeNs>(random.below(static_cast<std::uint64_t>(when - now) + 1));
  }
  schedule(when, EventKind::move, index, side, ++way.ticket);
}

void Fabric::move(std::uint32_t index, unsigned side, std::uint32_t ticket) {
  Lane& lane = *lanes[index];
  Direction& way = lane.ways[side];
  if (lane.dead || ticket != way.ticket || way.frames.empty()) return;
  if (now < way.stalled_until) return schedule(way.stalled_until, EventKind::move, index, side, ticket);
  Frame& frame = way.frames[0];
  if (frame.landed == 0 && !frame.discard) {
    const Status fit = fits(lane, side, frame);
    if (!fit) return break_protocol(index, 1 - side, fit);
  }
  const std::uint64_t whole = wire::kHeaderBytes + std::uint64_t{frame.header.payload_bytes};
  if (way.land_bytes > 0 && way.budget_bytes >= whole) {
    land(lane, side, frame, frame.landed + way.land_bytes);
    way.land_bytes = 0;
    tell_sent(lane, side);
    return schedule(std::max(frame.due, way.stalled_until), EventKind::move, index, side, ticket);
  }
  if (way.budget_bytes < whole) {
    if (way.budget_bytes > wire::kHeaderBytes)
      land(lane, side, frame, static_cast<std::uint32_t>(way.budget_bytes - wire::kHeaderBytes));
    return kill(index, lane.notice);
  }
  if (way.budget_bytes != ~std::uint64_t{0}) way.budget_bytes -= whole;
  arrive(index, side);
}

// What a receiver refuses. Frames of hidden communicators are fine.
Status Fabric::fits(Lane& lane, unsigned side, const Frame& frame) const {
  const wire::Header& header = frame.header;
  if (const char* field = wire::check_header(header)) return wire::violation(header, field);
  const Exposed* exposed = lane.ends[1 - side].find(CommunicatorId(header.communicator));
  if (!exposed) return wire::violation("communicator", header.communicator, "not one that is open on this lane");
  const transport::PlaceTable& table = exposed->places;
  if (exposed->hidden) return {};
  if (header.place >= table.places)
    return wire::violation("place", header.place, "limit " + std::to_string(table.places));
  if (header.payload_bytes > table.place_bytes)
    return wire::violation("payload bytes", header.payload_bytes, "limit " + std::to_string(table.place_bytes));
  return {};
}

// Lets the payload up to byte `until` lie in its place. False: there is no such place any more.
bool Fabric::land(Lane& lane, unsigned side, Frame& frame, std::uint32_t until) {
  const Exposed* exposed = lane.ends[1 - side].find(CommunicatorId(frame.header.communicator));
  if (!exposed || exposed->hidden || frame.discard) return false;
  if (frame.landed == 0) {
    std::byte* place = exposed->places.first + exposed->places.stride * frame.header.place;
    if (frame.header.payload_bytes) std::memcpy(place - wire::kHeaderBytes, &frame.header, wire::kHeaderBytes);
    // Backends may redirect or not: this one does both.
    const Bytes other = exposed->places.redirects ? exposed->places.redirects[frame.header.place] : Bytes();
    const bool redirected = !other.empty() && other.size() == frame.header.payload_bytes && random.below(4) != 0;
    frame.at = redirected ? other.data() : place;
  }
  if (until > frame.landed) std::memcpy(frame.at + frame.landed, frame.payload + frame.landed, until - frame.landed);
  frame.landed = std::max(frame.landed, until);
  return true;
}

void Fabric::arrive(std::uint32_t index, unsigned side) {
  Lane& lane = *lanes[index];
  Direction& way = lane.ways[side];
  Frame& frame = way.frames[0];
  End& receiver = lane.ends[1 - side];
  mix(static_cast<std::uint64_t>(now));
  mix(std::uint64_t{index} << 33 | std::uint64_t{side} << 32 | frame.header.header_crc);
  const std::uint64_t whole = wire::kHeaderBytes + std::uint64_t{frame.header.payload_bytes};
  if (Endpoint* sender = lane.ends[side].endpoint) {
    ++sender->counted.frames_sent;
    sender->counted.bytes_sent += whole;
  }
  ++receiver.endpoint->counted.frames_received;
  receiver.endpoint->counted.bytes_received += whole;
  if (land(lane, side, frame, frame.header.payload_bytes)) {
    const Exposed& exposed = *receiver.find(CommunicatorId(frame.header.communicator));
    const std::uint32_t crc = wire::crc32c({frame.at, frame.header.payload_bytes});
    mix(crc);
    if (frame.header.has(wire::kFlagPayloadCrc) && crc != frame.header.payload_crc)
      return break_protocol(
          index, 1 - side,
          wire::violation("payload CRC", frame.header.payload_crc, "the bytes have " + std::to_string(crc)));
    receiver.endpoint->receive(
        {index, static_cast<std::uint8_t>(1 - side), exposed.generation, frame.at, frame.header, nullptr});
  } else {
    ++receiver.endpoint->counted.frames_dropped;
  }
  way.frames.pop();
  way.moving = false;
  tell_sent(lane, side);
  if (way.frames.empty() && way.closing) return kill(index, lane.notice);
  move_next(index, side);
}

void Fabric::break_protocol(std::uint32_t index, unsigned side, const Status& why) {
  lose(index, side, why.code(), why.text());
  Notice notice{kNever, kNever};
  (side == 0 ? notice.right_ns : notice.left_ns) = draw(lanes[index]->ways[side].delay);
  kill(index, notice);
}

std::uint64_t Fabric::sent(Direction& way) {
  for (std::size_t i = 0; i < way.frames.size(); ++i) {
    const Frame& frame = way.frames[i];
    const std::uint32_t bytes = frame.header.payload_bytes;
    if (!frame.copy && (bytes == 0 || frame.landed < bytes)) return frame.number;
  }
  return way.deposits;
}

void Fabric::tell_sent(Lane& lane, unsigned side) {
  if (lane.ends[side].endpoint && sent(lane.ways[side]) > lane.ways[side].awaited)
    lane.ends[side].endpoint->sent_grew();
}

}  // namespace redsum::sim
