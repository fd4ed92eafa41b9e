// SPDX-License-Identifier: Apache-2.0
// A job whose reducers are lost goes on in new epochs: what the coordinator asks of whom, in which order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using ::testing::HasSubstr;
using wire::Commit;
using wire::Enter;
using wire::Entered;
using wire::Fail;
using wire::Prepare;
using wire::Progress;

Progress progress(Epoch epoch, std::vector<std::uint64_t> bulk, std::vector<std::uint64_t> small) {
  return {epoch, {{0, std::move(bulk), std::move(small)}}};
}

TEST(CoordinatorEpoch, ALostReducerOpensAnEpochWithTheOthers) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(2, {r0, r1});
  story.cut(r1);
  const Epoch epoch = story.last<Prepare>(workers[0]).epoch;
  EXPECT_EQ(epoch, Epoch(1, 2));
  EXPECT_EQ(story.count<Prepare>(workers[1]), 1u);
  story.say(workers[0], progress(epoch, {5, 7}, {0, 2}));
  EXPECT_EQ(story.count<Enter>(r0), 0u) << "not before every worker has stopped";
  story.say(workers[1], progress(epoch, {6, 3}, {1, 0}));
  EXPECT_EQ(story.last<Enter>(r0).epoch, epoch);
  EXPECT_EQ(story.count<Commit>(workers[0]), 0u) << "not before every reducer has entered";
  story.say(r0, Entered{"train", epoch});
  for (const PeerId worker : workers) {
    const Commit commit = story.last<Commit>(worker);
    EXPECT_EQ(commit.epoch, epoch);
    ASSERT_EQ(commit.reducers.size(), 1u);
    EXPECT_EQ(commit.reducers[0].name, "r0");
    EXPECT_EQ(commit.least, (std::vector<wire::CommunicatorProgress>{{0, {5, 3}, {0, 0}}}));
    EXPECT_EQ(story.count<Fail>(worker), 0u);
  }
  EXPECT_EQ(story.core.jobs()[0].epoch, epoch);
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorEpoch, AnotherLossOnTheWayBurnsTheNumber) {
  for (const bool entering : {false, true}) {
    Story story;
    const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1"), r2 = story.reducer("r2");
    const auto workers = story.running(2, {r0, r1, r2});
    story.cut(r1);
    const Epoch burnt = story.last<Prepare>(workers[0]).epoch;
    story.say(workers[0], progress(burnt, {1, 1, 1}, {0, 0, 0}));
    if (entering) story.say(workers[1], progress(burnt, {1, 1, 1}, {0, 0, 0}));
    story.cut(r2);
    const Epoch epoch = story.last<Prepare>(workers[0]).epoch;
    EXPECT_EQ(epoch, Epoch(1, 3));
    if (!entering) story.say(workers[1], progress(burnt, {9, 9, 9}, {0, 0, 0}));
    if (entering) story.say(r0, Entered{"train", burnt});
    EXPECT_EQ(story.count<Commit>(workers[0]), 0u) << "what belongs to the burnt number counts no more";
    for (const PeerId worker : workers) story.say(worker, progress(epoch, {2, 2, 2}, {0, 0, 0}));
    story.say(r0, Entered{"train", epoch});
    const Commit commit = story.last<Commit>(workers[1]);
    EXPECT_EQ(commit.epoch, epoch);
    EXPECT_EQ(commit.reducers.size(), 1u);
    EXPECT_EQ(commit.least[0].bulk, (std::vector<std::uint64_t>{2, 2, 2}));
  }
}

TEST(CoordinatorEpoch, TheLastReducerLostOnTheWayFailsTheJob) {
  Story story(without_fallback());
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(1, {r0, r1});
  story.cut(r1);
  story.cut(r0, "connection closed");
  EXPECT_EQ(story.last<Fail>(workers[0]).text, "reducer 'r0' (r0:7401) is lost: connection closed");
  story.say(workers[0], progress(story.last<Prepare>(workers[0]).epoch, {0, 0}, {0, 0}));
  EXPECT_EQ(story.count<Commit>(workers[0]), 0u);
}

TEST(CoordinatorEpoch, ALostWorkerEndsTheJobAsEver) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(2, {r0, r1});
  story.cut(r1);
  story.cut(workers[1]);
  EXPECT_EQ(story.last<Fail>(workers[0]).code, Code::peer_lost);
  story.say(workers[0], progress(story.last<Prepare>(workers[0]).epoch, {0, 0}, {0, 0}));
  EXPECT_EQ(story.count<Enter>(r0), 0u);
}

TEST(CoordinatorEpoch, AReducerThatAWorkerCannotReachIsGivenUp) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(2, {r0, r1});
  const auto joined = story.last<wire::Joined>(workers[0]).record.reducers;
  const Incarnation instance = joined[0].name == "r1" ? joined[0].instance : joined[1].instance;
  story.say(workers[1], wire::LaneLost{instance, "no route to host"});
  EXPECT_EQ(story.count<Prepare>(workers[0]), 0u) << "it may be lost itself, and is told better then";
  story.pass(1100 * kMillisecond);
  EXPECT_EQ(story.count<wire::CloseJob>(r1), 1u);
  const Epoch epoch = story.last<Prepare>(workers[0]).epoch;
  story.say(workers[0], wire::LaneLost{instance, "connection closed"});
  EXPECT_FALSE(story.is_closed(workers[0])) << "it speaks of what is over";
  for (const PeerId worker : workers) story.say(worker, progress(epoch, {0, 0}, {0, 0}));
  story.say(r0, Entered{"train", epoch});
  EXPECT_EQ(story.last<Commit>(workers[0]).reducers[0].name, "r0");
}

