// SPDX-License-Identifier: Apache-2.0
// Jobs that have lost all reducers of the pool: their workers bring reducers, until the pool has one again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using ::testing::HasSubstr;
using wire::Bring;
using wire::Brought;
using wire::CloseJob;
using wire::Commit;
using wire::Draining;
using wire::Entered;
using wire::Fail;
using wire::OpenJob;
using wire::Prepare;
using wire::Progress;
using wire::Recruit;
using wire::Recruited;
using wire::Reserved;

// A job of two workers on r0.
struct Falling : Story {
  using Story::Story;
  PeerId r0 = reducer("r0");
  std::vector<PeerId> workers = running(2, {r0});

  PeerId bring(std::uint32_t rank) {
    const PeerId id = connect(wire::Purpose::control_reducer, "", 0, ++brought_);
    beating.insert(id);
    const std::string name = "train/" + std::to_string(rank);
    say(id, wire::Register{name, name + ":9", 1, 1u << 30, "0.1.0", "train", worker_incarnation("train", rank)});
    return id;
  }
  // It reserves, and the workers reach all that are wanted.
  void accept(PeerId id) {
    say(id, Reserved{"train", 0, 1000, Code::ok, ""});
    for (const PeerId worker : workers)
      for (const wire::ReducerInfo& info : last<Recruit>(worker).reducers)
        say(worker, Recruited{info.instance, Code::ok, ""});
  }
  void change(const std::vector<PeerId>& reducers, std::size_t shards) {
    const Epoch epoch = last<Prepare>(workers[0]).epoch;
    for (const PeerId worker : workers)
      say(worker, Progress{epoch, {{0, std::vector<std::uint64_t>(shards), std::vector<std::uint64_t>(shards)}}});
    for (const PeerId id : reducers) say(id, Entered{"train", epoch});
  }
  std::vector<std::string> used() const {
    std::vector<std::string> names;
    for (const wire::ReducerInfo& reducer : last<Commit>(workers[0]).reducers) names.push_back(reducer.name);
    return names;
  }
  // On its workers' own reducers.
  std::pair<PeerId, PeerId> fall() {
    cut(r0);
    const PeerId a = bring(0), b = bring(1);
    accept(a);
    accept(b);
    change({a, b}, 1);
    EXPECT_EQ(used(), (std::vector<std::string>{"train/0", "train/1"}));
    return {a, b};
  }

 private:
  Incarnation brought_ = 500;
};

using Names = std::vector<std::string>;

TEST(CoordinatorFallback, WorkersBringReducersWhenThePoolHasNoneLeft) {
  Falling story;
  story.cut(story.r0);
  for (const PeerId worker : story.workers) {
    EXPECT_EQ(story.count<Bring>(worker), 1u);
    EXPECT_EQ(story.count<Prepare>(worker), 1u);
    EXPECT_EQ(story.count<Fail>(worker), 0u);
  }
  const PeerId a = story.bring(0);
  EXPECT_EQ(story.count<OpenJob>(a), 1u);
  story.accept(a);
  story.change({a}, 1);
  EXPECT_EQ(story.count<Commit>(story.workers[0]), 0u) << "the other one may bring one too";
  const PeerId b = story.bring(1);
  story.accept(b);
  story.change({a, b}, 1);
  EXPECT_EQ(story.used(), (Names{"train/0", "train/1"}));
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 1u) << "one epoch for all of it";
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorFallback, AsManyAsCan) {
  Falling story;
  story.cut(story.r0);
  const PeerId a = story.bring(0);
  story.accept(a);
  story.say(story.workers[1], Brought{Code::auth_failed, "no secret"});
  story.change({a}, 1);
  EXPECT_EQ(story.used(), (Names{"train/0"}));
}

TEST(CoordinatorFallback, OneThatDoesNotComeIsNotWaitedForForEver) {
  Falling story;
  story.cut(story.r0);
  const PeerId a = story.bring(0);
  story.accept(a);
  story.change({}, 1);
  story.pass(5100 * kMillisecond);
  story.change({a}, 1);
  EXPECT_EQ(story.used(), (Names{"train/0"}));
}

TEST(CoordinatorFallback, NobodyCan) {
  Falling story;
  story.cut(story.r0, "connection reset");
  for (const PeerId worker : story.workers) story.say(worker, Brought{Code::auth_failed, "no secret"});
  EXPECT_EQ(story.last<Fail>(story.workers[0]).code, Code::reducer_lost);
  EXPECT_EQ(story.last<Fail>(story.workers[0]).text, "reducer 'r0' (r0:7401) is lost: connection reset");
}

