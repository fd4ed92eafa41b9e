// SPDX-License-Identifier: Apache-2.0
// How jobs end: workers leave, somebody is lost, somebody breaks the protocol.
#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using wire::CloseJob, wire::Fail, wire::Heartbeat, wire::Joined, wire::Leave, wire::Reserved;

TEST(CoordinatorLoss, ALostWorkerFailsTheJobForAllOthers) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  const auto workers = story.running(3, {reducer});
  story.cut(workers[2]);
  for (const PeerId w : {workers[0], workers[1]}) {
    const Fail fail = story.last<Fail>(w);
    EXPECT_EQ(fail.communicator, wire::kEveryCommunicator);
    EXPECT_EQ(fail.code, Code::peer_lost);
    EXPECT_EQ(fail.text, "rank 2 (host2:100 at 127.0.0.1:5004) is lost: connection reset");
    EXPECT_EQ(fail.ranks, (std::vector<std::uint32_t>{2}));
    EXPECT_FALSE(story.is_closed(w));
  }
  EXPECT_EQ(story.state(), "failed");
  EXPECT_EQ(story.core.jobs().front().last_error, story.last<Fail>(workers[0]).text);
  EXPECT_EQ(story.core.counters().failures[static_cast<std::size_t>(Code::peer_lost)], 1u);
  // The lanes stay until the survivors have gone, each in its own way, and the reason is told once.
  story.cut(workers[0]);
  EXPECT_EQ(story.count<Fail>(workers[1]), 1u);
  EXPECT_EQ(story.count<CloseJob>(reducer), 0u);
  story.say(workers[1], Leave{});
  EXPECT_EQ(story.count<CloseJob>(reducer), 1u);
  EXPECT_EQ(story.state(), "none");
}

TEST(CoordinatorLoss, TheReducersOfAFailedJobAreFreedAfterAWhile) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  const auto workers = story.running(2, {reducer});
  story.cut(workers[1]);
  story.pass(4900 * kMillisecond);
  EXPECT_EQ(story.count<CloseJob>(reducer), 0u);
  story.pass(200 * kMillisecond);
  EXPECT_EQ(story.count<CloseJob>(reducer), 1u);
  EXPECT_EQ(story.state(), "failed") << "a worker is still there";
  story.say(workers[0], wire::Create{9, {0}});
  EXPECT_EQ(story.last<wire::CreateFailed>(workers[0]).code, Code::peer_lost);
  story.say(workers[0], wire::Ready{});
  story.cut(workers[0]);
  EXPECT_EQ(story.state(), "none");
  EXPECT_EQ(story.count<CloseJob>(reducer), 1u);
}

TEST(CoordinatorLoss, SilenceIsLossAndTheTextGivesTheLimit) {
  Story story;
  const auto workers = story.running(2, {story.reducer("r0")});
  story.beating.erase(workers[1]);
  story.pass(2900 * kMillisecond);
  EXPECT_EQ(story.state(), "running");
  story.pass(200 * kMillisecond);
  EXPECT_EQ(story.last<Fail>(workers[0]).text,
            "rank 1 (host1:100 at 127.0.0.1:5003) is lost: no heartbeat for 3 s (limit heartbeat_timeout=3 s)");
  EXPECT_EQ(story.last<Fail>(workers[0]).code, Code::peer_lost);
  EXPECT_TRUE(story.is_closed(workers[1]));
  EXPECT_EQ(story.last<Fail>(workers[1]).code, Code::timeout) << "if it comes to itself, it knows why";
}

TEST(CoordinatorLoss, AnyMessageIsASignOfLifeAndHeartbeatsAreAnswered) {
  Story story;
  const auto workers = story.running(1, {story.reducer("r0")});
  story.beating.erase(workers[0]);
  for (int i = 0; i < 5; ++i) {
    story.pass(2 * kSecond);
    story.say(workers[0], wire::Waiting{0, 7, {}});
  }
  EXPECT_EQ(story.state(), "running");
  story.say(workers[0], Heartbeat{41});
  EXPECT_EQ(story.last<Heartbeat>(workers[0]).count, 41u);
  const PeerId tool = story.connect(wire::Purpose::control_tool, "", 0, 1);
  story.say(tool, wire::Ping{});
  EXPECT_EQ(story.count<wire::Ping>(tool), 1u);
}

