// SPDX-License-Identifier: Apache-2.0
// The workers of a job change: those that are left resume, new ones are taken in, a newer process of a rank supersedes.
#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using wire::Applicants, wire::CloseJob, wire::Fail, wire::Joined, wire::OpenJob, wire::Ping, wire::Ready,
    wire::Reserved, wire::Resume, wire::Resumed;

// A job of three workers on two reducers.
struct Elastic : Story {
  explicit Elastic(wire::JobSettings settings = {}, CoordinatorOptions options = {})
      : Story(options), r0(reducer("r0")), r1(reducer("r1")), settings_(settings) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) workers.push_back(worker(rank, 3, settings));
    open(workers);
    clear();
  }
  PeerId apply(std::uint32_t rank) { return worker(rank, 3, settings_); }
  void resume(PeerId worker, std::uint64_t sequence, bool admit = false) {
    say(worker, Resume{sequence, admit, 20000});
    pass(kMillisecond);
  }
  // The reducers reserve and all say that their lanes are open.
  void open(const std::vector<PeerId>& members) {
    for (const PeerId r : {r0, r1}) say(r, Reserved{"train", 0, 1000, Code::ok, ""});
    for (const PeerId w : members) {
      EXPECT_EQ(count<Joined>(w), 1u);
      say(w, Ready{});
    }
    EXPECT_EQ(state(), "running") << (notes.empty() ? "" : notes.back());
  }
  wire::EpochRecord record(PeerId worker) const { return last<Joined>(worker).record; }
  std::vector<Incarnation> incarnations(PeerId worker) const {
    std::vector<Incarnation> all;
    for (const wire::WorkerInfo& one : record(worker).workers) all.push_back(one.incarnation);
    return all;
  }

  PeerId r0, r1;
  std::vector<PeerId> workers;

 private:
  wire::JobSettings settings_;
};

TEST(CoordinatorResume, ThoseThatAreLeftGoOnFromTheLowestIncompleteCall) {
  Elastic story;
  story.cut(story.workers[1]);
  for (const std::size_t rank : {0u, 2u}) EXPECT_EQ(story.last<Fail>(story.workers[rank]).code, Code::peer_lost);
  story.clear();
  story.resume(story.workers[0], 7);
  EXPECT_EQ(story.count<OpenJob>(story.r0), 0u) << "rank 2 has not asked yet";
  story.resume(story.workers[2], 5);
  for (const PeerId r : {story.r0, story.r1}) {
    EXPECT_EQ(story.count<CloseJob>(r), 1u);
    EXPECT_EQ(story.last<OpenJob>(r).record.workers.size(), 2u);
  }
  story.open({story.workers[0], story.workers[2]});
  const wire::EpochRecord record = story.record(story.workers[0]);
  EXPECT_EQ(record, story.record(story.workers[2]));
  EXPECT_EQ(record.sequence, 5u);
  EXPECT_EQ(record.stayed, 2u);
  EXPECT_EQ(record.workers[1].host, "host2:100") << "rank 2 is rank 1 now";
  EXPECT_EQ(record.workers[1].rank, 1u);
  EXPECT_GT(record.epoch, Epoch(1, 1));
  // The new ranks count from now on.
  story.clear();
  story.cut(story.workers[2]);
  EXPECT_EQ(story.last<Fail>(story.workers[0]).ranks, (std::vector<std::uint32_t>{1}));
}

TEST(CoordinatorResume, TheLaneKeyIsNotThatOfTheMembershipBefore) {
  Elastic story;
  story.cut(story.workers[1]);
  story.resume(story.workers[0], 0);
  story.resume(story.workers[2], 0);
  const wire::Nonce second = story.last<OpenJob>(story.r0).record.lane_nonce;
  story.open({story.workers[0], story.workers[2]});
  story.clear();
  story.apply(1);
  story.resume(story.workers[0], 0, true);
  story.resume(story.workers[2], 0, true);
  EXPECT_NE(story.last<OpenJob>(story.r0).record.lane_nonce, second);
}

