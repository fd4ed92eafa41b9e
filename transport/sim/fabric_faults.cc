// SPDX-License-Identifier: Apache-2.0
// How memory is withdrawn and how lanes end.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "transport/sim/endpoint.h"
#include "transport/sim/fabric.h"

namespace redsum::sim {

void Fabric::expose(std::uint32_t index, unsigned side, CommunicatorId communicator,
                    const transport::PlaceTable& places) {
  End& end = lanes[index]->ends[side];
  Exposed* exposed = end.find(communicator);
  if (!exposed) exposed = &end.exposed.emplace_back(Exposed{communicator, false, 0, {}});
  exposed->hidden = false;
  ++exposed->generation;
  exposed->places = places;
  discard_begun(*lanes[index], side, communicator);
}

// A frame of which a part has landed belongs to the places as they were.
void Fabric::discard_begun(Lane& lane, unsigned side, CommunicatorId communicator) {
  FrameQueue& incoming = lane.ways[1 - side].frames;
  if (!incoming.empty() && incoming[0].header.communicator == communicator.value && incoming[0].landed > 0)
    incoming[0].discard = true;
}

// The first `count` frames of a way are on the wire: from now on the sender's memory is not needed for them.
void Fabric::copy_first(Direction& way, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Frame& frame = way.frames[i];
    const std::uint32_t bytes = frame.header.payload_bytes;
    if (frame.copy || bytes == 0) continue;
    frame.copy.reset(new std::byte[bytes]);
    std::memcpy(frame.copy.get(), frame.payload, bytes);
    frame.payload = frame.copy.get();
  }
}

std::uint64_t Fabric::hide(std::uint32_t index, unsigned side, CommunicatorId communicator) {
  Lane& lane = *lanes[index];
  End& end = lane.ends[side];
  Exposed* exposed = end.find(communicator);
  if (!exposed) exposed = &end.exposed.emplace_back(Exposed{communicator, false, 0, {}});
  exposed->hidden = true;
  ++exposed->generation;
  discard_begun(lane, side, communicator);

  // Of what is queued here, a first part drawn from the seed has already been handed to the network.
  Direction& way = lane.ways[side];
  if (way.frames.empty()) return 0;
  const std::size_t begun = way.frames[0].landed > 0 ? 1 : 0;
  const std::size_t sent = begun + random.below(way.frames.size() - begun + 1);
  copy_first(way, sent);
  const std::size_t removed =
      way.frames.remove_if(sent, [&](const Frame& frame) { return frame.header.communicator == communicator.value; });
  if (removed > 0 && sent == 0) {  // the event that moves the front frame was meant for another one
    way.moving = false;
    ++way.ticket;
    move_next(index, side);
  }
  return removed;
}

// The end at `side` is gone for its owner. A first part of what it had queued still arrives, then the peer hears of it.
void Fabric::close(std::uint32_t index, unsigned side, DurationNs notice_ns) {
  Lane& lane = *lanes[index];
  End& end = lane.ends[side];
  if (end.gone) return;
  end.gone = true;
  end.endpoint = nullptr;
  end.exposed.clear();
  if (lane.dead) return;
  lane.ways[1 - side].frames.clear();
  ++lane.ways[1 - side].ticket;
  tell_sent(lane, 1 - side);
  Direction& way = lane.ways[side];
  lane.notice = {kNever, kNever};
  (side == 0 ? lane.notice.right_ns : lane.notice.left_ns) = notice_ns == kNever ? kNever : notice_ns + draw(way.delay);
  std::size_t begun = !way.frames.empty() && way.frames[0].landed > 0 ? 1 : 0;
  for (std::size_t i = begun; i < way.frames.size(); ++i)
    if (way.frames[i].copy) begun = i + 1;  // the network had it when the communicator was hidden
  const std::size_t sent = begun + random.below(way.frames.size() - begun + 1);
  copy_first(way, sent);
  way.frames.cut_to(sent);
  way.closing = true;
  if (sent == 0) kill(index, lane.notice);
}

// Some more bytes of the frame that is under way, perhaps all, but its arrival is never told.
void Fabric::land_some(Lane& lane, unsigned side) {
  Direction& way = lane.ways[side];
  if (way.frames.empty() || !lane.ends[1 - side].endpoint) return;
  Frame& frame = way.frames[0];
  if (frame.landed == 0 && !fits(lane, side, frame)) return;
  const auto more =
      static_cast<std::uint32_t>(random.below(frame.header.payload_bytes - frame.landed + std::uint64_t{1}));
  if (more > 0) land(lane, side, frame, frame.landed + more);
}

void Fabric::cut(std::uint32_t index, const Notice& notice) {
  Lane& lane = *lanes[index];
  if (lane.dead) return;
  land_some(lane, 0);
  land_some(lane, 1);
  kill(index, notice);
}

void Fabric::kill(std::uint32_t index, const Notice& notice) {
  Lane& lane = *lanes[index];
  if (lane.dead) return;
  lane.dead = true;
  for (unsigned side = 0; side < 2; ++side) {
    lane.ways[side].frames.clear();
    tell_sent(lane, side);
  }
  mix(static_cast<std::uint64_t>(now));
  mix(~std::uint64_t{index});
  const DurationNs wait[2] = {notice.left_ns, notice.right_ns};
  for (unsigned side = 0; side < 2; ++side)
    if (wait[side] != kNever && !lane.ends[side].gone && !lane.ends[side].told)
      schedule(now + wait[side], EventKind::notice, index, side);
}

void Fabric::lose(std::uint32_t index, unsigned side, Code code, const std::string& why) {
  Lane& lane = *lanes[index];
  End& end = lane.ends[side];
  if (end.gone || std::exchange(end.told, true)) return;
  if (!end.endpoint) return;  // adopt() calls again
  Endpoint::Letter letter;
  letter.lane = index;
  letter.side = static_cast<std::uint8_t>(side);
  letter.why =
      std::make_unique<Status>(code, "lane to " + lane.ends[1 - side].name + ":" + std::to_string(index) + ": " + why);
  end.endpoint->receive(std::move(letter));
}

}  // namespace redsum::sim