TEST(CoordinatorLoss, NET_06_ItsOwnStandstillIsNotTheSilenceOfOthers) {
  Story story;
  const auto workers = story.running(2, {story.reducer("r0")});
  story.pass(kSecond);
  story.now += 30 * kSecond;  // stopped and continued: what the peers sent meanwhile is still unread
  story.pass(1);
  EXPECT_EQ(story.state(), "running");
  story.beating.erase(workers[0]);
  story.pass(4 * kSecond);
  EXPECT_EQ(story.state(), "failed");
}

TEST(CoordinatorLoss, InEveryStateALossHasItsEnd) {
  // Opening, before and after Joined.
  for (const bool told : {false, true}) {
    Story story;
    const PeerId reducer = story.reducer("r0");
    const PeerId a = story.worker(0, 2), b = story.worker(1, 2);
    if (told) story.say(reducer, Reserved{"train", 0, 1, Code::ok, ""});
    story.cut(b);
    EXPECT_EQ(story.last<Fail>(a).code, Code::peer_lost);
    EXPECT_EQ(story.count<Joined>(a), told ? 1u : 0u);
    story.say(reducer, Reserved{"train", 0, 1, Code::ok, ""});
    EXPECT_EQ(story.count<Joined>(a), told ? 1u : 0u) << "never after the failure";
    story.cut(a);
    EXPECT_EQ(story.state(), "none");
    EXPECT_EQ(story.count<CloseJob>(reducer), 1u);
  }
}

TEST(CoordinatorLoss, TheLastReducerOrOneOfAnOpeningJobFailsIt) {
  Story story(without_fallback());
  const PeerId r0 = story.reducer("r0");
  const auto one = story.running(1, {r0}, "one");
  const PeerId r1 = story.reducer("r1");
  const PeerId two = story.worker(0, 1, {}, "two");  // of both, and opening
  story.cut(r1, "connection closed");
  EXPECT_EQ(story.count<Fail>(one[0]), 0u);
  const Fail opening = story.last<Fail>(two);
  EXPECT_EQ(opening.code, Code::reducer_lost);
  EXPECT_EQ(opening.text, "reducer 'r1' (r1:7401) is lost: connection closed");
  EXPECT_TRUE(opening.ranks.empty());
  EXPECT_EQ(story.state("one"), "running");
  story.cut(r0, "connection closed");
  EXPECT_EQ(story.last<Fail>(one[0]).text, "reducer 'r0' (r0:7401) is lost: connection closed") << "its only one";
  EXPECT_EQ(story.core.reducers().size(), 0u);
}

TEST(CoordinatorLoss, ABrokenLaneWaitsForItsReducersOwnLoss) {
  Story story(without_fallback());
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(2, {r0});
  const Incarnation instance = story.last<Joined>(workers[0]).record.reducers[0].instance;
  story.say(workers[0], wire::LaneLost{instance, "connection reset"});
  story.pass(500 * kMillisecond);
  EXPECT_EQ(story.state(), "running");
  story.cut(r0, "connection closed");
  EXPECT_EQ(story.last<Fail>(workers[1]).text, "reducer 'r0' (r0:7401) is lost: connection closed");

  Story alone(without_fallback());
  const auto others = alone.running(2, {alone.reducer("r0")});
  alone.say(others[0], wire::LaneLost{alone.last<Joined>(others[0]).record.reducers[0].instance, "no route to host"});
  alone.pass(1100 * kMillisecond);
  EXPECT_EQ(alone.last<Fail>(others[1]).code, Code::reducer_lost);
  EXPECT_EQ(alone.last<Fail>(others[1]).text,
            "reducer 'r0' (r0:7401) cannot be reached by rank 0 (host0:100 at 127.0.0.1:5002): no route to host");
  EXPECT_EQ(alone.count<Fail>(others[1]), 1u);
}