TEST(CoordinatorResume, AWorkerThatLeavesIsLeftOut) {
  Elastic story;
  story.say(story.workers[1], wire::Leave{4});
  story.resume(story.workers[0], 4, true);
  story.resume(story.workers[2], 4, true);
  story.open({story.workers[0], story.workers[2]});
  EXPECT_EQ(story.record(story.workers[0]).sequence, 4u);
}

TEST(CoordinatorResume, WithoutAnybodyWaitingAdmitChangesNothing) {
  Elastic story;
  for (const PeerId w : story.workers) story.resume(w, 3, true);
  for (const PeerId w : story.workers) {
    EXPECT_EQ(story.last<Resumed>(w).code, Code::ok);
    EXPECT_EQ(story.count<Joined>(w), 0u);
  }
  EXPECT_EQ(story.count<CloseJob>(story.r0), 0u);
  for (const PeerId w : story.workers) story.resume(w, 4, true);
  EXPECT_EQ(story.count<Resumed>(story.workers[0]), 2u);
}

TEST(CoordinatorResume, AWorkerThatComesBackIsToldOfAndTakenIn) {
  Elastic story;
  story.cut(story.workers[1]);
  story.resume(story.workers[0], 9);
  story.resume(story.workers[2], 9);
  story.open({story.workers[0], story.workers[2]});
  story.clear();
  const PeerId back = story.apply(1);
  story.pass(kMillisecond);
  EXPECT_EQ(story.last<Applicants>(story.workers[0]).count, 1u);
  EXPECT_EQ(story.count<Joined>(back), 0u);
  story.resume(story.workers[2], 12, true);
  story.resume(story.workers[0], 12, true);
  story.open({story.workers[0], story.workers[2], back});
  const wire::EpochRecord record = story.record(back);
  EXPECT_EQ(record.stayed, 2u);
  EXPECT_EQ(record.sequence, 12u);
  EXPECT_EQ(record.workers[2].incarnation, story.worker_incarnation("train", 1));
  EXPECT_EQ(record, story.record(story.workers[0]));
  // It is rank 2 now: its loss names that rank.
  story.clear();
  story.cut(back);
  EXPECT_EQ(story.last<Fail>(story.workers[0]).ranks, (std::vector<std::uint32_t>{2}));
}

TEST(CoordinatorResume, WhoComesWhileTheOthersResumeIsTakenInAtOnce) {
  Elastic story;
  story.cut(story.workers[0]);
  const PeerId back = story.apply(0);
  story.resume(story.workers[1], 0);
  story.resume(story.workers[2], 0);
  story.open({story.workers[1], story.workers[2], back});
  EXPECT_EQ(story.record(back).workers[0].host, "host1:100") << "those that stayed come first";
}

TEST(CoordinatorResume, NoMoreThanMaxWorkersAreTakenIn) {
  Elastic story;
  story.cut(story.workers[0]);
  const PeerId first = story.apply(0), second = story.worker(1, 3);  // two for one place
  story.pass(2 * kSecond);
  story.clear();
  for (const PeerId w : {story.workers[1], story.workers[2]})
    if (!story.is_closed(w)) story.resume(w, 0);
  EXPECT_TRUE(story.is_closed(story.workers[1])) << "of its place a newer process came";
  story.open({story.workers[2], first, second});
  const PeerId more = story.worker(2, 9);
  EXPECT_FALSE(story.is_closed(more)) << "it claims the place of rank 2";
  EXPECT_EQ(story.last<Fail>(story.worker(5, 9)).code, Code::invalid_argument);
}

TEST(CoordinatorResume, BelowMinWorkersItWaitsForMore) {
  wire::JobSettings settings;
  settings.min_workers = 3;
  Elastic story(settings);
  story.cut(story.workers[2]);
  story.clear();
  for (const PeerId w : {story.workers[0], story.workers[1]}) story.resume(w, 2);
  story.pass(kSecond);
  EXPECT_EQ(story.count<OpenJob>(story.r0), 0u);
  const PeerId back = story.apply(2);
  story.pass(kMillisecond);
  story.open({story.workers[0], story.workers[1], back});
  EXPECT_EQ(story.record(back).sequence, 2u);
}

