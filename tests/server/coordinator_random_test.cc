// SPDX-License-Identifier: Apache-2.0
// Random members that join, work, err, vanish and lie, and what must hold whatever they do. A seed replays exactly.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "tests/server/coordinator_story.h"
#include "transport/base/prng.h"

namespace redsum::server {
namespace {

constexpr int kSeeds = 1000;

CoordinatorOptions random_options(Prng& prng) {
  CoordinatorOptions options;
  options.formation_timeout = static_cast<DurationNs>(prng.between(2, 6)) * kSecond;
  options.heartbeat_timeout = static_cast<DurationNs>(prng.between(1, 3)) * kSecond;
  options.min_reducers = static_cast<std::uint32_t>(prng.between(0, 2));
  return options;
}

class Crowd {
 public:
  explicit Crowd(std::uint64_t seed) : prng_(seed), story_(random_options(prng_)) {}

  // What the seeds reached, by name.
  using Reached = std::map<std::string, std::uint64_t>;
  void note_reached(Reached& reached) const {
    const CoordinatorCounters& counters = story_.core.counters();
    reached["jobs that ran"] += counters.jobs_formed;
    reached["jobs that failed"] += counters.jobs_failed;
    for (const auto& [peer, box] : story_.inbox)
      for (const wire::Message& message : box) {
        const auto* fail = std::get_if<wire::Fail>(&message);
        if (!fail) ++reached[std::string(wire::type_name(message))];
        if (!fail) continue;
        const bool one = fail->communicator != wire::kEveryCommunicator;
        ++reached[std::string(one ? "communicator " : "") + std::string(code_name(fail->code))];
      }
  }

  void run() {
    const std::uint64_t events = prng_.between(20, 250);
    for (std::uint64_t i = 0; i < events; ++i) {
      event();
      check();
      if (testing::Test::HasFailure()) return;
    }
    // No more faults: who waits for an outcome gets one within the limits.
    story_.pass(20 * kSecond);
    check();
    for (const PeerId w : joined_)
      if (!story_.is_closed(w) && !offenders_.contains(w) && !left_.contains(w)) {
        EXPECT_TRUE(story_.count<wire::Joined>(w) + story_.count<wire::Fail>(w) > 0) << "peer " << w.value << " waits";
      }
    // Everybody goes: nothing is left, and the reducers that stayed have closed every job they opened.
    for (const PeerId w : joined_) story_.cut(w);
    check();
    EXPECT_TRUE(story_.core.jobs().empty());
    for (const PeerId r : reducers_)
      if (!story_.is_closed(r)) {
        EXPECT_TRUE(open_[r].empty()) << "reducer " << r.value << " keeps a job open";
      }
  }

 private:
  PeerId any(const std::vector<PeerId>& of) { return of.empty() ? PeerId() : of[prng_.below(of.size())]; }
  std::string job() { return prng_.chance(80) ? "a" : "b"; }

  // Mostly the rank that is missing; at times one that is there, or in a world of another size.
  void join() {
    const std::string name = job();
    const bool odd = prng_.chance(chaos_);
    const auto world = static_cast<std::uint32_t>(odd ? prng_.between(0, 4) : 3);
    auto rank = static_cast<std::uint32_t>(prng_.below(3));
    for (const JobStatus& status : story_.core.jobs())
      if (status.job == name && !status.missing.empty() && !odd) rank = status.missing.front();
    wire::JobSettings settings;
    if (prng_.chance(chaos_)) settings.window = static_cast<std::uint16_t>(prng_.between(1, 2));
    joined_.push_back(story_.worker(rank, world, settings, name));
  }
  // Everybody does what is expected of him now.
  void progress() {
    for (const PeerId r : reducers_)
      while (answer(r)) continue;
    for (const PeerId w : joined_) {
      if (story_.is_closed(w) || left_.contains(w) || story_.count<wire::Joined>(w) == 0) continue;
      story_.say(w, wire::Ready{});
      if (story_.count<wire::Ping>(w) > 0 && !story_.is_closed(w)) story_.say(w, wire::Ping{});
    }
  }
  std::vector<std::uint32_t> members() {
    if (!prng_.chance(chaos_))
      return prng_.chance(50) ? std::vector<std::uint32_t>{0, 1, 2} : std::vector<std::uint32_t>{2, 0};
    std::vector<std::uint32_t> ranks(prng_.below(4));
    for (std::uint32_t& rank : ranks) rank = static_cast<std::uint32_t>(prng_.below(4));
    return ranks;
  }
  wire::CallDescription call() {
    wire::CallDescription call;
    call.count = prng_.chance(chaos_ / 2) ? prng_.below(3) : 8;
    return call;
  }
  std::uint16_t communicator() { return static_cast<std::uint16_t>(prng_.chance(50) ? 0 : prng_.below(6)); }

