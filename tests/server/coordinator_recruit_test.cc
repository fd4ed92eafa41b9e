// SPDX-License-Identifier: Apache-2.0
// Reducers that come into a running job and that leave it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using ::testing::HasSubstr;
using wire::CloseJob;
using wire::Commit;
using wire::Draining;
using wire::Enter;
using wire::Entered;
using wire::Fail;
using wire::OpenCommunicator;
using wire::OpenJob;
using wire::Prepare;
using wire::Progress;
using wire::Recruit;
using wire::Recruited;
using wire::Reserved;

Reserved reserved(std::uint16_t communicator = 0, Code code = Code::ok, std::string text = "") {
  return {"train", communicator, 1000, code, std::move(text)};
}

std::vector<std::string> names(const std::vector<wire::ReducerInfo>& reducers) {
  std::vector<std::string> all;
  for (const wire::ReducerInfo& reducer : reducers) all.push_back(reducer.name);
  return all;
}

using Names = std::vector<std::string>;

// A job of two workers on r0, and one reducer more.
struct Growing : Story {
  using Story::Story;
  PeerId r0 = reducer("r0");
  std::vector<PeerId> workers = running(2, {r0});
  PeerId r1 = reducer("r1");

  Incarnation instance() const { return last<Recruit>(workers[0]).reducers.at(0).instance; }
  void come_in() {
    say(r1, reserved());
    for (const PeerId worker : workers) say(worker, Recruited{instance(), Code::ok, ""});
  }
  void stop(std::size_t shards) {
    const Epoch epoch = last<Prepare>(workers[0]).epoch;
    for (const PeerId worker : workers)
      say(worker, Progress{epoch, {{0, std::vector<std::uint64_t>(shards), std::vector<std::uint64_t>(shards)}}});
  }
  void enter(const std::vector<PeerId>& reducers) {
    for (const PeerId id : reducers) say(id, Entered{"train", last<Prepare>(workers[0]).epoch});
  }
};

TEST(CoordinatorRecruit, AReducerThatRegistersLaterComesIn) {
  Growing story;
  EXPECT_EQ(story.last<OpenJob>(story.r1).record.workers.size(), 2u);
  EXPECT_EQ(story.last<OpenCommunicator>(story.r1).members, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(story.count<Recruit>(story.workers[0]), 0u) << "it has not reserved";
  story.say(story.r1, reserved());
  for (const PeerId worker : story.workers) EXPECT_EQ(names(story.last<Recruit>(worker).reducers), (Names{"r1"}));
  story.say(story.workers[0], Recruited{story.instance(), Code::ok, ""});
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 0u) << "the other worker has no lane to it";
  story.say(story.workers[1], Recruited{story.instance(), Code::ok, ""});
  story.stop(1);
  story.enter({story.r0});
  EXPECT_EQ(story.count<Commit>(story.workers[0]), 0u) << "it has not entered";
  story.enter({story.r1});
  for (const PeerId worker : story.workers) EXPECT_EQ(names(story.last<Commit>(worker).reducers), (Names{"r0", "r1"}));
  EXPECT_EQ(story.core.jobs()[0].epoch, Epoch(1, 2));
  story.cut(story.r0);  // now the job can do without it
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorRecruit, OneThatAWorkerCannotReachIsTriedAgainLaterAndLater) {
  Growing story;
  story.say(story.r1, reserved());
  DurationNs wait = kSecond;
  for (int tries = 1; tries <= 3; ++tries) {
    story.say(story.workers[0], Recruited{story.instance(), Code::ok, ""});
    story.say(story.workers[1], Recruited{story.instance(), Code::timeout, "no answer"});
    EXPECT_THAT(story.last<CloseJob>(story.r1).reason, HasSubstr("cannot be reached by rank 1 (host1:100"));
    EXPECT_TRUE(story.last<Recruit>(story.workers[0]).reducers.empty()) << "its lanes are wanted no more";
    story.pass(wait * 9 / 10);
    EXPECT_EQ(story.count<OpenJob>(story.r1), static_cast<std::size_t>(tries));
    story.pass(wait / 5);
    EXPECT_EQ(story.count<OpenJob>(story.r1), static_cast<std::size_t>(tries) + 1);
    story.say(story.r1, reserved());
    wait *= 2;
  }
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 0u);
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorRecruit, OneThatDoesNotAnswerIsDismissedInTime) {
  Growing story;
  story.pass(11 * kSecond);
  EXPECT_THAT(story.last<CloseJob>(story.r1).reason, HasSubstr("has not reserved within 10 s"));
  story.say(story.r1, reserved());  // of the next try
  story.say(story.workers[1], Recruited{story.instance(), Code::ok, ""});
  story.pass(11 * kSecond);
  EXPECT_THAT(story.last<CloseJob>(story.r1).reason, HasSubstr("no lanes within 10 s from rank 0"));
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorRecruit, OneWithoutMemoryIsDismissed) {
  Growing story;
  story.say(story.r1, reserved(0, Code::resource_exhausted, "needs 9 of 8 MiB"));
  EXPECT_EQ(story.count<CloseJob>(story.r1), 1u);
  EXPECT_EQ(story.count<Recruit>(story.workers[0]), 0u);
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorRecruit, CommunicatorsThatAreMadeMeanwhileAreOpenedThereToo) {
  Growing story;
  story.say(story.r1, reserved());
  const std::uint16_t id = story.communicator(story.workers, {0, 1}, {story.r0});
  EXPECT_EQ(story.count<wire::Created>(story.workers[0]), 1u) << "the job does not wait for a recruit";
  EXPECT_EQ(story.last<OpenCommunicator>(story.r1).communicator, id);
  for (const PeerId worker : story.workers) story.say(worker, Recruited{story.instance(), Code::ok, ""});
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 0u) << "it has not reserved for the new one";
  story.say(story.r1, reserved(id));
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 1u);
}