TEST(CoordinatorResume, WithoutTheMinimumItEndsByTheLimitAndMayBeTriedAgain) {
  Elastic story;  // by default more than half: two of three
  story.cut(story.workers[1]);
  story.cut(story.workers[2]);
  story.clear();
  story.resume(story.workers[0], 0);
  story.pass(21 * kSecond);
  const Resumed answer = story.last<Resumed>(story.workers[0]);
  EXPECT_EQ(answer.code, Code::timeout);
  EXPECT_NE(answer.text.find("1 workers are there, and it needs 2 (min_workers"), std::string::npos) << answer.text;
  story.clear();
  const PeerId back = story.apply(1);
  story.resume(story.workers[0], 0);
  story.open({story.workers[0], back});
}

TEST(CoordinatorResume, WhoDoesNotAskIsNamed) {
  Elastic story;
  story.cut(story.workers[1]);
  story.clear();
  story.resume(story.workers[0], 0);
  story.pass(21 * kSecond);
  EXPECT_EQ(story.last<Resumed>(story.workers[0]).text,
            "job 'train' does not resume: rank 2 has not asked for it within the connect_timeout of those that have");
  EXPECT_EQ(story.count<Resumed>(story.workers[2]), 0u);
}

TEST(CoordinatorResume, AnotherLossOnTheWayEndsThatTryAndTheRestMayGoOn) {
  wire::JobSettings settings;
  settings.min_workers = 1;
  Elastic story(settings);
  story.cut(story.workers[1]);
  story.resume(story.workers[0], 4);
  story.resume(story.workers[2], 4);  // opening now
  story.clear();
  story.cut(story.workers[2]);
  EXPECT_EQ(story.last<Fail>(story.workers[0]).code, Code::peer_lost);
  story.clear();
  story.resume(story.workers[0], 4);
  story.open({story.workers[0]});
  EXPECT_EQ(story.record(story.workers[0]).sequence, 4u);
}

TEST(CoordinatorResume, TheLossOfTheOneThatOthersWaitForLetsThemGoOn) {
  wire::JobSettings settings;
  settings.min_workers = 1;
  Elastic story(settings);
  story.cut(story.workers[1]);
  story.resume(story.workers[0], 4);
  story.cut(story.workers[2]);
  story.clear();
  story.pass(kMillisecond);
  story.open({story.workers[0]});
}

TEST(CoordinatorResume, AnAdmissionEndsWithTheLossThatIsToldMeanwhile) {
  Elastic story;
  story.resume(story.workers[0], 3, true);
  story.cut(story.workers[1]);
  EXPECT_EQ(story.last<Fail>(story.workers[0]).code, Code::peer_lost);
  story.clear();
  story.resume(story.workers[2], 3, true);  // on its way before it heard
  story.pass(kSecond);
  EXPECT_EQ(story.count<OpenJob>(story.r0), 0u);
  for (const PeerId w : {story.workers[0], story.workers[2]}) story.resume(w, 3);
  story.open({story.workers[0], story.workers[2]});
}

TEST(CoordinatorResume, AfterTheFailureOfTheWorldAloneAllResume) {
  Elastic story;
  story.say(story.workers[0], Fail{0, Code::timeout, "call 3 is not complete after 1 s", {}});
  EXPECT_EQ(story.last<Fail>(story.workers[1]).code, Code::timeout);
  story.clear();
  story.resume(story.workers[0], 3);
  story.resume(story.workers[2], 4);
  story.resume(story.workers[1], 3);
  story.open(story.workers);
  EXPECT_EQ(story.record(story.workers[1]).sequence, 3u);
  EXPECT_EQ(story.record(story.workers[1]).stayed, 3u);
}

