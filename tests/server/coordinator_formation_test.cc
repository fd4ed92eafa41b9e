// SPDX-License-Identifier: Apache-2.0
// How jobs form, and every way in which they do not.
#include <algorithm>

#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using testing::Test;
using wire::Fail, wire::Joined, wire::OpenCommunicator, wire::OpenJob, wire::Registered, wire::Reserved, wire::CloseJob;

TEST(CoordinatorFormation, EveryArrivalOrderFormsTheSameJob) {
  std::vector<int> order = {0, 1, 2, 3};  // 0..2: ranks, 3: the reducer
  do {
    Story story;
    std::vector<PeerId> workers(3);
    PeerId reducer;
    for (const int who : order) {
      if (who == 3)
        reducer = story.reducer("r0", 2);
      else
        workers[static_cast<std::size_t>(who)] = story.worker(static_cast<std::uint32_t>(who), 3);
    }
    ASSERT_EQ(story.state(), "opening");
    const auto opened = story.last<OpenCommunicator>(reducer);
    EXPECT_EQ(opened.communicator, 0);
    EXPECT_EQ(opened.members, (std::vector<std::uint32_t>{0, 1, 2}));
    EXPECT_EQ(story.count<Joined>(workers[0]), 0u) << "not before the reducer has reserved";
    story.say(reducer, Reserved{"train", 0, 4096, Code::ok, ""});
    const wire::EpochRecord record = story.last<Joined>(workers[0]).record;
    for (const PeerId w : workers) EXPECT_EQ(story.last<Joined>(w).record, record);
    EXPECT_EQ(story.last<OpenJob>(reducer).record, record);
    EXPECT_EQ(record.epoch, Epoch(1, 1));
    ASSERT_EQ(record.workers.size(), 3u);
    for (std::uint32_t r = 0; r < 3; ++r) {
      EXPECT_EQ(record.workers[r].rank, r);
      EXPECT_EQ(record.workers[r].host, "host" + std::to_string(r) + ":100");
    }
    ASSERT_EQ(record.reducers.size(), 1u);
    EXPECT_EQ(record.reducers[0].name, "r0");
    EXPECT_EQ(record.reducers[0].address, "r0:7401");
    EXPECT_EQ(record.reducers[0].shards, 2);
    for (const PeerId w : workers) story.say(w, wire::Ready{});
    EXPECT_EQ(story.state(), "running");
    EXPECT_EQ(story.core.counters().jobs_formed, 1u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(CoordinatorFormation, ItIsRunningOnlyWhenAllLanesAreOpen) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  const PeerId a = story.worker(0, 2), b = story.worker(1, 2);
  story.say(reducer, Reserved{"train", 0, 1, Code::ok, ""});
  story.say(a, wire::Ready{});
  story.say(a, wire::Ready{});
  EXPECT_EQ(story.state(), "opening");
  story.say(b, wire::Ready{});
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorFormation, WaitsForTheLeastNumberOfReducersAndTakesNoDrainingOne) {
  CoordinatorOptions options;
  options.min_reducers = 2;
  Story story(options);
  const PeerId r0 = story.reducer("r0"), draining = story.reducer("r1");
  story.say(draining, wire::Draining{});
  story.worker(0, 1);
  EXPECT_EQ(story.state(), "forming");
  const PeerId r2 = story.reducer("r2");
  EXPECT_EQ(story.last<Registered>(r2).reducers, 3u);
  EXPECT_EQ(story.state(), "opening");
  EXPECT_EQ(story.count<OpenJob>(r0), 1u);
  EXPECT_EQ(story.count<OpenJob>(r2), 1u);
  EXPECT_EQ(story.count<OpenJob>(draining), 0u);
}

TEST(CoordinatorFormation, ChoosesSettingsThatKeepAllPlacesInCache) {
  const auto chosen = [](std::uint32_t n, wire::JobSettings asked, wire::JobSettings defaults) {
    CoordinatorOptions options;
    options.defaults = defaults;
    Story story(options);
    const PeerId reducer = story.reducer("r0");
    for (std::uint32_t r = 0; r < n; ++r) story.worker(r, n, r == n - 1 ? asked : wire::JobSettings{});
    return story.last<OpenJob>(reducer).record.settings;
  };
  // 4 MiB / ((4 + 2) x 4) = 170 KiB; the power of two below it, less 4 KiB
  EXPECT_EQ(chosen(4, {}, {}), (wire::JobSettings{124 << 10, 4, 4, 16 << 10, wire::Mode::server, wire::RingOrder::ring,
                                                  wire::Fallback::direct}));
  EXPECT_EQ(chosen(8, {}, {}), (wire::JobSettings{60 << 10, 4, 4, 16 << 10, wire::Mode::server, wire::RingOrder::ring,
                                                  wire::Fallback::direct}));
  EXPECT_EQ(chosen(1, {0, 1, 0, 0}, {}), (wire::JobSettings{124 << 10, 1, 4, 16 << 10, wire::Mode::server,
                                                            wire::RingOrder::ring, wire::Fallback::direct}));
  EXPECT_EQ(chosen(300, {}, {}), (wire::JobSettings{12 << 10, 4, 4, 12 << 10, wire::Mode::server, wire::RingOrder::ring,
                                                    wire::Fallback::direct}));
  // One rank's wish is enough; it comes before the pool's configuration.
  EXPECT_EQ(chosen(2, {4096, 2, 3, 1024}, {8192, 8, 8, 2048}),
            (wire::JobSettings{4096, 2, 3, 1024, wire::Mode::server, wire::RingOrder::ring, wire::Fallback::direct}));
  EXPECT_EQ(chosen(2, {4096, 0, 0, 0}, {8192, 8, 9, 0}),
            (wire::JobSettings{4096, 8, 9, 4096, wire::Mode::server, wire::RingOrder::ring, wire::Fallback::direct}));
}

TEST(CoordinatorFormation, LIF_04_MissingRanksAreNamedAtTheDeadline) {
  Story story;
  story.reducer("r0");
  const PeerId a = story.worker(1, 20);
  story.pass(59 * kSecond);
  const PeerId late = story.worker(3, 20);
  EXPECT_FALSE(story.is_closed(a));
  story.pass(kSecond);
  for (const PeerId w : {a, late}) {
    EXPECT_TRUE(story.is_closed(w));
    const Fail fail = story.last<Fail>(w);
    EXPECT_EQ(fail.code, Code::timeout);
    EXPECT_EQ(
        fail.text,
        "job 'train': 18 of 20 workers have not joined within 60 s (formation_timeout): ranks 0, 2, 4, 5, 6, 7, 8, 9, "
        "10, 11, 12, 13, 14, 15, 16, 17 ... (18 in all)");
  }
  EXPECT_EQ(story.state(), "none");
}

TEST(CoordinatorFormation, TheLeastPatientWorkersLimitIsTheJobs) {
  Story story;
  const PeerId a = story.worker(0, 3);
  const PeerId b = story.connect(wire::Purpose::control_worker, "train", 1, 9);
  story.beating.insert(b);
  story.say(b, wire::Join{3, "host1:1", "0.1.0", {}, 2500});
  story.pass(2400 * kMillisecond);
  EXPECT_EQ(story.state(), "forming");
  story.pass(200 * kMillisecond);
  for (const PeerId w : {a, b})
    EXPECT_EQ(story.last<Fail>(w).text,
              "job 'train': 1 of 3 workers have not joined within 2.5 s (connect_timeout of rank 1): rank 2");
}

TEST(CoordinatorFormation, NoReducerIsNamedAtTheDeadline) {
  Story story;
  const PeerId a = story.worker(0, 1);
  story.pass(60 * kSecond);
  const Fail fail = story.last<Fail>(a);
  EXPECT_EQ(fail.code, Code::reducer_lost);
  EXPECT_NE(fail.text.find("no reducer is registered at this coordinator, job 'train' needs 1: start one with"),
            std::string::npos)
      << fail.text;
}

TEST(CoordinatorFormation, AReducerThatDoesNotReserveIsNamedAtTheDeadline) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  story.reducer("r1");
  const PeerId a = story.worker(0, 1);
  story.say(r0, Reserved{"train", 0, 1, Code::ok, ""});
  story.pass(60 * kSecond);
  EXPECT_EQ(story.last<Fail>(a).code, Code::timeout);
  EXPECT_NE(story.last<Fail>(a).text.find("from reducer 'r1' (r1:7401)"), std::string::npos)
      << story.last<Fail>(a).text;
  EXPECT_EQ(story.count<CloseJob>(r0), 1u);
}

TEST(CoordinatorFormation, AWorkerWithoutLanesIsNamedAtTheDeadline) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const PeerId a = story.worker(0, 2);
  story.worker(1, 2);
  story.say(r0, Reserved{"train", 0, 1, Code::ok, ""});
  story.say(a, wire::Ready{});
  story.pass(60 * kSecond);
  EXPECT_EQ(story.last<Fail>(a).text, "job 'train': lanes not open within 60 s (formation_timeout) at rank 1");
}

