// SPDX-License-Identifier: Apache-2.0
// One direction of a pair without a network: an Outbox and an Inbox, with a lane in order between them.
#include "client/core/exchange_core.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <vector>

#include "transport/base/prng.h"

namespace redsum::client {
namespace {

using wire::FrameType;
using wire::Kind;

wire::CallDescription call_of(Kind kind = Kind::send, std::uint64_t count = 0, DType dtype = DType::fp32) {
  wire::CallDescription call;
  call.kind = kind;
  call.dtype = call.wire_dtype = dtype;
  call.count = count;
  return call;
}

Message message_of(const wire::CallDescription& call, Sequence sequence, std::uint64_t elements) {
  return {sequence, 0, elements, &call, call.signature()};
}

// Places are watched: what is deposited into one that is not free is found at once.
class Pair {
 public:
  explicit Pair(std::uint16_t window, std::uint32_t chunk_bytes = 4096)
      : route_{CommunicatorId(3), Rank(1), Rank(2), Epoch(7), chunk_bytes, window}, out(route_), in(route_) {}

  bool send() {
    MessagePiece piece;
    wire::Header header;
    if (!out.next(piece, header)) return false;
    EXPECT_LE(header.payload_bytes, route_.chunk_bytes);
    data.push_back(header);
    return true;
  }
  bool deliver() {
    if (data.empty()) return false;
    const wire::Header header = data.front();
    data.pop_front();
    EXPECT_TRUE(busy.insert(header.place).second) << "place " << header.place << " is not free";
    EXPECT_TRUE(in.on_message(header));
    return true;
  }
  // What could be taken; elements of each message are counted.
  bool take() {
    MessagePiece piece;
    const auto more = in.next(piece);
    EXPECT_TRUE(more) << more.error().to_string();
    if (!more || !*more) return false;
    busy.erase(piece.place);
    EXPECT_EQ(piece.offset, got);
    got += piece.elements;
    if (piece.last) complete.push_back({piece.sequence, got}), got = 0;
    if (const auto header = in.due_held()) held.push_back(*header);
    return true;
  }
  bool acknowledge() {
    if (held.empty()) return false;
    EXPECT_TRUE(out.on_held(held.front()));
    held.pop_front();
    return true;
  }
  // Frames and the calls that await them, as told; of a place whose last frame is still there, none is told.
  void await() {
    MessagePiece piece;
    while (in.next_awaited(piece)) {
      EXPECT_FALSE(busy.contains(piece.place));
      ++awaited;
    }
  }

  const ExchangeRoute route_;
  Outbox out;
  Inbox in;
  std::deque<wire::Header> data, held;
  std::set<std::uint16_t> busy;
  std::vector<std::pair<Sequence, std::uint64_t>> complete;
  std::uint64_t got = 0, awaited = 0;
};

TEST(ExchangeCore, MessagesOfAnySizeArriveInOrderInAnyInterleaving) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Prng random(seed);
    Pair pair(static_cast<std::uint16_t>(random.between(1, 5)));
    std::vector<std::uint64_t> sizes;
    std::vector<wire::CallDescription> calls;
    for (std::uint64_t i = random.between(1, 12); i > 0; --i) {
      sizes.push_back(random.chance(30) ? random.below(3) : random.below(9000));
      calls.push_back(call_of(Kind::send, sizes.back()));
    }
    std::size_t sent = 0, wanted = 0;
    for (int idle = 0; idle < 200;) {
      bool moved = false;
      switch (random.below(7)) {
        case 0:
          if (sent < sizes.size())
            pair.out.push(message_of(calls[sent], 100 + sent, sizes[sent])), ++sent, moved = true;
          break;
        case 1:
          if (wanted < sizes.size())
            pair.in.push(message_of(calls[wanted], 200 + wanted, sizes[wanted])), ++wanted, moved = true;
          break;
        case 2:
          moved = pair.send();
          break;
        case 3:
          moved = pair.deliver();
          break;
        case 4:
          moved = pair.take();
          break;
        case 5:
          moved = pair.acknowledge();
          break;
        default:
          pair.await();
      }
      idle = moved ? 0 : idle + 1;
    }
    ASSERT_EQ(pair.complete.size(), sizes.size()) << "seed " << seed;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      EXPECT_EQ(pair.complete[i], (std::pair<Sequence, std::uint64_t>{200 + i, sizes[i]})) << "seed " << seed;
    EXPECT_TRUE(pair.out.empty() && pair.in.empty());
  }
}