TEST(CoordinatorResume, WhatIsOfTheMembershipBeforeIsIgnored) {
  Elastic story;
  const Epoch before(1, 1);
  story.cut(story.workers[1]);
  story.resume(story.workers[0], 0);
  story.resume(story.workers[2], 0);
  story.clear();
  // A reservation that was on its way counts for nothing now, nor does what was seen in the old epoch.
  story.say(story.r0, Reserved{"train", 0, 1000, Code::ok, "", before});
  story.say(story.r1, Reserved{"train", 0, 1000, Code::resource_exhausted, "full", before});
  story.say(story.r0, wire::Mismatched{"train", 0, 1, before});
  EXPECT_EQ(story.state(), "opening");
  EXPECT_EQ(story.count<Joined>(story.workers[0]), 0u);
  for (const PeerId r : {story.r0, story.r1}) story.say(r, Reserved{"train", 0, 1000, Code::ok, ""});
  story.say(story.workers[0], wire::LaneLost{101, "closed"});
  story.say(story.workers[0], wire::Fail{0, Code::timeout, "late", {}});
  story.say(story.workers[0], wire::CloseCommunicator{"", 9, 1});
  story.say(story.workers[0], wire::Progress{before, {}});
  for (const std::size_t rank : {0u, 2u}) story.say(story.workers[rank], Ready{});
  story.pass(2 * kSecond);
  EXPECT_EQ(story.state(), "running");
  EXPECT_EQ(story.count<Fail>(story.workers[2]), 0u);
}

TEST(CoordinatorResume, ANewerProcessOfARankSupersedesOneThatDoesNotAnswer) {
  Elastic story;
  const PeerId newer = story.apply(1);
  EXPECT_EQ(story.count<Ping>(story.workers[1]), 1u);
  story.pass(900 * kMillisecond);
  EXPECT_FALSE(story.is_closed(story.workers[1]));
  story.pass(200 * kMillisecond);
  EXPECT_EQ(story.last<Fail>(story.workers[1]).code, Code::stale);
  EXPECT_TRUE(story.is_closed(story.workers[1]));
  const Fail lost = story.last<Fail>(story.workers[0]);
  EXPECT_EQ(lost.code, Code::peer_lost);
  EXPECT_NE(lost.text.find("a newer process, host1:100"), std::string::npos) << lost.text;
  for (const std::size_t rank : {0u, 2u}) story.resume(story.workers[rank], 0);
  story.open({story.workers[0], story.workers[2], newer});
}

TEST(CoordinatorResume, TwoLivingProcessesOfARankAreNamedAndTheJobGoesOn) {
  Elastic story;
  const PeerId second = story.apply(1);
  story.say(story.workers[1], Ping{});
  const Fail refused = story.last<Fail>(second);
  EXPECT_EQ(refused.code, Code::invalid_argument);
  EXPECT_NE(refused.text.find("is there already and alive"), std::string::npos) << refused.text;
  EXPECT_TRUE(story.is_closed(second));
  story.pass(3 * kSecond);
  EXPECT_EQ(story.state(), "running");
  EXPECT_EQ(story.count<Fail>(story.workers[0]), 0u);
}

TEST(CoordinatorResume, AnOlderProcessSupersedesNobody) {
  Elastic story;
  const PeerId older = story.connect(wire::Purpose::control_worker, "train", 1, 5);
  story.say(older, wire::Join{3, "old:1", "0.1.0", {}, 0});
  EXPECT_EQ(story.last<Fail>(older).code, Code::invalid_argument);
  EXPECT_NE(story.last<Fail>(older).text.find("is there already"), std::string::npos);
}

TEST(CoordinatorResume, NewProcessesOfAllRanksReplaceAFailedJob) {
  Elastic story;
  story.cut(story.workers[1]);
  EXPECT_EQ(story.state(), "failed");
  story.clear();
  std::vector<PeerId> fresh;
  for (std::uint32_t rank = 0; rank < 3; ++rank) fresh.push_back(story.apply(rank));
  EXPECT_TRUE(story.is_closed(story.workers[0]) && story.is_closed(story.workers[2]));
  story.open(fresh);
  EXPECT_EQ(story.record(fresh[0]).stayed, 0u);
  EXPECT_EQ(story.record(fresh[0]).sequence, 0u);
}