TEST(CoordinatorFormation, LIF_04_ADuplicateRankIsRefusedAndBothAreNamed) {
  Story story;
  const PeerId first = story.worker(0, 2), second = story.worker(0, 2);
  EXPECT_FALSE(story.is_closed(second)) << "the first may be dead";
  story.say(first, wire::Ping{});
  EXPECT_FALSE(story.is_closed(first));
  EXPECT_TRUE(story.is_closed(second));
  EXPECT_EQ(story.last<Fail>(second).code, Code::invalid_argument);
  EXPECT_EQ(
      story.last<Fail>(second).text,
      "rank 0 (host0:100 at 127.0.0.1:5001) of job 'train' is there already and alive; host0:100 at 127.0.0.1:5002 "
      "asks to be the same rank: give every worker its own, or use another job id");
  // When the first is gone, its place is free.
  story.cut(first);
  EXPECT_EQ(story.state(), "none");
  EXPECT_FALSE(story.is_closed(story.worker(0, 2)));
}

TEST(CoordinatorFormation, FLT_05_AProcessThatIsStartedAgainTakesThePlaceOfOneThatDoesNotAnswer) {
  Story story;
  story.reducer("r0");
  const PeerId first = story.worker(0, 2), second = story.worker(0, 2);
  story.pass(1100 * kMillisecond);
  EXPECT_TRUE(story.is_closed(first));
  EXPECT_EQ(story.last<Fail>(first).code, Code::stale);
  EXPECT_FALSE(story.is_closed(second));
  story.worker(1, 2);
  EXPECT_EQ(story.state(), "opening");
}