TEST(ExchangeCore, TheWindowBoundsWhatNobodyHasAskedFor) {
  Pair pair(3);
  const auto call = call_of(Kind::send, 100'000);
  pair.out.push(message_of(call, 1, 100'000));
  int frames = 0;
  while (pair.send() && pair.deliver()) ++frames;
  EXPECT_EQ(frames, 3);
  EXPECT_TRUE(pair.out.holds(1));
  pair.in.push(message_of(call, 2, 100'000));
  EXPECT_TRUE(pair.in.expects(2));
  EXPECT_TRUE(pair.take());
  EXPECT_TRUE(pair.acknowledge()) << "half a window of 3 is one";
  EXPECT_TRUE(pair.send());
  EXPECT_FALSE(pair.send());
}

TEST(ExchangeCore, AwaitedFramesAreThoseWhosePlaceAndCallAreKnown) {
  Pair pair(4);
  const auto call = call_of(Kind::send, 10 * 1024);
  pair.await();
  EXPECT_EQ(pair.awaited, 0u) << "nothing is wanted";
  pair.in.push(message_of(call, 1, 10 * 1024));  // 10 frames
  pair.await();
  EXPECT_EQ(pair.awaited, 4u) << "a window";
  pair.out.push(message_of(call, 1, 10 * 1024));
  ASSERT_TRUE(pair.send() && pair.deliver() && pair.take());
  pair.await();
  EXPECT_EQ(pair.awaited, 5u) << "one place more is free";
}

TEST(ExchangeCore, EachDifferenceIsNamed) {
  struct Case {
    wire::CallDescription sent, expected;
    std::uint64_t sent_elements, expected_elements;
    const char* text;
  };
  const auto keyed = [] {
    auto call = call_of(Kind::send, 5);
    call.key = "layer1";
    return call;
  }();
  const Case cases[] = {
      {call_of(Kind::send, 5), call_of(Kind::send, 7), 5, 7,
       "rank 2 expects 'send of 7 fp32' from rank 1, which has 'send of 5 fp32' for it"},
      {call_of(Kind::send, 5), call_of(Kind::send, 5, DType::int32), 5, 5,
       "rank 2 expects 'send of 5 int32' from rank 1, which has 'send of 5 fp32' for it"},
      {call_of(Kind::all_to_all), call_of(Kind::gather, 15), 5, 5,
       "rank 2 expects 'gather of 5 fp32' from rank 1, which has 'all_to_all of 5 fp32' for it"},
      {call_of(Kind::send, 5), keyed, 5, 5, ", with another root, count or key (key 'layer1')"},
  };
  for (const Case& c : cases) {
    Pair pair(2);
    pair.out.push(message_of(c.sent, 0, c.sent_elements));
    pair.in.push(message_of(c.expected, 0, c.expected_elements));
    ASSERT_TRUE(pair.send() && pair.deliver());
    MessagePiece piece;
    const auto got = pair.in.next(piece);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), Code::mismatch);
    EXPECT_NE(got.error().text().find(c.text), std::string::npos) << got.error().text();
  }
}

// Whatever the other end sends, valid or not: an error, or something that a window bounds.
TEST(ExchangeCore, SurvivesAnyHeader) {
  std::uint64_t accepted = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    Prng random(seed);
    Pair pair(3);
    const auto call = call_of(Kind::send, 5000);
    for (Sequence i = 0; i < 4; ++i) pair.out.push(message_of(call, i, 5000)), pair.in.push(message_of(call, i, 5000));
    while (pair.send()) {
    }
    std::vector<wire::Header> known(pair.data.begin(), pair.data.end());
    known.push_back(*[&] {
      wire::Header header;
      header.type = FrameType::held;
      header.rank = 2;
      header.epoch = 7u;
      return std::optional(header);
    }());
    for (int i = 0; i < 20; ++i) {
      wire::Header header = known[random.below(known.size())];
      if (random.chance(20)) header.type = static_cast<FrameType>(random.between(1, 5));
      if (random.chance(20)) header.sequence = random.below(6);
      if (random.chance(20)) header.chunk = static_cast<std::uint32_t>(random.below(6));
      if (random.chance(20)) header.place = static_cast<std::uint16_t>(random.below(4));
      if (random.chance(10)) header.rank = static_cast<std::uint32_t>(random.below(4));
      if (random.chance(10)) header.element_offset = random.below(6000);
      if (random.chance(10)) header.payload_bytes = static_cast<std::uint32_t>(random.below(5000));
      const Status out = pair.out.on_held(header), in = pair.in.on_message(header);
      for (const Status& status : {out, in}) {
        ++(status ? accepted : refused);
        EXPECT_TRUE(status || status.code() == Code::protocol_error) << status.to_string();
      }
      MessagePiece piece;
      for (auto more = pair.in.next(piece); more && *more; more = pair.in.next(piece)) EXPECT_LT(piece.place, 3);
    }
  }
  EXPECT_GT(accepted, 1000u);
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace redsum::client