TEST(CoordinatorEpoch, WhoHasLeftContributesAgain) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(2, {r0, r1});
  story.say(workers[1], wire::Leave{3});
  story.cut(r1, "connection closed");
  const Epoch epoch = story.last<Prepare>(workers[1]).epoch;
  story.say(workers[0], progress(epoch, {1, 1}, {0, 0}));
  EXPECT_EQ(story.count<Enter>(r0), 0u);
  story.say(workers[1], progress(epoch, {3, 3}, {0, 0}));
  story.say(r0, Entered{"train", epoch});
  EXPECT_EQ(story.count<Fail>(workers[0]), 0u);
  EXPECT_EQ(story.last<Commit>(workers[1]).least.at(0).bulk, (std::vector<std::uint64_t>{1, 1}));
  EXPECT_EQ(story.count<wire::CloseJob>(workers[1]), 0u);
  story.say(workers[0], wire::Leave{3});
  EXPECT_EQ(story.count<wire::CloseJob>(workers[1]), 1u) << "nobody needs it any more";
}

TEST(CoordinatorEpoch, WhoHasLeftAndGoneIsMissed) {
  for (const bool reports : {false, true}) {
    Story story;
    const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
    const auto workers = story.running(2, {r0, r1});
    story.cut(r1, "connection closed");
    const Epoch epoch = story.last<Prepare>(workers[0]).epoch;
    story.say(workers[0], progress(epoch, {1, 1}, {0, 0}));
    story.say(workers[1], wire::Leave{3});
    if (reports) story.say(workers[1], progress(epoch, {3, 3}, {0, 0}));
    story.cut(workers[1], "connection closed");
    story.say(r0, Entered{"train", epoch});
    const Fail fail = story.last<Fail>(workers[0]);
    EXPECT_EQ(fail.communicator, 0u);
    EXPECT_EQ(fail.code, Code::reducer_lost) << "what it contributed cannot be had again";
    EXPECT_THAT(fail.text, HasSubstr("is gone, and needed to go on"));
    EXPECT_TRUE(story.last<Commit>(workers[0]).least.empty());
  }
}

TEST(CoordinatorEpoch, WhoIsNeededAfterItHasLeftIsNamedWhenItGoes) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(2, {r0, r1});
  story.say(workers[1], wire::Leave{3});
  story.cut(r1, "connection closed");
  const Epoch epoch = story.last<Prepare>(workers[0]).epoch;
  for (const PeerId worker : workers) story.say(worker, progress(epoch, {1, 1}, {0, 0}));
  story.say(r0, Entered{"train", epoch});
  story.cut(workers[1], "connection closed");
  const Fail fail = story.last<Fail>(workers[0]);
  EXPECT_EQ(fail.code, Code::peer_lost);
  EXPECT_THAT(fail.text, HasSubstr("was still needed, is lost"));
}

TEST(CoordinatorEpoch, WhoClosedACommunicatorHearsWhenAllHave) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(2, {r0, r1});
  for (const PeerId worker : workers) story.say(worker, wire::Create{7, {0, 1}});
  const auto id = story.last<wire::OpenCommunicator>(r0).communicator;
  for (const PeerId reducer : {r0, r1}) story.say(reducer, wire::Reserved{"train", id, 1000, Code::ok, ""});
  story.say(workers[0], wire::CloseCommunicator{"", id, 2});
  EXPECT_EQ(story.count<wire::CloseCommunicator>(workers[0]), 0u);
  story.say(workers[1], wire::CloseCommunicator{"", id, 2});
  for (const PeerId worker : workers) EXPECT_EQ(story.last<wire::CloseCommunicator>(worker).communicator, id);
}

TEST(CoordinatorEpoch, ACommunicatorThatIsBeingMadeIsMadeWithoutTheLostReducer) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(2, {r0, r1});
  for (const PeerId worker : workers) story.say(worker, wire::Create{7, {0, 1}});
  const auto id = story.last<wire::OpenCommunicator>(r0).communicator;
  story.say(r0, wire::Reserved{"train", id, 1000, Code::ok, ""});
  EXPECT_EQ(story.count<wire::Created>(workers[0]), 0u);
  story.cut(r1);
  EXPECT_EQ(story.count<wire::Created>(workers[0]), 1u);
}

TEST(CoordinatorEpoch, RanksThatCountOtherShardsBreakTheProtocol) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(2, {r0, r1});
  story.cut(r1);
  const Epoch epoch = story.last<Prepare>(workers[0]).epoch;
  story.say(workers[0], progress(epoch, {1, 1}, {0, 0}));
  story.say(workers[1], progress(epoch, {1}, {0}));
  EXPECT_TRUE(story.is_closed(workers[1]));
  EXPECT_EQ(story.last<Fail>(workers[1]).code, Code::protocol_error);
}

}  // namespace
}  // namespace redsum::server