TEST(CoordinatorFormation, OnlyThePlaceOfALostMemberBecomesFree) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  const PeerId a = story.worker(0, 2), gone = story.worker(1, 2);
  EXPECT_EQ(story.state(), "opening");
  story.cut(gone);  // too late: it is opening
  EXPECT_EQ(story.last<Fail>(a).code, Code::peer_lost);

  Story again;
  const PeerId b = again.worker(1, 2);
  again.cut(b);
  again.worker(0, 2);
  const PeerId c = again.worker(1, 2);
  EXPECT_EQ(again.count<Fail>(c), 0u);
  EXPECT_EQ(again.core.jobs().front().joined, 2u);
  (void)reducer;
}

TEST(CoordinatorFormation, OPS_03_DifferingWishesAreAMismatchNamingBoth) {
  Story story;
  const PeerId a = story.worker(0, 3, {65536, 0, 0, 0}), b = story.worker(1, 3, {0, 4, 0, 0});
  const PeerId c = story.worker(2, 3, {65536, 8, 0, 0});
  EXPECT_EQ(story.count<Fail>(a) + story.count<Fail>(b), 0u);
  EXPECT_EQ(story.last<Fail>(c).code, Code::mismatch);
  EXPECT_EQ(story.last<Fail>(c).text,
            "window differs in job 'train': rank 2 asks for 8, rank 1 for 4; give all ranks the same");
  const PeerId d = story.worker(2, 4);
  EXPECT_EQ(story.last<Fail>(d).text, "world size differs in job 'train': rank 2 has 4, rank 0 has 3");
  EXPECT_EQ(story.last<Fail>(d).code, Code::mismatch);
  // Those who wait are told at the end why the third did not come.
  story.pass(61 * kSecond);
  EXPECT_NE(story.last<Fail>(a).text.find("rank 2; last refused: world size differs"), std::string::npos)
      << story.last<Fail>(a).text;
}

TEST(CoordinatorFormation, SEC_05_NumbersOutOfRangeAreRefused) {
  Story story;
  EXPECT_EQ(story.last<Fail>(story.worker(2, 2)).code, Code::invalid_argument);
  EXPECT_EQ(story.last<Fail>(story.worker(0, 0)).code, Code::invalid_argument);
  EXPECT_EQ(story.last<Fail>(story.worker(0, 65537)).code, Code::invalid_argument);
  EXPECT_EQ(story.last<Fail>(story.worker(0, 1, {}, "../etc")).code, Code::invalid_argument);
  EXPECT_EQ(story.last<Fail>(story.connect(wire::Purpose::lane, "train", 0, 1)).code, Code::invalid_argument);
  EXPECT_EQ(story.state(), "none");
}

TEST(CoordinatorFormation, ARefusedReservationEndsItForAllWithTheReducersText) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const PeerId a = story.worker(0, 2), b = story.worker(1, 2);
  story.say(r0, Reserved{"train", 0, 1, Code::ok, ""});
  story.say(r1, Reserved{"train", 0, 0, Code::resource_exhausted, "needs 8 MiB, 2 MiB of the budget are free"});
  for (const PeerId w : {a, b}) {
    EXPECT_EQ(story.last<Fail>(w).code, Code::resource_exhausted);
    EXPECT_EQ(story.last<Fail>(w).text, "reducer 'r1' (r1:7401): needs 8 MiB, 2 MiB of the budget are free");
    EXPECT_EQ(story.count<Joined>(w), 0u);
    EXPECT_TRUE(story.is_closed(w));
  }
  EXPECT_EQ(story.count<CloseJob>(r0), 1u);
  EXPECT_EQ(story.count<CloseJob>(r1), 1u);
  EXPECT_EQ(story.state(), "none");
  story.say(r1, Reserved{"train", 0, 0, Code::resource_exhausted, "again"});  // of the past: no harm
  EXPECT_FALSE(story.is_closed(r1));
}