  // What a member that follows the protocol says next, more or less.
  void speak(PeerId w) {
    if (story_.is_closed(w) || left_.contains(w)) return;
    if (story_.count<wire::Joined>(w) == 0) return;
    switch (prng_.below(7)) {
      case 6:
        if (!prng_.chance(30)) return;
        resumed_.insert(w);
        return story_.say(w, wire::Resume{prng_.below(5), prng_.chance(50), 0});
      case 0:
        return story_.say(w, wire::Ready{});
      case 1:
        return story_.say(w, wire::Create{++request_, members()});
      case 2:
        return suspect(w, wire::CloseCommunicator{"", communicator(), prng_.below(5)});
      case 3:
      case 4:
        return suspect(w, wire::Waiting{communicator(), prng_.below(5), call()});
      default:
        if (prng_.chance(90)) return;
        left_.insert(w);
        fails_at_leave_[w] = story_.count<wire::Fail>(w);
        return story_.say(w, wire::Leave{prng_.below(5)});
    }
  }
  // A message that may break the protocol: what it brings upon its sender is its own fault.
  void suspect(PeerId w, const wire::Message& message) {
    if (story_.is_closed(w)) return;
    story_.say(w, message);
    if (story_.is_closed(w)) offenders_.insert(w);
  }
  // Answers the oldest request to reserve that it has not answered yet; false: there is none.
  bool answer(PeerId r) {
    const auto asked = story_.all<wire::OpenCommunicator>(r);
    if (story_.is_closed(r) || answered_[r] == asked.size()) return false;
    const auto& which = asked[answered_[r]++];
    const bool refuses = prng_.chance(chaos_ / 2);
    story_.say(r,
               wire::Reserved{which.job, which.communicator, 1, refuses ? Code::resource_exhausted : Code::ok, "full"});
    if (prng_.chance(chaos_)) story_.say(r, wire::Mismatched{which.job, which.communicator, prng_.below(5)});
    return true;
  }
  static wire::Message any_message(std::uint64_t which) {
    switch (which) {
      case 0:
        return wire::Join{1, "", "", {}};
      case 1:
        return wire::Joined{};
      case 2:
        return wire::Ready{};
      case 3:
        return wire::Leave{};
      case 4:
        return wire::Created{};
      case 5:
        return wire::Draining{};
      case 6:
        return wire::LaneLost{101, "x"};
      case 7:
        return wire::OpenJob{};
      case 8:
        return wire::Mismatched{"a", 0, 1};
      case 9:
        return wire::Stalled{};
      case 10:
        return wire::Progress{Epoch(1, 2), {{0, {1, 2}, {0, 0}}}};
      case 11:
        return wire::Entered{"a", Epoch(1, 2)};
      default:
        return wire::Fail{};
    }
  }
  void garbage() {
    const PeerId id = any(prng_.chance(70) ? joined_ : reducers_);
    if (id == PeerId() || left_.contains(id)) return;
    const wire::Message message = any_message(prng_.below(13));
    suspect(id, message);
    if (std::holds_alternative<wire::Leave>(message))
      left_.insert(id), fails_at_leave_[id] = story_.count<wire::Fail>(id);
  }

  void event() {
    const std::uint64_t what = prng_.below(100);
    if (what < 15) return join();
    if (what < 20 && reducers_.size() < 6) return reducers_.push_back(story_.reducer("r" + std::to_string(++names_)));
    if (what < 25) return static_cast<void>(answer(any(reducers_)));
    if (what < 35) return progress();
    if (what < 90) return speak(any(joined_));
    if (what >= 97) return story_.pass(static_cast<DurationNs>(prng_.below(500)) * kMillisecond);
    if (!prng_.chance(4 * chaos_)) return;
    if (what < 92) return story_.cut(any(joined_));
    if (what < 93) return story_.cut(any(reducers_));
    if (what < 94) return static_cast<void>(story_.beating.erase(any(joined_)));
    if (what < 95 && !reducers_.empty()) return story_.say(any(reducers_), wire::Draining{});
    garbage();
  }

