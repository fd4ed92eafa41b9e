// SPDX-License-Identifier: Apache-2.0
// Jobs in ring mode: no reducer has a part in them, and workers tell what reducers tell elsewhere.
#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using wire::Created, wire::Fail, wire::Joined, wire::OpenCommunicator, wire::OpenJob;

constexpr wire::JobSettings kRing{0, 0, 0, 0, wire::Mode::ring};

std::vector<PeerId> running(Story& story, std::uint32_t n) {
  std::vector<PeerId> workers;
  for (std::uint32_t rank = 0; rank < n; ++rank) workers.push_back(story.worker(rank, n, kRing));
  for (const PeerId w : workers) story.say(w, wire::Ready{});
  return workers;
}

TEST(CoordinatorRing, FormsWithoutReducersThoughThePoolHasSome) {
  Story story;
  const PeerId pool = story.reducer("r0");
  const std::vector<PeerId> workers = running(story, 3);
  EXPECT_EQ(story.state(), "running");
  const wire::EpochRecord record = story.last<Joined>(workers[2]).record;
  EXPECT_TRUE(record.reducers.empty());
  EXPECT_EQ(record.settings.mode, wire::Mode::ring);
  EXPECT_EQ(record.settings.ring_order, wire::RingOrder::ring);
  EXPECT_EQ(story.count<OpenJob>(pool), 0u);
}

TEST(CoordinatorRing, TellsEverybodyWhereTheOthersTakeLanes) {
  Story story;
  const PeerId first = story.worker(0, 2, kRing);
  const PeerId second = story.connect(wire::Purpose::control_worker, "train", 1, 77);
  story.say(second, wire::Join{2, "host1:5", "0.1.0", kRing, 0, "10.0.0.2:40001"});
  const wire::EpochRecord record = story.last<Joined>(first).record;
  EXPECT_EQ(record.workers[0].address, "");
  EXPECT_EQ(record.workers[1].address, "10.0.0.2:40001");
}

TEST(CoordinatorRing, OrdersThatDifferAreNamed) {
  Story story;
  story.worker(0, 2, {0, 0, 0, 0, wire::Mode::ring, wire::RingOrder::rank});
  const PeerId other = story.worker(1, 2, {0, 0, 0, 0, wire::Mode::ring, wire::RingOrder::ring});
  const Fail fail = story.last<Fail>(other);
  EXPECT_EQ(fail.code, Code::mismatch);
  EXPECT_NE(fail.text.find("rank 1 asks for ring, rank 0 for rank"), std::string::npos) << fail.text;
}

TEST(CoordinatorRing, CommunicatorsNeedNoReservation) {
  Story story;
  const std::vector<PeerId> workers = running(story, 3);
  story.say(workers[0], wire::Create{1, {2, 0}});
  story.say(workers[2], wire::Create{1, {2, 0}});
  EXPECT_EQ(story.count<Created>(workers[0]), 1u);
  EXPECT_EQ(story.count<Created>(workers[2]), 1u);
}

TEST(CoordinatorRing, AWorkerReportsACallThatDiffers) {
  Story story;
  const std::vector<PeerId> workers = running(story, 2);
  story.say(workers[1], wire::Mismatched{"train", 0, 4});
  wire::CallDescription call;
  call.via = wire::Via::ring;
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    call.count = 10 + rank;
    story.say(workers[rank], wire::Waiting{0, 4, call});
  }
  const Fail fail = story.last<Fail>(workers[0]);
  EXPECT_EQ(fail.code, Code::mismatch);
  EXPECT_NE(fail.text.find("count"), std::string::npos) << fail.text;
}

TEST(CoordinatorRing, AWorkerMayNotReportOtherJobs) {
  Story story;
  const std::vector<PeerId> workers = running(story, 2);
  const PeerId stranger = story.worker(0, 1, kRing, "other");
  story.say(stranger, wire::Ready{});
  story.say(stranger, wire::Mismatched{"train", 0, 0});
  EXPECT_EQ(story.last<Fail>(stranger).code, Code::protocol_error);
}

}  // namespace
}  // namespace redsum::server