TEST(CoordinatorFormation, ARunningJobTakesNoMoreThanItsLimit) {
  Story story;
  story.running(2, {story.reducer("r0")});
  const PeerId third = story.worker(2, 3);
  EXPECT_EQ(story.last<Fail>(third).code, Code::invalid_argument);
  EXPECT_EQ(story.last<Fail>(third).text,
            "job 'train' runs already with 2 ranks, and takes 2 (max_workers); use another job id");
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorFormation, ANewJobOfTheNameWaitsUntilTheEndingOneHasEnded) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  const auto old = story.running(2, {reducer});
  story.say(old[0], wire::Leave{});
  const PeerId a = story.worker(0, 2), b = story.worker(1, 2);
  EXPECT_EQ(story.count<Fail>(a), 0u);
  EXPECT_EQ(story.count<OpenJob>(reducer), 1u);
  story.say(old[1], wire::Leave{});
  EXPECT_EQ(story.count<CloseJob>(reducer), 1u);
  EXPECT_EQ(story.count<OpenJob>(reducer), 2u);
  story.say(reducer, Reserved{"train", 0, 1, Code::ok, ""});
  EXPECT_EQ(story.count<Joined>(b), 1u);
  const auto records = story.all<OpenJob>(reducer);
  EXPECT_NE(records[0].record.lane_nonce, records[1].record.lane_nonce);

  // And no longer than the limit.
  Story stuck;
  const auto workers = stuck.running(2, {stuck.reducer("r0")});
  stuck.say(workers[0], wire::Leave{});
  const PeerId waits = stuck.worker(0, 2);
  stuck.pass(60 * kSecond);
  EXPECT_EQ(stuck.last<Fail>(waits).code, Code::timeout);
}

TEST(CoordinatorFormation, ANewJobTakesThePlaceOfAFailedOneAtOnce) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  const auto old = story.running(2, {reducer});
  story.cut(old[1]);
  EXPECT_EQ(story.state(), "failed");
  const PeerId fresh = story.worker(0, 1);
  EXPECT_EQ(story.state(), "opening");
  EXPECT_EQ(story.count<CloseJob>(reducer), 1u);
  story.say(old[0], wire::Waiting{});  // it may still speak; nobody minds
  story.say(old[0], wire::Leave{});
  story.cut(old[0]);
  EXPECT_EQ(story.state(), "opening");
  EXPECT_EQ(story.count<Fail>(fresh), 0u);
}

TEST(CoordinatorFormation, ReducersNeedNamesOfTheirOwn) {
  Story story;
  const PeerId first = story.reducer("r0"), second = story.reducer("r0");
  EXPECT_FALSE(story.is_closed(first));
  EXPECT_EQ(story.last<Fail>(second).code, Code::invalid_argument);
  EXPECT_EQ(
      story.last<Fail>(second).text,
      "a reducer named 'r0' is registered already, from 127.0.0.1:5001; the one at 127.0.0.1:5002 needs another name");
  EXPECT_EQ(story.last<Fail>(story.reducer("")).code, Code::invalid_argument);
  EXPECT_EQ(story.last<Fail>(story.reducer("r1", 0)).code, Code::invalid_argument);
  EXPECT_EQ(story.last<Fail>(story.reducer(std::string(300, 'x'))).code, Code::invalid_argument);
  story.cut(first);
  EXPECT_FALSE(story.is_closed(story.reducer("r0")));
}

TEST(CoordinatorFormation, TwoJobsShareThePoolWithDifferentLaneNonces) {
  Story story;
  const PeerId reducer = story.reducer("r0");
  story.running(2, {reducer}, "one");
  story.running(1, {reducer}, "two");
  const auto opened = story.all<OpenJob>(reducer);
  ASSERT_EQ(opened.size(), 2u);
  EXPECT_NE(opened[0].record.lane_nonce, opened[1].record.lane_nonce);
  EXPECT_EQ(story.core.jobs().size(), 2u);
}

TEST(CoordinatorFormation, AThousandWorkersFormAJob) {
  Story story;
  const PeerId reducer = story.reducer("r0", 8);
  story.running(1024, {reducer});
  EXPECT_EQ(story.core.jobs().front().workers.size(), 64u) << "the status stays short";
}

}  // namespace
}  // namespace redsum::server