  void check() {
    for (const PeerId w : joined_) {
      const auto& box = story_.inbox[w];
      std::size_t joins = 0, fails = 0;
      std::set<std::uint64_t> answered;
      for (const wire::Message& message : box) {
        if (const auto* joined = std::get_if<wire::Joined>(&message)) {
          if (resumed_.contains(w)) fails = 0;
          EXPECT_EQ(fails, 0u) << "joined after it failed";
          EXPECT_TRUE(joined->record.settings.chunk_bytes && joined->record.settings.window);
          ++joins;
        }
        const auto* fail = std::get_if<wire::Fail>(&message);
        if (fail && fail->communicator == wire::kEveryCommunicator && fail->code != Code::stale) ++fails;
        if (fail) {
          EXPECT_FALSE(fail->text.empty());
        }
        if (const auto* created = std::get_if<wire::Created>(&message)) {
          EXPECT_TRUE(answered.insert(created->request).second) << "a request was answered twice";
        }
        if (const auto* failed = std::get_if<wire::CreateFailed>(&message)) {
          EXPECT_TRUE(answered.insert(failed->request).second) << "a request was answered twice";
        }
      }
      if (!resumed_.contains(w)) {
        EXPECT_LE(joins, 1u);
      }
      if (!offenders_.contains(w) && story_.beating.contains(w) && !resumed_.contains(w)) {
        EXPECT_LE(fails, 1u) << "peer " << w.value;
      }
      if (left_.contains(w) && !offenders_.contains(w)) {
        EXPECT_EQ(story_.count<wire::Fail>(w), fails_at_leave_[w])
            << "it had left; " << story_.last<wire::Fail>(w).text;
      }
    }
    for (const PeerId r : reducers_) check_reducer(r);
  }

  // A reducer opens and closes in turn: no job twice, no communicator outside of a job or twice.
  void check_reducer(PeerId r) {
    const auto& box = story_.inbox[r];
    auto& open = open_[r];
    for (std::size_t& i = read_[r]; i < box.size(); ++i) {
      if (const auto* job = std::get_if<wire::OpenJob>(&box[i])) {
        EXPECT_TRUE(open.emplace(job->job, std::set<std::uint16_t>()).second) << job->job << " was open";
      }
      if (const auto* job = std::get_if<wire::CloseJob>(&box[i])) {
        EXPECT_EQ(open.erase(job->job), 1u) << job->job << " was not open";
      }
      if (const auto* c = std::get_if<wire::OpenCommunicator>(&box[i])) {
        ASSERT_TRUE(open.contains(c->job));
        EXPECT_TRUE(open[c->job].insert(c->communicator).second) << "communicator " << c->communicator << " was open";
      }
      if (const auto* c = std::get_if<wire::CloseCommunicator>(&box[i])) {
        ASSERT_TRUE(open.contains(c->job));
        EXPECT_EQ(open[c->job].erase(c->communicator), 1u) << "communicator " << c->communicator << " was not open";
      }
    }
  }

  Prng prng_;
  Story story_;
  const std::uint64_t chaos_ = prng_.between(0, 20);  // per cent
  std::vector<PeerId> joined_, reducers_;
  std::set<PeerId> left_, offenders_, resumed_;
  std::map<PeerId, std::size_t> fails_at_leave_, read_, answered_;
  std::map<PeerId, std::map<std::string, std::set<std::uint16_t>>> open_;
  std::uint64_t request_ = 0;
  int names_ = 0;
};

TEST(CoordinatorRandom, InvariantsHoldForEverySeed) {
  Crowd::Reached reached;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Crowd crowd(seed);
    crowd.run();
    if (HasFailure()) return;
    crowd.note_reached(reached);
  }
  for (const auto& [what, times] : reached)
    std::printf("%8llu %s\n", static_cast<unsigned long long>(times), what.c_str());
  // A random test that reaches nothing proves nothing.
  for (const char* what :
       {"jobs that ran", "jobs that failed", "created", "create_failed", "close_communicator", "stalled", "describe",
        "communicator mismatch", "communicator peer_lost", "peer_lost", "reducer_lost", "timeout", "mismatch",
        "resource_exhausted", "protocol_error", "invalid_argument"})
    EXPECT_GE(reached[what], 10u) << what;
}

}  // namespace
}  // namespace redsum::server
