// SPDX-License-Identifier: Apache-2.0
// Control messages for the tests: one of each type, with values drawn from a seed.
#pragma once
#include <bit>
#include <string>
#include <vector>

#include "transport/base/prng.h"
#include "transport/wire/control.h"

namespace redsum::wire::samples {

inline std::string text(Prng& random) {
  static const std::vector<std::string> kPieces = {"a", "node-7:4711", "\"",   "\\", "\n", "ü",
                                                   "€", "😀",           "\x01", "/",  " "};
  std::string out;
  for (std::uint64_t i = random.below(6); i > 0; --i) out += kPieces[random.below(kPieces.size())];
  return out;
}
inline std::uint16_t u16(Prng& random) {
  return static_cast<std::uint16_t>(random.next());
}
inline std::uint32_t u32(Prng& random) {
  return static_cast<std::uint32_t>(random.next());
}
inline std::uint32_t rank(Prng& random) {
  return static_cast<std::uint32_t>(random.below(kMaxRanks));
}
inline std::uint64_t u64(Prng& random) {
  return random.chance(10) ? ~0ull : random.chance(10) ? 0 : random.next();
}
inline Code code(Prng& random) {
  return static_cast<Code>(random.between(1, kCodeCount - 1));
}
inline std::string job(Prng& random) {
  return "job." + std::to_string(random.below(1000));
}
inline std::vector<std::uint32_t> ranks(Prng& random) {
  std::vector<std::uint32_t> out(random.between(1, 9));
  for (std::uint32_t& each : out) each = rank(random);
  return out;
}
inline JobSettings settings(Prng& random) {
  JobSettings s;
  s.chunk_bytes = static_cast<std::uint32_t>(64 * random.between(64, 16384));
  s.window = static_cast<std::uint16_t>(random.between(1, 64));
  s.small_window = static_cast<std::uint16_t>(random.between(1, 64));
  s.small_bytes = static_cast<std::uint32_t>(random.below(s.chunk_bytes + 1));
  s.mode = static_cast<Mode>(random.below(kModeCount));
  s.ring_order = static_cast<RingOrder>(random.below(kRingOrderCount));
  s.fallback = static_cast<Fallback>(random.below(kFallbackCount));
  s.min_workers = rank(random);
  s.max_workers = rank(random);
  return s;
}
inline EpochRecord record(Prng& random) {
  EpochRecord r;
  r.epoch = Epoch(u32(random));
  r.workers.resize(random.below(5));
  for (std::size_t i = 0; i < r.workers.size(); ++i)
    r.workers[i] = {static_cast<std::uint32_t>(i), u64(random), text(random), text(random)};
  r.reducers.resize(random.below(4));
  for (ReducerInfo& reducer : r.reducers)
    reducer = {u64(random), text(random), "10.0.0.1:7401", static_cast<std::uint16_t>(random.between(1, 999)),
               static_cast<std::uint32_t>(random.between(1, 64))};
  r.settings = settings(random);
  for (std::uint8_t& byte : r.lane_nonce) byte = static_cast<std::uint8_t>(random.next());
  r.stayed = rank(random);
  r.sequence = u64(random);
  return r;
}
inline CallDescription call(Prng& random) {
  CallDescription c;
  c.kind = static_cast<Kind>(random.below(kKindCount));
  c.dtype = static_cast<DType>(random.below(kDTypeCount));
  c.wire_dtype = static_cast<DType>(random.below(kDTypeCount));
  c.op = static_cast<Op>(random.below(kOpCount));
  c.root = rank(random);
  c.count = u64(random);
  c.prescale = std::bit_cast<double>(random.next());  // any bits: NaN, infinities, subnormals
  c.postscale = std::bit_cast<double>(random.next());
  c.key = text(random);
  for (std::uint64_t parts = random.below(5); parts != 0; --parts) c.parts.push_back(u64(random));
  return c;
}

inline std::vector<CommunicatorProgress> progress(Prng& random) {
  std::vector<CommunicatorProgress> all(random.below(4));
  for (CommunicatorProgress& one : all) {
    one.communicator = u16(random);
    for (std::uint64_t shards = random.below(4); shards != 0; --shards) {
      one.bulk.push_back(u64(random));
      one.small.push_back(u64(random));
    }
  }
  return all;
}

// One message of every type, in the order of the variant.
inline std::vector<Message> one_of_each(Prng& r) {
  std::vector<Message> all;
  all.push_back(Join{static_cast<std::uint32_t>(r.between(1, kMaxRanks)), text(r), text(r), settings(r),
                     static_cast<std::uint32_t>(r.next())});
  all.push_back(Joined{record(r)});
  all.push_back(Ready{});
  all.push_back(Leave{u64(r)});
  all.push_back(Create{u64(r), ranks(r)});
  all.push_back(Created{u64(r), u16(r)});
  all.push_back(CreateFailed{u64(r), code(r), text(r)});
  all.push_back(CloseCommunicator{r.chance(50) ? job(r) : "", u16(r), u64(r)});
  all.push_back(Register{text(r), text(r), static_cast<std::uint16_t>(r.between(1, 65535)), u64(r), text(r),
                         r.chance(50) ? job(r) : "", u64(r)});
  all.push_back(Registered{u32(r)});
  all.push_back(OpenJob{job(r), record(r)});
  all.push_back(OpenCommunicator{job(r), u16(r), ranks(r)});
  all.push_back(Reserved{job(r), u16(r), u64(r), r.chance(50) ? Code::ok : code(r), text(r), Epoch(u32(r))});
  all.push_back(CloseJob{job(r), text(r)});
  all.push_back(Draining{});
  all.push_back(Heartbeat{u64(r)});
  all.push_back(Mismatched{job(r), u16(r), u64(r), Epoch(u32(r))});
  all.push_back(Describe{u16(r), u64(r)});
  all.push_back(Waiting{u16(r), u64(r), call(r)});
  all.push_back(Stalled{u16(r), u64(r), ranks(r), static_cast<std::uint32_t>(r.below(kMaxRanks + 1))});
  all.push_back(LaneLost{u64(r), text(r)});
  all.push_back(Fail{r.chance(50) ? kEveryCommunicator : u16(r), code(r), text(r), ranks(r)});
  all.push_back(Ping{});
  all.push_back(Prepare{Epoch(u32(r))});
  all.push_back(Progress{Epoch(u32(r)), progress(r)});
  all.push_back(Enter{job(r), Epoch(u32(r))});
  all.push_back(Entered{job(r), Epoch(u32(r))});
  all.push_back(Commit{Epoch(u32(r)), record(r).reducers, progress(r)});
  all.push_back(Recruit{record(r).reducers});
  all.push_back(Recruited{u64(r), r.chance(50) ? Code::ok : code(r), text(r)});
  all.push_back(Bring{});
  all.push_back(Brought{code(r), text(r)});
  all.push_back(Resume{u64(r), r.chance(50), u32(r)});
  all.push_back(Resumed{r.chance(50) ? Code::ok : code(r), text(r)});
  all.push_back(Applicants{rank(r)});
  return all;
}

}  // namespace redsum::wire::samples