TEST(CoordinatorResume, WhoIsNotTakenInIsToldSoByItsOwnLimit) {
  Elastic story;
  story.cut(story.workers[1]);
  story.resume(story.workers[0], 0);
  story.resume(story.workers[2], 0);
  story.open({story.workers[0], story.workers[2]});
  const PeerId id = story.connect(wire::Purpose::control_worker, "train", 1, 99999);
  story.beating.insert(id);
  story.say(id, wire::Join{3, "new:1", "0.1.0", {}, 5000});
  story.pass(6 * kSecond);
  EXPECT_EQ(story.last<Fail>(id).code, Code::timeout);
  EXPECT_NE(story.last<Fail>(id).text.find("have not taken this worker in"), std::string::npos);
  EXPECT_EQ(story.last<Applicants>(story.workers[0]).count, 0u);
}

TEST(CoordinatorResume, AReducerThatAWorkerCouldNotReachStaysOutForAWhile) {
  Elastic story;
  const auto reducers = story.core.reducers();
  story.say(story.workers[0], wire::LaneLost{reducers[1].instance, "no route to host"});
  story.pass(1100 * kMillisecond);  // it is given up
  story.cut(story.workers[2]);
  story.clear();
  for (const std::size_t rank : {0u, 1u}) story.resume(story.workers[rank], 0);
  EXPECT_EQ(story.count<OpenJob>(story.r0), 1u);
  EXPECT_EQ(story.count<OpenJob>(story.r1), 0u);
}

TEST(CoordinatorResume, WithoutReducersItWaitsForOne) {
  Elastic story({}, without_fallback());
  story.cut(story.workers[1]);
  story.cut(story.r0);
  story.cut(story.r1);
  for (const std::size_t rank : {0u, 2u}) story.resume(story.workers[rank], 1);
  EXPECT_EQ(story.state(), "failed");
  story.clear();
  story.r0 = story.r1 = story.reducer("r2");
  story.pass(kMillisecond);
  story.open({story.workers[0], story.workers[2]});
}

TEST(CoordinatorResume, WorkersInDirectModeKeepTheirReducers) {
  constexpr wire::JobSettings kDirect{0, 0, 0, 0, wire::Mode::direct};
  Story story;
  std::vector<PeerId> workers, reducers;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    workers.push_back(story.worker(rank, 3, kDirect));
    reducers.push_back(story.connect(wire::Purpose::control_reducer, "", 0, 500 + rank));
    story.beating.insert(reducers.back());
    story.say(reducers.back(), wire::Register{"train/" + std::to_string(rank), "w:7", 1, 1, "0.1.0", "train",
                                              story.worker_incarnation("train", rank)});
  }
  for (const PeerId r : reducers) story.say(r, Reserved{"train", 0, 1000, Code::ok, ""});
  for (const PeerId w : workers) story.say(w, Ready{});
  ASSERT_EQ(story.state(), "running");
  story.cut(workers[0]);
  story.cut(reducers[0]);
  story.pass(10 * kSecond);  // the failed job is closed at its reducers meanwhile
  story.clear();
  for (const std::size_t rank : {1u, 2u}) story.say(workers[rank], Resume{0, false, 0});
  story.pass(kMillisecond);
  for (const std::size_t rank : {1u, 2u}) {
    EXPECT_EQ(story.count<OpenJob>(reducers[rank]), 1u);
    story.say(reducers[rank], Reserved{"train", 0, 1000, Code::ok, ""});
  }
  EXPECT_EQ(story.last<Joined>(workers[1]).record.reducers.size(), 2u);
  for (const std::size_t rank : {1u, 2u}) story.say(workers[rank], Ready{});
  EXPECT_EQ(story.state(), "running");
}

}  // namespace
}  // namespace redsum::server