TEST(CoordinatorLoss, LeavingIsNoLossAndTheLastOneClosesTheJob) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  const auto workers = story.running(2, {reducer});
  story.say(workers[0], Leave{5});
  story.cut(workers[0]);
  EXPECT_EQ(story.state(), "running");
  EXPECT_EQ(story.count<Fail>(workers[1]), 0u);
  EXPECT_EQ(story.count<CloseJob>(reducer), 0u);
  story.say(workers[1], Leave{5});
  EXPECT_EQ(story.count<CloseJob>(reducer), 1u);
  EXPECT_EQ(story.state(), "none") << "at once, before its connection has gone";
  EXPECT_EQ(story.core.counters().jobs_ended, 1u);
  EXPECT_EQ(story.core.counters().jobs_failed, 0u);
  story.say(workers[1], Leave{5});
  story.say(workers[1], wire::Waiting{});
  EXPECT_EQ(story.count<Fail>(workers[1]), 0u);
}

TEST(CoordinatorLoss, ALossAfterOthersHaveLeftConcernsOnlyWhoIsThere) {
  Story story;
  const auto workers = story.running(3, {story.reducer("r0")});
  story.say(workers[0], Leave{1});
  story.cut(workers[1]);
  EXPECT_EQ(story.count<Fail>(workers[0]), 0u);
  EXPECT_EQ(story.count<Fail>(workers[2]), 1u);
  story.say(workers[2], Leave{1});
  EXPECT_EQ(story.state(), "none");
}

TEST(CoordinatorLoss, LeavingWhileItFormsFreesThePlace) {
  Story story;
  const PeerId a = story.worker(0, 2);
  story.say(a, Leave{});
  EXPECT_EQ(story.state(), "none");
  story.cut(a);
  EXPECT_EQ(story.core.counters().jobs_failed, 0u);
}

TEST(CoordinatorLoss, WhoBreaksTheProtocolIsClosedAndLost) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  const auto workers = story.running(2, {reducer});
  story.say(workers[1], wire::Registered{3});
  EXPECT_TRUE(story.is_closed(workers[1]));
  EXPECT_EQ(story.last<Fail>(workers[1]).code, Code::protocol_error);
  EXPECT_EQ(story.last<Fail>(workers[0]).code, Code::peer_lost);
  EXPECT_NE(story.last<Fail>(workers[0]).text.find("may not send 'registered' now"), std::string::npos);

  for (const wire::Message& early :
       std::vector<wire::Message>{wire::Ready{}, wire::Leave{}, wire::Create{}, wire::LaneLost{}}) {
    const PeerId worker = story.connect(wire::Purpose::control_worker, "other", 0, 1);
    story.say(worker, early);
    EXPECT_TRUE(story.is_closed(worker)) << wire::type_name(early);
  }
  const PeerId forming = story.worker(0, 2, {}, "forming");
  story.say(forming, wire::Ready{});
  EXPECT_TRUE(story.is_closed(forming)) << "before Joined";
  const PeerId stranger = story.connect(wire::Purpose::control_reducer, "", 0, 1);
  story.say(stranger, wire::Draining{});
  EXPECT_TRUE(story.is_closed(stranger));
  story.say(reducer, wire::Register{"r0", "r0:7401", 1, 1, ""});
  EXPECT_TRUE(story.is_closed(reducer));
}

TEST(CoordinatorLoss, ALaneToAReducerOfAnotherJobIsAProtocolError) {
  Story story;
  const auto workers = story.running(1, {story.reducer("r0")});
  story.say(workers[0], wire::LaneLost{999, ""});
  EXPECT_EQ(story.last<Fail>(workers[0]).code, Code::protocol_error);
  EXPECT_EQ(story.state(), "none");
}

}  // namespace
}  // namespace redsum::server
