// SPDX-License-Identifier: Apache-2.0
// How a job comes to be: joins, the settings, the reservation, the first epoch.
#include <algorithm>

#include "server/core/coordinator_core.h"

namespace redsum::server {
namespace {

using roster::Job;
using roster::Seat;

constexpr std::size_t kMaxHostBytes = 64, kMaxAddressBytes = 270;  // of a record: one for every rank goes to every rank
constexpr std::uint32_t kDefaultWindow = 4;
// All places of a communicator on a shard should stay in its cache.
constexpr std::uint32_t kCacheShareBytes = 4u << 20;
// Chunks are a little smaller than a power of two: the kernel sends segments of at most 64 KiB, and a frame that is
// just larger than so many of them leaves a small one behind, which costs as much as a large one
// (docs/benchmarks/echo.md).
constexpr std::uint32_t kLeastChosenChunkBytes = 16u << 10, kMostChosenChunkBytes = 128u << 10,
                        kLessThanSegments = 4096;
constexpr std::uint32_t kSmallBytes = 16u << 10;

// What a rank may ask for; `of` reads one of them.
struct Setting {
  const char* name;
  std::uint32_t (*of)(const wire::JobSettings&);
  std::string (*text)(std::uint32_t) = [](std::uint32_t value) { return std::to_string(value); };
};
constexpr Setting kSettings[] = {
    {"chunk_bytes", [](const wire::JobSettings& s) { return s.chunk_bytes; }},
    {"window", [](const wire::JobSettings& s) { return std::uint32_t{s.window}; }},
    {"small_window", [](const wire::JobSettings& s) { return std::uint32_t{s.small_window}; }},
    {"small_bytes", [](const wire::JobSettings& s) { return s.small_bytes; }},
    {"mode", [](const wire::JobSettings& s) { return static_cast<std::uint32_t>(s.mode); },
     [](std::uint32_t value) { return std::string(wire::mode_name(static_cast<wire::Mode>(value))); }},
    {"ring_order", [](const wire::JobSettings& s) { return static_cast<std::uint32_t>(s.ring_order); },
     [](std::uint32_t value) { return std::string(wire::ring_order_name(static_cast<wire::RingOrder>(value))); }},
    {"fallback", [](const wire::JobSettings& s) { return static_cast<std::uint32_t>(s.fallback); },
     [](std::uint32_t value) { return std::string(wire::fallback_name(static_cast<wire::Fallback>(value))); }},
    {"min_workers", [](const wire::JobSettings& s) { return s.min_workers; }},
    {"max_workers", [](const wire::JobSettings& s) { return s.max_workers; }},
};

// First what a rank asks for, then what the pool is configured with.
std::uint32_t wanted(const Job& job, const wire::JobSettings& defaults, std::size_t setting) {
  for (const Seat& seat : job.seats)
    if (seat.state == Seat::State::taken && kSettings[setting].of(seat.asked) != 0)
      return kSettings[setting].of(seat.asked);
  return kSettings[setting].of(defaults);
}

std::uint32_t chosen_chunk_bytes(std::uint32_t world_size, std::uint32_t window) {
  const std::uint32_t share = kCacheShareBytes / ((world_size + 2) * window);
  std::uint32_t bytes = kMostChosenChunkBytes;
  while (bytes > share && bytes > kLeastChosenChunkBytes) bytes /= 2;
  return bytes - kLessThanSegments;
}

}  // namespace

wire::JobSettings CoordinatorCore::choose_settings(const Job& job) const {
  wire::JobSettings settings;
  const std::uint32_t window = wanted(job, options_.defaults, 1), small_window = wanted(job, options_.defaults, 2);
  settings.window = static_cast<std::uint16_t>(window ? window : kDefaultWindow);
  settings.small_window = static_cast<std::uint16_t>(small_window ? small_window : kDefaultWindow);
  settings.chunk_bytes = wanted(job, options_.defaults, 0);
  if (settings.chunk_bytes == 0) settings.chunk_bytes = chosen_chunk_bytes(job.world_size, settings.window);
  settings.small_bytes = wanted(job, options_.defaults, 3);
  if (settings.small_bytes == 0) settings.small_bytes = kSmallBytes;
  settings.small_bytes = std::min(settings.small_bytes, settings.chunk_bytes);
  settings.mode = static_cast<wire::Mode>(wanted(job, options_.defaults, 4));
  if (settings.mode == wire::Mode::unset) settings.mode = wire::Mode::server;
  settings.ring_order = static_cast<wire::RingOrder>(wanted(job, options_.defaults, 5));
  if (settings.ring_order == wire::RingOrder::unset) settings.ring_order = wire::RingOrder::ring;
  settings.fallback = static_cast<wire::Fallback>(wanted(job, options_.defaults, 6));
  if (settings.fallback == wire::Fallback::unset) settings.fallback = wire::Fallback::direct;
  settings.min_workers = wanted(job, options_.defaults, 7);
  settings.max_workers = wanted(job, options_.defaults, 8);
  return settings;
}

Status CoordinatorCore::check_settings(std::uint32_t rank, const wire::JobSettings& asked, const Job& job) const {
  for (const Setting& setting : kSettings) {
    if (setting.of(asked) == 0) continue;
    for (const Seat& seat : job.seats)
      if (seat.state == Seat::State::taken && setting.of(seat.asked) != 0 &&
          setting.of(seat.asked) != setting.of(asked))
        return {Code::mismatch, std::string(setting.name) + " differs in job '" + job.name + "': rank " +
                                    std::to_string(rank) + " asks for " + setting.text(setting.of(asked)) + ", rank " +
                                    std::to_string(seat.worker.rank) + " for " + setting.text(setting.of(seat.asked)) +
                                    "; give all ranks the same"};
  }
  return {};
}

Status CoordinatorCore::check_join(const Peer& peer, const wire::Join& message, const Job& job) const {
  const std::uint32_t rank = peer.hello.rank;
  if (message.world_size != job.world_size) {
    const auto first = std::find_if(job.seats.begin(), job.seats.end(),
                                    [](const Seat& seat) { return seat.state == Seat::State::taken; });
    return {Code::mismatch, "world size differs in job '" + job.name + "': rank " + std::to_string(rank) + " has " +
                                std::to_string(message.world_size) + ", rank " + std::to_string(first->worker.rank) +
                                " has " + std::to_string(job.world_size)};
  }
  return check_settings(rank, message.settings, job);
}

Seat CoordinatorCore::seat_of(const Peer& peer, const wire::Join& message) {
  Seat seat;
  seat.state = Seat::State::taken;
  seat.peer = peer.id;
  seat.worker = {peer.hello.rank, peer.hello.incarnation, message.host.substr(0, kMaxHostBytes),
                 message.address.substr(0, kMaxAddressBytes)};
  seat.address = peer.address;
  seat.asked = message.settings;
  seat.launched_as = peer.hello.rank;
  return seat;
}

void CoordinatorCore::on_join(Peer& peer, const wire::Join& message, Turn& turn) {
  const std::uint32_t rank = peer.hello.rank, world_size = message.world_size;
  if (world_size == 0 || world_size > wire::kMaxRanks || rank >= world_size)
    return refuse(peer,
                  {Code::invalid_argument, "rank " + std::to_string(rank) + " of a world of " +
                                               std::to_string(world_size) + ": ranks are 0 to world size - 1, " +
                                               "worlds 1 to " + std::to_string(wire::kMaxRanks)},
                  turn);
  auto found = jobs_.find(peer.hello.job);
  if (found != jobs_.end() && found->second->state != JobState::forming)
    return apply(peer, message, *found->second, turn);
  if (found == jobs_.end()) {
    found = jobs_.emplace(peer.hello.job, std::make_unique<Job>()).first;
    Job& made = *found->second;
    made.name = peer.hello.job;
    made.world_size = made.first_size = world_size;
    made.seats.resize(world_size);
    made.since = turn.now;
    made.deadline = turn.now + options_.formation_timeout;
    made.limit = seconds_text(options_.formation_timeout) + " (formation_timeout)";
    arm(made.deadline);
  }
  Job& job = *found->second;
  ++changes_;
  if (const Status wrong = check_join(peer, message, job); !wrong) {
    if (job.state == JobState::forming) job.last_error = wrong.text();
    return refuse(peer, wrong, turn);
  }
  if (const Seat& seat = job.seats[rank]; seat.state == Seat::State::taken) {
    if (is_older(peer, message, seat, job, turn)) return;
    park(peer, message, turn);
    return contest(peer, seat, job, turn);
  }
  job.seats[rank] = seat_of(peer, message);
  ++job.taken;
  peer.job = &job;
  // The least patient worker's limit is the job's: without that worker there is no job.
  const DurationNs limit = message.limit_ms * kMillisecond;
  if (limit != 0 && turn.now + limit < job.deadline) {
    job.deadline = turn.now + limit;
    job.limit = seconds_text(limit) + " (connect_timeout of rank " + std::to_string(rank) + ")";
    arm(job.deadline);
  }
  open_if_complete(job, turn);
}

std::vector<PeerId> CoordinatorCore::pool_reducers() const {
  std::uint32_t shards = 0;
  std::vector<PeerId> reducers;
  for (const auto& [id, peer] : peers_) {
    if (!peer.of_pool() || peer.draining || shards + peer.reducer->shards > kMaxShardsOfJob) continue;
    shards += peer.reducer->shards;
    reducers.push_back(id);
  }
  return reducers;
}

// Of a job in direct mode, or one that falls back, by rank; 0 where it has not registered.
std::vector<PeerId> CoordinatorCore::own_reducers(const Job& job, const std::vector<Seat>& seats) const {
  std::map<Incarnation, PeerId> of_worker;
  for (const auto& [id, peer] : peers_)
    if (peer.reducer && !peer.draining && peer.reducer->job == job.name) of_worker[peer.reducer->worker] = id;
  std::vector<PeerId> reducers;
  for (const Seat& seat : seats) {
    const auto own = of_worker.find(seat.worker.incarnation);
    reducers.push_back(own == of_worker.end() ? PeerId() : own->second);
  }
  return reducers;
}

const Seat* CoordinatorCore::owner_of(const Job& job, const Peer& reducer) const {
  const auto owner = std::find_if(job.seats.begin(), job.seats.end(), [&](const Seat& seat) {
    return seat.worker.incarnation == reducer.reducer->worker && seat.state != Seat::State::empty;
  });
  return owner == job.seats.end() || reducer.reducer->job != job.name ? nullptr : &*owner;
}

std::optional<std::vector<PeerId>> CoordinatorCore::reducers_for(const Job& job, const wire::JobSettings& settings,
                                                                 const std::vector<Seat>& seats) const {
  if (settings.mode == wire::Mode::ring) return std::vector<PeerId>();
  std::vector<PeerId> own = own_reducers(job, seats);
  const auto missing = std::count(own.begin(), own.end(), PeerId());
  if (settings.mode == wire::Mode::direct) return missing == 0 ? std::optional(std::move(own)) : std::nullopt;
  std::vector<PeerId> pool = pool_reducers();
  const auto barred = [&](PeerId id) {
    const auto found = job.barred.find(peers_.at(id).hello.incarnation);
    return found != job.barred.end() && found->second.until != 0;
  };
  if (!std::all_of(pool.begin(), pool.end(), barred)) std::erase_if(pool, barred);
  const bool goes_on = job.began != Epoch();  // it may have lost some already
  if (!pool.empty() && (goes_on || pool.size() >= options_.min_reducers)) return pool;
  // A job that has fallen back goes on with what its workers have brought.
  std::erase(own, PeerId());
  const bool may = goes_on && settings.fallback == wire::Fallback::direct;
  return may && pool.empty() && !own.empty() ? std::optional(std::move(own)) : std::nullopt;
}

void CoordinatorCore::open_if_complete(Job& job, Turn& turn) {
  if (job.taken < job.world_size) return;
  const wire::JobSettings settings = choose_settings(job);
  std::optional<std::vector<PeerId>> reducers = reducers_for(job, settings, job.seats);
  if (!reducers) return;
  job.record.settings = settings;
  job.reducers = std::move(*reducers);
  open(job, turn);
}

void CoordinatorCore::open(Job& job, Turn& turn) {
  job.state = JobState::opening;
  job.since = turn.now;
  job.deadline = turn.now + options_.formation_timeout;
  job.limit = seconds_text(options_.formation_timeout) + " (formation_timeout)";
  arm(job.deadline);
  wire::EpochRecord& record = job.record;
  job.began = record.epoch = Epoch(options_.term, ++job.epochs);
  record.lane_nonce = options_.seed;
  ++nonces_;  // one life never gives two jobs the same nonce
  for (std::size_t i = 0; i < sizeof nonces_; ++i)
    record.lane_nonce[i] = static_cast<std::uint8_t>(record.lane_nonce[i] ^ (nonces_ >> (8 * i)));
  std::vector<std::uint32_t> everybody;
  for (const Seat& seat : job.seats) {
    record.workers.push_back(seat.worker);
    everybody.push_back(seat.worker.rank);
  }
  for (const PeerId id : job.reducers) {
    record.reducers.push_back(info_of(id));
  }
  job.communicators.emplace(0, Communicator(everybody));
  job.unreserved = {job.reducers.begin(), job.reducers.end()};
  send_reducers(job, wire::OpenJob{job.name, record}, turn);
  send_reducers(job, wire::OpenCommunicator{job.name, 0, std::move(everybody)}, turn);
  ++changes_;
  if (job.unreserved.empty()) joined(job, turn);
}

void CoordinatorCore::joined(Job& job, Turn& turn) {
  job.told = true;
  next_is_told(job);
  send_workers(job, wire::Joined{job.record}, turn);
}

void CoordinatorCore::on_ready(Peer& peer, Turn& turn) {
  Job& job = *peer.job;
  job.seats[peer.hello.rank].ready = true;
  run_if_ready(job, turn);
}

void CoordinatorCore::run_if_ready(Job& job, Turn& turn) {
  if (job.state != JobState::opening || !job.told) return;
  for (const Seat& seat : job.seats)
    if (!seat.ready) return;
  job.state = JobState::running;
  job.since = turn.now;
  job.deadline = kNever;
  ++changes_;
  if (job.record.stayed == 0) ++counters_.jobs_formed;
  const wire::JobSettings& s = job.record.settings;
  note(log::Level::info,
       "job '" + job.name + "' runs: " + std::to_string(job.world_size) + " workers, " +
           std::to_string(job.record.reducers.size()) + " reducers, chunks of " + std::to_string(s.chunk_bytes) +
           " bytes, windows " + std::to_string(s.window) + " and " + std::to_string(s.small_window),
       turn);
  recruit(job, turn);  // that came while it was opening
  change_if_due(job, turn);
  arm(turn.now);  // some may ask for the next membership already
}

Status CoordinatorCore::formation_timeout(const Job& job) const {
  const std::string limit = " within " + job.limit;
  const std::string before = job.last_error.empty() ? "" : "; last refused: " + job.last_error;
  std::vector<std::uint32_t> missing;
  if (job.state == JobState::forming) {
    for (std::uint32_t rank = 0; rank < job.world_size; ++rank)
      if (job.seats[rank].state != Seat::State::taken) missing.push_back(rank);
    if (!missing.empty())
      return {Code::timeout, "job '" + job.name + "': " + std::to_string(missing.size()) + " of " +
                                 std::to_string(job.world_size) + " workers have not joined" + limit + ": " +
                                 ranks_text(missing) + before};
    if (choose_settings(job).mode == wire::Mode::direct) {
      const std::vector<PeerId> own = own_reducers(job, job.seats);
      for (std::uint32_t rank = 0; rank < job.world_size; ++rank)
        if (own[rank] == PeerId()) missing.push_back(rank);
      return {Code::timeout, "job '" + job.name + "' in direct mode: the reducers of " + ranks_text(missing) +
                                 " have not registered" + limit};
    }
    const std::size_t usable = pool_reducers().size();
    const std::uint32_t need = std::max(1u, options_.min_reducers);
    const std::string have = usable == 0 ? "no reducer is" : "only " + std::to_string(usable) + " reducers are";
    return {Code::reducer_lost, have + " registered at this coordinator, job '" + job.name + "' needs " +
                                    std::to_string(need) +
                                    ": start one with redsumd --role reducer --coordinator ADDRESS"};
  }
  if (!job.told)
    return {Code::timeout, "job '" + job.name + "': no reservation" + limit + " from " +
                               reducers_text({job.unreserved.begin(), job.unreserved.end()})};
  for (const Seat& seat : job.seats)
    if (!seat.ready) missing.push_back(seat.worker.rank);
  return {Code::timeout, "job '" + job.name + "': lanes not open" + limit + " at " + ranks_text(missing)};
}

}  // namespace redsum::server