TEST(CoordinatorFallback, NoneIsBroughtWhereThatIsNotWanted) {
  Falling story(without_fallback());
  story.cut(story.r0);
  EXPECT_EQ(story.count<Bring>(story.workers[0]), 0u);
  EXPECT_EQ(story.last<Fail>(story.workers[0]).code, Code::reducer_lost);
}

TEST(CoordinatorFallback, ThePoolsReducerIsUsedAgainAndTheOthersRest) {
  Falling story;
  const auto [a, b] = story.fall();
  const PeerId back = story.reducer("r0");
  story.accept(back);
  story.change({back}, 2);
  EXPECT_EQ(story.used(), (Names{"r0"}));
  EXPECT_EQ(story.count<CloseJob>(a), 1u);
  EXPECT_EQ(story.count<CloseJob>(b), 1u);
  // And once more: they are still there.
  story.cut(back);
  EXPECT_EQ(story.count<Bring>(story.workers[0]), 1u);
  EXPECT_EQ(story.count<OpenJob>(a), 2u);
  story.accept(a);
  story.accept(b);
  story.change({a, b}, 1);
  EXPECT_EQ(story.used(), (Names{"train/0", "train/1"}));
}

TEST(CoordinatorFallback, ThePoolsReducerComesWhileTheyAreBrought) {
  Falling story;
  story.cut(story.r0);
  const PeerId a = story.bring(0);
  const PeerId back = story.reducer("r0");
  story.accept(a);
  story.accept(back);
  story.change({back}, 1);
  EXPECT_EQ(story.used(), (Names{"r0"}));
  EXPECT_EQ(story.count<CloseJob>(a), 1u);
  const PeerId b = story.bring(1);  // too late
  EXPECT_EQ(story.count<OpenJob>(b), 0u);
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 1u);
}

TEST(CoordinatorFallback, LanesToOneThatComesInAreKeptUntilTheCommit) {
  Falling story;
  story.cut(story.r0);
  const PeerId a = story.bring(0);
  const PeerId back = story.reducer("r0");
  story.say(a, Reserved{"train", 0, 1000, Code::ok, ""});
  story.say(back, Reserved{"train", 0, 1000, Code::ok, ""});
  for (const wire::ReducerInfo& info : story.last<Recruit>(story.workers[0]).reducers)
    for (const PeerId worker : story.workers)
      if (info.name == "r0") story.say(worker, Recruited{info.instance, Code::ok, ""});
  // It comes in at once, and rank 0's is wanted no more.
  ASSERT_EQ(story.count<CloseJob>(a), 1u);
  const Recruit kept = story.last<Recruit>(story.workers[0]);
  ASSERT_EQ(kept.reducers.size(), 1u);
  EXPECT_EQ(kept.reducers[0].name, "r0");
}

TEST(CoordinatorFallback, WhoLeavesTakesItsReducerWithItWhenTheOthersCanDoWithout) {
  Falling story;
  const auto [a, b] = story.fall();
  story.say(story.workers[1], wire::Leave{3});
  story.change({a}, 2);
  EXPECT_EQ(story.used(), (Names{"train/0"}));
  EXPECT_EQ(story.count<CloseJob>(b), 1u);
  story.say(story.workers[0], wire::Leave{3});
  EXPECT_EQ(story.count<CloseJob>(a), 1u);
  EXPECT_EQ(story.state(), "none");
}

TEST(CoordinatorFallback, ALostWorkerIsNamedAlsoWhenItsReducerGoesFirst) {
  Falling story;
  const auto [a, b] = story.fall();
  story.cut(b);
  EXPECT_EQ(story.count<Fail>(story.workers[0]), 0u);
  story.cut(story.workers[1]);
  EXPECT_EQ(story.last<Fail>(story.workers[0]).code, Code::peer_lost);
  EXPECT_THAT(story.last<Fail>(story.workers[0]).text, HasSubstr("rank 1"));
}

TEST(CoordinatorFallback, ThePoolsLastReducerDrains) {
  Falling story;
  story.say(story.r0, Draining{});
  const PeerId a = story.bring(0), b = story.bring(1);
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 0u) << "until then it serves";
  story.accept(a);
  story.accept(b);
  story.change({a, b}, 1);
  EXPECT_EQ(story.used(), (Names{"train/0", "train/1"}));
  EXPECT_EQ(story.count<CloseJob>(story.r0), 1u);
}

TEST(CoordinatorFallback, ALaterJobOfTheSameNameIsNotMixedUp) {
  Falling story;
  story.fall();
  for (const PeerId worker : story.workers) story.say(worker, wire::Leave{3});
  ASSERT_EQ(story.state(), "none");
  const PeerId again = story.bring(0);
  EXPECT_FALSE(story.is_closed(again)) << "the earlier one has had its job";
}

}  // namespace
}  // namespace redsum::server
