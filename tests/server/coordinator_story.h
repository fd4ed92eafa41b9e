// SPDX-License-Identifier: Apache-2.0
// A coordinator's core with people around it: what each was sent, whether it was closed, and the time.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/core/coordinator_core.h"

namespace redsum::server {

// A job that has lost all reducers of the pool ends.
inline CoordinatorOptions without_fallback() {
  CoordinatorOptions options;
  options.defaults.fallback = wire::Fallback::none;
  return options;
}

class Story {
 public:
  explicit Story(CoordinatorOptions options = {}) : core(options) {}

  PeerId connect(wire::Purpose purpose, std::string job, std::uint32_t rank, Incarnation incarnation) {
    const PeerId id(++peers_);
    wire::Hello hello;
    hello.purpose = purpose;
    hello.job = std::move(job);
    hello.rank = rank;
    hello.incarnation = incarnation;
    core.on_connected(id, hello, "127.0.0.1:" + std::to_string(5000 + id.value), now, effects_);
    deliver();
    return id;
  }
  // Where the message has an epoch that is not given, it is the one that the peer was told last.
  void say(PeerId peer, wire::Message message) {
    if (closed.contains(peer)) return;
    if (auto* reserved = std::get_if<wire::Reserved>(&message); reserved && reserved->epoch == Epoch())
      reserved->epoch = epochs_[{peer, reserved->job}];
    if (auto* differ = std::get_if<wire::Mismatched>(&message); differ && differ->epoch == Epoch())
      differ->epoch = epochs_[{peer, differ->job}];
    core.on_message(peer, message, now, effects_);
    deliver();
  }
  void cut(PeerId peer, const std::string& why = "connection reset") {
    if (closed.contains(peer)) return;
    closed.insert(peer);
    core.on_lost(peer, {Code::peer_lost, why}, now, effects_);
    deliver();
  }
  // Time passes, tick by tick as the core asks for it; who is in `beating` sends heartbeats.
  void pass(DurationNs ns) {
    const TimeNs end = now + ns;
    while (now < end) {
      now = std::min({end, std::max(core.next_deadline(), now + 1), now + kSecond / 4});
      for (const PeerId peer : beating)
        if (!closed.contains(peer)) core.on_message(peer, wire::Heartbeat{}, now, effects_);
      core.tick(now, effects_);
      deliver();
    }
  }

  PeerId reducer(const std::string& name, std::uint16_t shards = 1) {
    const PeerId id = connect(wire::Purpose::control_reducer, "", 0, ++incarnations_);
    beating.insert(id);
    say(id, wire::Register{name, name + ":7401", shards, 1u << 30, "0.1.0"});
    return id;
  }
  PeerId worker(std::uint32_t rank, std::uint32_t world_size, wire::JobSettings settings = {},
                const std::string& job = "train") {
    ++lives_[{job, rank}];
    const PeerId id = connect(wire::Purpose::control_worker, job, rank, worker_incarnation(job, rank));
    beating.insert(id);
    say(id, wire::Join{world_size, "host" + std::to_string(rank) + ":100", "0.1.0", settings, 0});
    return id;
  }
  // Of the newest process of that rank, or of the one to come first.
  Incarnation worker_incarnation(const std::string& job, std::uint32_t rank) const {
    const auto lives = lives_.find({job, rank});
    return 10000 + rank + 1000 * (lives == lives_.end() ? 1 : lives->second);
  }
  // A job of n workers that runs on the reducers there are.
  std::vector<PeerId> running(std::uint32_t n, const std::vector<PeerId>& reducers, const std::string& job = "train") {
    std::vector<PeerId> workers;
    for (std::uint32_t rank = 0; rank < n; ++rank) workers.push_back(worker(rank, n, {}, job));
    for (const PeerId r : reducers) say(r, wire::Reserved{job, 0, 1000, Code::ok, ""});
    for (const PeerId w : workers) {
      EXPECT_EQ(count<wire::Joined>(w), 1u);
      say(w, wire::Ready{});
    }
    EXPECT_EQ(state(job), "running");
    return workers;
  }
  // A further communicator of these world ranks of a running job.
  std::uint16_t communicator(const std::vector<PeerId>& workers, const std::vector<std::uint32_t>& members,
                             const std::vector<PeerId>& reducers, const std::string& job = "train") {
    for (const std::uint32_t rank : members) say(workers[rank], wire::Create{70 + rank, members});
    const std::uint16_t id = last<wire::OpenCommunicator>(reducers.front()).communicator;
    for (const PeerId r : reducers) say(r, wire::Reserved{job, id, 1000, Code::ok, ""});
    return id;
  }

  template <typename T>
  std::vector<T> all(PeerId peer) const {
    std::vector<T> found;
    const auto box = inbox.find(peer);
    if (box == inbox.end()) return found;
    for (const wire::Message& message : box->second)
      if (const T* is = std::get_if<T>(&message)) found.push_back(*is);
    return found;
  }
  template <typename T>
  std::size_t count(PeerId peer) const {
    return all<T>(peer).size();
  }
  template <typename T>
  T last(PeerId peer) const {
    const std::vector<T> found = all<T>(peer);
    EXPECT_FALSE(found.empty()) << "no such message to peer " << peer.value;
    return found.empty() ? T{} : found.back();
  }
  std::string state(const std::string& job = "train") const {
    for (const JobStatus& status : core.jobs())
      if (status.job == job) return std::string(job_state_name(status.state));
    return "none";
  }
  bool is_closed(PeerId peer) const { return closed.contains(peer); }
  void clear() { inbox.clear(); }

  TimeNs now = 1'000 * kSecond;
  CoordinatorCore core;
  std::map<PeerId, std::vector<wire::Message>> inbox;
  std::set<PeerId> closed, beating;
  std::vector<std::string> notes;

 private:
  void deliver() {
    for (const auto& send : effects_.sends)
      for (const PeerId to : send.to) {
        EXPECT_FALSE(closed.contains(to)) << "sent to peer " << to.value << ", which is gone";
        inbox[to].push_back(send.message);
        if (const auto* open = std::get_if<wire::OpenJob>(&send.message)) epochs_[{to, open->job}] = open->record.epoch;
        if (const auto* joined = std::get_if<wire::Joined>(&send.message))
          epochs_[{to, "train"}] = epochs_[{to, "a"}] = joined->record.epoch;
      }
    for (const PeerId id : effects_.closes) EXPECT_TRUE(closed.insert(id).second) << "closed twice: " << id.value;
    for (const auto& note : effects_.notes) notes.push_back(note.text);
    effects_.clear();
  }

  CoordinatorEffects effects_;
  std::map<std::pair<PeerId, std::string>, Epoch> epochs_;
  std::map<std::pair<std::string, std::uint32_t>, std::uint64_t> lives_;  // processes of that rank so far
  std::uint64_t peers_ = 0;
  Incarnation incarnations_ = 100;
};

}  // namespace redsum::server
