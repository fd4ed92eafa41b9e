// SPDX-License-Identifier: Apache-2.0
// Jobs in direct mode: each worker's own reducer serves that job alone, once.
#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using wire::CloseJob, wire::Fail, wire::Joined, wire::OpenJob, wire::Register, wire::Reserved;

constexpr wire::JobSettings kDirect{0, 0, 0, 0, wire::Mode::direct};

PeerId own_reducer(Story& story, std::uint32_t rank, const std::string& job = "train") {
  static Incarnation incarnations = 9000;
  const PeerId id = story.connect(wire::Purpose::control_reducer, "", 0, ++incarnations);
  story.beating.insert(id);
  const std::string name = job + "/" + std::to_string(rank);
  story.say(id, Register{name, name + ":7401", 1, 1u << 30, "0.1.0", job, story.worker_incarnation(job, rank)});
  return id;
}

struct Running {
  std::vector<PeerId> workers, reducers;
};

// In an order in which the last reducer comes last.
Running running(Story& story, std::uint32_t n) {
  Running job;
  for (std::uint32_t rank = 0; rank < n; ++rank) job.workers.push_back(story.worker(rank, n, kDirect));
  for (std::uint32_t rank = 0; rank < n; ++rank) job.reducers.push_back(own_reducer(story, rank));
  for (const PeerId r : job.reducers) story.say(r, Reserved{"train", 0, 1000, Code::ok, ""});
  for (const PeerId w : job.workers) story.say(w, wire::Ready{});
  return job;
}

TEST(CoordinatorDirect, FormsWithTheWorkersReducersByRankAndWithoutThePools) {
  Story story;
  const PeerId pool = story.reducer("r0");
  std::vector<PeerId> workers;
  const PeerId second = own_reducer(story, 1), other_job = own_reducer(story, 0, "other");
  for (std::uint32_t rank = 0; rank < 2; ++rank) workers.push_back(story.worker(rank, 2, kDirect));
  EXPECT_EQ(story.state(), "forming");
  const PeerId first = own_reducer(story, 0);
  EXPECT_EQ(story.state(), "opening");
  EXPECT_EQ(story.count<OpenJob>(pool), 0u);
  EXPECT_EQ(story.count<OpenJob>(other_job), 0u);
  for (const PeerId r : {first, second}) story.say(r, Reserved{"train", 0, 1000, Code::ok, ""});
  const wire::EpochRecord record = story.last<Joined>(workers[0]).record;
  ASSERT_EQ(record.reducers.size(), 2u);
  EXPECT_EQ(record.reducers[0].name, "train/0");
  EXPECT_EQ(record.reducers[1].name, "train/1");
  EXPECT_EQ(record.settings.mode, wire::Mode::direct);
  EXPECT_EQ(story.core.reducers().size(), 1u) << "only the pool's are shown";
}

TEST(CoordinatorDirect, APoolsJobTakesNoWorkersReducer) {
  Story story;
  own_reducer(story, 0);
  const PeerId worker = story.worker(0, 1);
  EXPECT_EQ(story.state(), "forming");
  const PeerId pool = story.reducer("r0");
  story.say(pool, Reserved{"train", 0, 1000, Code::ok, ""});
  EXPECT_EQ(story.last<Joined>(worker).record.reducers.size(), 1u);
  EXPECT_EQ(story.last<Joined>(worker).record.settings.mode, wire::Mode::server);
}

TEST(CoordinatorDirect, ModesThatDifferAreNamed) {
  Story story;
  story.worker(0, 2, kDirect);
  const PeerId other = story.worker(1, 2, {0, 0, 0, 0, wire::Mode::server});
  const Fail fail = story.last<Fail>(other);
  EXPECT_EQ(fail.code, Code::mismatch);
  EXPECT_NE(fail.text.find("mode differs"), std::string::npos) << fail.text;
  EXPECT_NE(fail.text.find("rank 1 asks for server, rank 0 for direct"), std::string::npos) << fail.text;
}

TEST(CoordinatorDirect, MissingReducersAreNamedByRank) {
  Story story;
  const PeerId worker = story.worker(0, 3, kDirect);
  for (std::uint32_t rank = 1; rank < 3; ++rank) story.worker(rank, 3, kDirect);
  own_reducer(story, 1);
  story.pass(70 * kSecond);
  const Fail fail = story.last<Fail>(worker);
  EXPECT_EQ(fail.code, Code::timeout);
  EXPECT_NE(fail.text.find("reducers of ranks 0, 2 have not registered"), std::string::npos) << fail.text;
}

TEST(CoordinatorDirect, TheLossOfAWorkersReducerIsThatOfTheWorker) {
  Story story;
  const Running job = running(story, 3);
  ASSERT_EQ(story.state(), "running");
  story.cut(job.reducers[1]);
  for (const std::size_t rank : {0u, 2u}) {
    const Fail fail = story.last<Fail>(job.workers[rank]);
    EXPECT_EQ(fail.code, Code::peer_lost);
    EXPECT_EQ(fail.text.find("rank 1 ("), 0u) << fail.text;
    EXPECT_EQ(fail.ranks, (std::vector<std::uint32_t>{1}));
  }
}

TEST(CoordinatorDirect, AReducerIsLetGoOnlyWhenAllWorkersHaveLeftAndServesNoSecondJob) {
  Story story;
  const Running job = running(story, 2);
  story.say(job.workers[0], wire::Leave{0});
  EXPECT_EQ(story.count<CloseJob>(job.reducers[0]), 0u) << "rank 1 may still wait for its results";
  story.say(job.workers[1], wire::Leave{0});
  for (const PeerId r : job.reducers) EXPECT_EQ(story.count<CloseJob>(r), 1u);
  // The same job again, while the old processes' reducers are still connected.
  for (std::uint32_t rank = 0; rank < 2; ++rank) story.worker(rank, 2, kDirect);
  EXPECT_EQ(story.state(), "forming");
  for (std::uint32_t rank = 0; rank < 2; ++rank) own_reducer(story, rank);
  EXPECT_EQ(story.state(), "opening");
  for (const PeerId r : job.reducers) EXPECT_EQ(story.count<OpenJob>(r), 1u);
}

}  // namespace
}  // namespace redsum::server