TEST(CoordinatorRecruit, WorkersThatHaveLeftAndAreStillThereOpenLanesToo) {
  Growing story;
  story.say(story.workers[1], wire::Leave{3});
  story.say(story.r1, reserved());
  EXPECT_EQ(names(story.last<Recruit>(story.workers[1]).reducers), (Names{"r1"}));
  story.say(story.workers[0], Recruited{story.instance(), Code::ok, ""});
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 0u);
  story.cut(story.workers[1]);
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 1u);
}

TEST(CoordinatorRecruit, TheLastReducerIsLostWhileOneComes) {
  for (const bool comes : {true, false}) {
    Growing story(without_fallback());
    story.cut(story.r0);
    EXPECT_EQ(story.state(), "running") << "it waits for the recruit";
    story.stop(1);
    EXPECT_EQ(story.count<Commit>(story.workers[0]), 0u);
    if (!comes) {
      story.say(story.r1, reserved(0, Code::resource_exhausted, "no memory"));
      EXPECT_EQ(story.last<Fail>(story.workers[0]).code, Code::reducer_lost);
      EXPECT_THAT(story.last<Fail>(story.workers[0]).text, HasSubstr("reducer 'r0' (r0:7401) is lost"));
      continue;
    }
    story.come_in();
    EXPECT_EQ(story.count<Prepare>(story.workers[0]), 1u) << "the workers have stopped already";
    story.enter({story.r1});
    EXPECT_EQ(names(story.last<Commit>(story.workers[1]).reducers), (Names{"r1"}));
  }
}

TEST(CoordinatorRecruit, ARecruitThatIsLostIsForgotten) {
  Growing story;
  story.say(story.r1, reserved());
  const Incarnation instance = story.instance();
  story.cut(story.r1);
  EXPECT_TRUE(story.last<Recruit>(story.workers[0]).reducers.empty());
  EXPECT_EQ(story.state(), "running");
  for (const PeerId worker : story.workers) story.say(worker, Recruited{instance, Code::ok, ""});  // too late
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 0u);
}

TEST(CoordinatorRecruit, AReducerThatDrainsIsLetGoWhenAnEpochWithoutItHasBegun) {
  Growing story;
  story.come_in();
  story.stop(1);
  story.enter({story.r0, story.r1});
  story.say(story.r0, Draining{});
  story.stop(2);
  EXPECT_EQ(story.count<Enter>(story.r0), 1u) << "only the first one";
  EXPECT_EQ(story.count<CloseJob>(story.r0), 0u);
  story.enter({story.r1});
  EXPECT_EQ(names(story.last<Commit>(story.workers[0]).reducers), (Names{"r1"}));
  EXPECT_EQ(story.count<CloseJob>(story.r0), 1u);
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorRecruit, TheOnlyReducerDrainsWhenAnotherHasCome) {
  Growing story;
  story.say(story.r0, Draining{});
  EXPECT_EQ(story.count<Prepare>(story.workers[0]), 0u);
  story.come_in();
  story.stop(1);
  story.enter({story.r1});
  EXPECT_EQ(names(story.last<Commit>(story.workers[0]).reducers), (Names{"r1"}));
  EXPECT_EQ(story.count<CloseJob>(story.r0), 1u);
}

TEST(CoordinatorRecruit, AReducerThatAWorkerLostMayComeBackAfterAWhile) {
  Growing story;
  story.come_in();
  story.stop(1);
  story.enter({story.r0, story.r1});
  story.say(story.workers[0], wire::LaneLost{story.last<Commit>(story.workers[0]).reducers[1].instance, "reset"});
  story.pass(1100 * kMillisecond);
  story.stop(2);
  story.enter({story.r0});
  EXPECT_EQ(names(story.last<Commit>(story.workers[0]).reducers), (Names{"r0"}));
  EXPECT_EQ(story.count<OpenJob>(story.r1), 1u);
  story.pass(1100 * kMillisecond);
  EXPECT_EQ(story.count<OpenJob>(story.r1), 2u);
  story.come_in();
  story.stop(1);
  story.enter({story.r0, story.r1});
  EXPECT_EQ(names(story.last<Commit>(story.workers[0]).reducers), (Names{"r0", "r1"}));
}

TEST(CoordinatorRecruit, JobsThatNeedNoPoolTakeNobodyIn) {
  Story story;
  wire::JobSettings ring;
  ring.mode = wire::Mode::ring;
  const PeerId worker = story.worker(0, 1, ring);
  story.say(worker, wire::Ready{});
  ASSERT_EQ(story.state(), "running");
  EXPECT_EQ(story.count<OpenJob>(story.reducer("r0")), 0u);
}

}  // namespace
}  // namespace redsum::server
