// SPDX-License-Identifier: Apache-2.0
// The fields of every control message with their limits, once: fields(io, message) serves the writer, the reader and
// whoever else wants to walk over them. Private to transport/wire. An Io has
//   number(name, value, least, most)   text(name, value)   real(name, value)   bytes(name, array)
//   choice(name, value, name_of, count)   object(name, value)   list(name, vector)   require(holds, name, otherwise)
#pragma once
#include <concepts>
#include <limits>
#include <string>
#include <type_traits>

#include "transport/wire/control.h"
#include "transport/wire/schedule.h"

namespace redsum::wire {

inline constexpr std::uint64_t kMaxWindow = 64;
inline constexpr std::uint64_t kMinChunkBytes = 4096;
inline constexpr std::uint64_t kMaxShards = 65535;  // of a whole pool: a schedule's entries are 16 bits wide

template <typename T>
inline constexpr std::uint64_t kLargest = std::numeric_limits<T>::max();

template <typename T, typename M>
concept Is = std::same_as<std::remove_const_t<T>, M>;

// -- the fields of every message; a job that may be empty is one that the connection implies

template <typename Io, typename Text>
void job_id(Io& io, Text& job) {
  io.text("job", job);
  io.require(valid_job_id(job), "job", "is not a job id: 1 to 64 of A-Z a-z 0-9 . _ - without a leading dot");
}

template <typename Io, typename T>
void code(Io& io, T& value) {
  io.choice(
      "code", value, +[](Code one) { return code_name(one); }, kCodeCount);
}
template <typename Io, typename T>
void error_code(Io& io, T& value) {
  code(io, value);
  io.require(value != Code::ok, "code", "is 'ok', which is no error");
}

template <typename Io, typename T>
void epoch(Io& io, T& number) {
  io.number("epoch", number.value, 0, kLargest<std::uint32_t>);
}

template <typename Io, typename T>
void communicator(Io& io, T& number) {
  io.number("communicator", number, 0, kLargest<std::uint16_t>);
}

void fields(auto& io, Is<JobSettings> auto& m) {
  io.number("chunk_bytes", m.chunk_bytes, 0, kMaxChunkBytes);
  io.require(m.chunk_bytes == 0 || (m.chunk_bytes >= kMinChunkBytes && m.chunk_bytes % 64 == 0), "chunk_bytes",
             "must be 4096 to 1048576 and a multiple of 64");
  io.number("window", m.window, 0, kMaxWindow);
  io.number("small_window", m.small_window, 0, kMaxWindow);
  io.number("small_bytes", m.small_bytes, 0, m.chunk_bytes ? m.chunk_bytes : kMaxChunkBytes);
  io.choice(
      "mode", m.mode, +[](Mode mode) { return mode_name(mode); }, kModeCount);
  io.choice(
      "ring_order", m.ring_order, +[](RingOrder order) { return ring_order_name(order); }, kRingOrderCount);
  io.choice(
      "fallback", m.fallback, +[](Fallback fallback) { return fallback_name(fallback); }, kFallbackCount);
  io.number("min_workers", m.min_workers, 0, kMaxRanks);
  io.number("max_workers", m.max_workers, 0, kMaxRanks);
}

void fields(auto& io, Is<WorkerInfo> auto& m) {
  io.number("rank", m.rank, 0, kMaxRanks - 1);
  io.number("incarnation", m.incarnation, 0, kLargest<std::uint64_t>);
  io.text("host", m.host);
  io.text("address", m.address);
}

void fields(auto& io, Is<ReducerInfo> auto& m) {
  io.number("instance", m.instance, 0, kLargest<std::uint64_t>);
  io.text("name", m.name);
  io.text("address", m.address);
  io.number("shards", m.shards, 1, kMaxShards);
  io.number("weight", m.weight, 1, kMaxWeight);
}

void fields(auto& io, Is<EpochRecord> auto& m) {
  io.number("epoch", m.epoch.value, 0, kLargest<std::uint32_t>);
  io.list("workers", m.workers);
  for (std::size_t i = 0; i < m.workers.size(); ++i)
    io.require(m.workers[i].rank == i, "workers", "is not in the order of the ranks 0, 1, 2 ...");
  io.list("reducers", m.reducers);
  std::uint64_t shards = 0;
  for (const ReducerInfo& reducer : m.reducers) shards += reducer.shards;
  io.require(shards <= kMaxShards, "reducers", "has more than 65535 shards in all");
  io.object("settings", m.settings);
  io.require(m.settings.chunk_bytes && m.settings.window && m.settings.small_window, "settings",
             "is incomplete: chunk_bytes, window and small_window of an epoch are not 0");
  io.bytes("lane_nonce", m.lane_nonce);
  io.number("stayed", m.stayed, 0, kMaxRanks);
  io.number("sequence", m.sequence, 0, kLargest<std::uint64_t>);
}

void fields(auto& io, Is<CallDescription> auto& m) {
  io.choice(
      "kind", m.kind, +[](Kind kind) { return kind_name(kind); }, kKindCount);
  io.choice(
      "dtype", m.dtype, +[](DType type) { return dtype_name(type); }, kDTypeCount);
  io.choice(
      "wire_dtype", m.wire_dtype, +[](DType type) { return dtype_name(type); }, kDTypeCount);
  io.choice(
      "op", m.op, +[](Op op) { return op_name(op); }, kOpCount);
  io.number("root", m.root, 0, kMaxRanks - 1);
  io.number("count", m.count, 0, kLargest<std::uint64_t>);
  io.real("prescale", m.prescale);
  io.real("postscale", m.postscale);
  io.text("key", m.key);
  io.list("parts", m.parts);
  io.choice(
      "via", m.via, +[](Via via) { return via_name(via); }, kViaCount);
}

void fields(auto& io, Is<Join> auto& m) {
  io.number("world_size", m.world_size, 1, kMaxRanks);
  io.text("host", m.host);
  io.text("version", m.version);
  io.object("settings", m.settings);
  io.number("limit_ms", m.limit_ms, 0, kLargest<std::uint32_t>);
  io.text("address", m.address);
}
void fields(auto& io, Is<Joined> auto& m) {
  io.object("record", m.record);
}
void fields(auto&, Is<Ready> auto&) {}
void fields(auto& io, Is<Leave> auto& m) {
  io.number("calls", m.calls, 0, kLargest<std::uint64_t>);
}
void fields(auto& io, Is<Resume> auto& m) {
  io.number("sequence", m.sequence, 0, kLargest<std::uint64_t>);
  io.number("admit", m.admit, 0, 1);
  io.number("limit_ms", m.limit_ms, 0, kLargest<std::uint32_t>);
}
void fields(auto& io, Is<Resumed> auto& m) {
  code(io, m.code);
  io.text("text", m.text);
}
void fields(auto& io, Is<Applicants> auto& m) {
  io.number("count", m.count, 0, kMaxRanks);
}
void fields(auto& io, Is<Create> auto& m) {
  io.number("request", m.request, 0, kLargest<std::uint64_t>);
  io.list("members", m.members);
  io.require(!m.members.empty(), "members", "is empty");
}
void fields(auto& io, Is<Created> auto& m) {
  io.number("request", m.request, 0, kLargest<std::uint64_t>);
  communicator(io, m.communicator);
}
void fields(auto& io, Is<CreateFailed> auto& m) {
  io.number("request", m.request, 0, kLargest<std::uint64_t>);
  error_code(io, m.code);
  io.text("text", m.text);
}
void fields(auto& io, Is<CloseCommunicator> auto& m) {
  io.text("job", m.job);
  io.require(m.job.empty() || valid_job_id(m.job), "job", "is neither empty nor a job id");
  communicator(io, m.communicator);
  io.number("calls", m.calls, 0, kLargest<std::uint64_t>);
}
void fields(auto& io, Is<Register> auto& m) {
  io.text("name", m.name);
  io.text("address", m.address);
  io.number("shards", m.shards, 1, kMaxShards);
  io.number("budget_bytes", m.budget_bytes, 0, kLargest<std::uint64_t>);
  io.text("version", m.version);
  io.text("job", m.job);
  io.require(m.job.empty() || valid_job_id(m.job), "job", "is neither empty nor a job id");
  io.number("worker", m.worker, 0, kLargest<std::uint64_t>);
}
void fields(auto& io, Is<Registered> auto& m) {
  io.number("reducers", m.reducers, 0, kLargest<std::uint32_t>);
}
void fields(auto& io, Is<OpenJob> auto& m) {
  job_id(io, m.job);
  io.object("record", m.record);
}
void fields(auto& io, Is<OpenCommunicator> auto& m) {
  job_id(io, m.job);
  communicator(io, m.communicator);
  io.list("members", m.members);
  io.require(!m.members.empty(), "members", "is empty");
}
void fields(auto& io, Is<Reserved> auto& m) {
  job_id(io, m.job);
  communicator(io, m.communicator);
  io.number("bytes", m.bytes, 0, kLargest<std::uint64_t>);
  code(io, m.code);
  io.text("text", m.text);
  epoch(io, m.epoch);
}
void fields(auto& io, Is<CloseJob> auto& m) {
  job_id(io, m.job);
  io.text("reason", m.reason);
}
void fields(auto&, Is<Draining> auto&) {}
void fields(auto& io, Is<Heartbeat> auto& m) {
  io.number("count", m.count, 0, kLargest<std::uint64_t>);
}
void fields(auto& io, Is<Mismatched> auto& m) {
  job_id(io, m.job);
  communicator(io, m.communicator);
  io.number("sequence", m.sequence, 0, kLargest<std::uint64_t>);
  epoch(io, m.epoch);
}
void fields(auto& io, Is<Describe> auto& m) {
  communicator(io, m.communicator);
  io.number("sequence", m.sequence, 0, kLargest<std::uint64_t>);
}
void fields(auto& io, Is<Waiting> auto& m) {
  communicator(io, m.communicator);
  io.number("sequence", m.sequence, 0, kLargest<std::uint64_t>);
  io.object("call", m.call);
  io.list("awaits", m.awaits);
}
void fields(auto& io, Is<Stalled> auto& m) {
  communicator(io, m.communicator);
  io.number("sequence", m.sequence, 0, kLargest<std::uint64_t>);
  io.list("missing", m.missing);
  io.number("missing_count", m.missing_count, 0, kMaxRanks);
}
void fields(auto& io, Is<LaneLost> auto& m) {
  io.number("instance", m.instance, 0, kLargest<std::uint64_t>);
  io.text("text", m.text);
}
void fields(auto& io, Is<Fail> auto& m) {
  io.number("communicator", m.communicator, 0, kLargest<std::uint32_t>);
  io.require(m.communicator == kEveryCommunicator || m.communicator <= kLargest<std::uint16_t>, "communicator",
             "must be 0 to 65535, or 4294967295 for all");
  error_code(io, m.code);
  io.text("text", m.text);
  io.list("ranks", m.ranks);
}
void fields(auto&, Is<Ping> auto&) {}
void fields(auto& io, Is<CommunicatorProgress> auto& m) {
  communicator(io, m.communicator);
  io.list("bulk", m.bulk);
  io.list("small", m.small);
  io.require(m.bulk.size() == m.small.size() && m.bulk.size() <= kMaxShards, "bulk",
             "and small are not as long as each other, or longer than 65535");
}
void fields(auto& io, Is<Prepare> auto& m) {
  epoch(io, m.epoch);
}
void fields(auto& io, Is<Progress> auto& m) {
  epoch(io, m.epoch);
  io.list("communicators", m.communicators);
}
void fields(auto& io, Is<Enter> auto& m) {
  job_id(io, m.job);
  epoch(io, m.epoch);
}
void fields(auto& io, Is<Entered> auto& m) {
  job_id(io, m.job);
  epoch(io, m.epoch);
}
void fields(auto& io, Is<Commit> auto& m) {
  epoch(io, m.epoch);
  io.list("reducers", m.reducers);
  io.list("least", m.least);
}
void fields(auto&, Is<Bring> auto&) {}
void fields(auto& io, Is<Brought> auto& m) {
  error_code(io, m.code);
  io.text("text", m.text);
}
void fields(auto& io, Is<Recruit> auto& m) {
  io.list("reducers", m.reducers);
}
void fields(auto& io, Is<Recruited> auto& m) {
  io.number("instance", m.instance, 0, kLargest<std::uint64_t>);
  code(io, m.code);
  io.text("text", m.text);
}

}  // namespace redsum::wire
