// SPDX-License-Identifier: Apache-2.0
// Communicators made and closed, calls that do not match, calls that wait.
#include "tests/server/coordinator_story.h"

namespace redsum::server {
namespace {

using wire::CallDescription, wire::CloseCommunicator, wire::Create, wire::Created, wire::CreateFailed, wire::Describe;
using wire::Fail, wire::Leave, wire::Mismatched, wire::OpenCommunicator, wire::Reserved, wire::Stalled, wire::Waiting;
using Ranks = std::vector<std::uint32_t>;

CallDescription sum_of(std::uint64_t count, DType dtype = DType::fp32) {
  CallDescription call;
  call.count = count;
  call.dtype = call.wire_dtype = dtype;
  return call;
}

TEST(CoordinatorCommunicators, IsMadeOnceAllMembersHaveAskedAndAllReducersHaveReserved) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(3, {r0, r1});
  story.say(workers[2], Create{11, {2, 0}});
  EXPECT_EQ(story.last<OpenCommunicator>(r0).communicator, 0) << "rank 0 has not asked";
  story.say(workers[0], Create{12, {2, 0}});
  EXPECT_EQ(story.last<OpenCommunicator>(r0).communicator, 1);
  EXPECT_EQ(story.last<OpenCommunicator>(r1).members, (Ranks{2, 0}));
  story.say(r0, Reserved{"train", 1, 10, Code::ok, ""});
  EXPECT_EQ(story.count<Created>(workers[0]), 0u);
  story.say(r1, Reserved{"train", 1, 10, Code::ok, ""});
  EXPECT_EQ(story.last<Created>(workers[2]).request, 11u);
  EXPECT_EQ(story.last<Created>(workers[0]).request, 12u);
  EXPECT_EQ(story.last<Created>(workers[0]).communicator, 1);
  EXPECT_EQ(story.count<Created>(workers[1]), 0u);
}

TEST(CoordinatorCommunicators, TheSameMembersAskedForTwiceMakeTwo) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(2, {r0});
  for (std::uint64_t i = 0; i < 2; ++i) story.say(workers[0], Create{i, {0, 1}});
  for (std::uint64_t i = 0; i < 2; ++i) story.say(workers[1], Create{20 + i, {0, 1}});
  for (const std::uint16_t id : std::initializer_list<std::uint16_t>{2, 1})
    story.say(r0, Reserved{"train", id, 10, Code::ok, ""});
  const auto first = story.all<Created>(workers[0]), second = story.all<Created>(workers[1]);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first[i].communicator, second[i].communicator);
    EXPECT_EQ(first[i].request + 20, second[i].request) << "the first of one is the first of the other";
  }
}

TEST(CoordinatorCommunicators, BadListsAreRefusedForTheCallerAlone) {
  Story story;
  const auto workers = story.running(3, {story.reducer("r0")});
  std::uint64_t request = 0;
  const auto refused = [&](Ranks members) {
    story.say(workers[1], Create{++request, std::move(members)});
    const auto failed = story.last<CreateFailed>(workers[1]);
    EXPECT_EQ(failed.request, request);
    EXPECT_EQ(failed.code, Code::invalid_argument);
    return failed.text;
  };
  EXPECT_EQ(refused({}), "new communicator: its list of ranks is empty");
  EXPECT_EQ(refused({1, 3}), "new communicator: rank 3 is not in a world of 3");
  EXPECT_EQ(refused({1, 0, 1}), "new communicator: rank 1 is listed twice");
  EXPECT_EQ(refused({0, 2}), "new communicator: the caller, rank 1, is not among ranks 0, 2");
  EXPECT_EQ(story.state(), "running");
  for (std::uint64_t i = 0; i < 300; ++i) story.say(workers[0], Create{1000 + i, {0, 1}});
  EXPECT_EQ(story.count<CreateFailed>(workers[0]), 300u - 256u);
  EXPECT_EQ(story.last<CreateFailed>(workers[0]).code, Code::resource_exhausted);
}

TEST(CoordinatorCommunicators, ARefusedReservationFailsTheCreationForItsMembersAlone) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(3, {r0, r1});
  for (const std::uint32_t r : {0, 1}) story.say(workers[r], Create{5, {0, 1}});
  story.say(r0, Reserved{"train", 1, 10, Code::ok, ""});
  story.say(r1, Reserved{"train", 1, 0, Code::resource_exhausted, "needs 9 MiB of 1 MiB"});
  for (const std::uint32_t r : {0, 1}) {
    EXPECT_EQ(story.last<CreateFailed>(workers[r]).code, Code::resource_exhausted);
    EXPECT_EQ(story.last<CreateFailed>(workers[r]).text, "reducer 'r1' (r1:7401): needs 9 MiB of 1 MiB");
  }
  EXPECT_EQ(story.count<CreateFailed>(workers[2]), 0u);
  EXPECT_EQ(story.last<CloseCommunicator>(r0).communicator, 1);
  EXPECT_EQ(story.state(), "running");
  EXPECT_EQ(story.communicator(workers, {0, 1}, {r0, r1}), 2) << "its number is not used at once again";
}

TEST(CoordinatorCommunicators, WhoDidNotAskIsNamedAtTheDeadline) {
  Story story;
  const auto workers = story.running(3, {story.reducer("r0")});
  story.say(workers[0], Create{5, {0, 1, 2}});
  story.say(workers[2], Create{6, {0, 1, 2}});
  story.pass(61 * kSecond);
  EXPECT_EQ(story.last<CreateFailed>(workers[0]).code, Code::timeout);
  EXPECT_EQ(story.last<CreateFailed>(workers[2]).text,
            "new communicator of ranks 0, 1, 2: rank 1 has not asked for it within 60 s (formation_timeout)");
  EXPECT_EQ(story.count<CreateFailed>(workers[1]), 0u);
}

TEST(CoordinatorCommunicators, AMemberThatLeavesEndsTheCreation) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(2, {r0});
  story.say(workers[0], Create{5, {0, 1}});
  story.say(workers[1], Leave{});
  EXPECT_EQ(story.last<CreateFailed>(workers[0]).code, Code::peer_lost);
  story.say(workers[0], Create{6, {0, 1}});
  EXPECT_EQ(story.last<CreateFailed>(workers[0]).request, 6u);
  EXPECT_NE(story.last<CreateFailed>(workers[0]).text.find("has left the job"), std::string::npos);

  // Also while the reducers reserve: they give it back.
  Story later;
  const PeerId r1 = later.reducer("r1");
  const auto both = later.running(2, {r1});
  for (const PeerId w : both) later.say(w, Create{5, {0, 1}});
  later.say(both[1], Leave{});
  EXPECT_EQ(later.last<CreateFailed>(both[0]).code, Code::peer_lost);
  EXPECT_EQ(later.last<CloseCommunicator>(r1).communicator, 1);
}

TEST(CoordinatorCommunicators, IsClosedAtTheReducersWhenAllMembersHaveClosedIt) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(3, {r0});
  const std::uint16_t id = story.communicator(workers, {0, 2}, {r0});
  story.say(workers[0], CloseCommunicator{"", id, 3});
  story.say(workers[0], CloseCommunicator{"", id, 3});
  EXPECT_EQ(story.count<CloseCommunicator>(r0), 0u);
  story.say(workers[2], Leave{1});  // leaving closes the rest
  EXPECT_EQ(story.last<CloseCommunicator>(r0).communicator, id);
  story.say(workers[1], CloseCommunicator{"", 9, 0});
  EXPECT_EQ(story.last<Fail>(workers[1]).code, Code::protocol_error);
}

TEST(CoordinatorCommunicators, NumbersComeAgainOnlyWhenAllOthersHaveBeenUsed) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(1, {r0});
  EXPECT_EQ(story.communicator(workers, {0}, {r0}), 1);  // stays open
  for (std::uint32_t i = 2; i <= 65535; ++i) {
    ASSERT_EQ(story.communicator(workers, {0}, {r0}), i);
    story.say(workers[0], CloseCommunicator{"", static_cast<std::uint16_t>(i), 0});
    story.clear();
  }
  EXPECT_EQ(story.communicator(workers, {0}, {r0}), 2) << "0 and 1 are in use";
}

// -- waiting

TEST(CoordinatorCalls, AStalledCallNamesTheMissingRanks) {
  Story story;
  const auto workers = story.running(20, {story.reducer("r0")});
  story.say(workers[3], Waiting{0, 7, sum_of(10)});
  story.say(workers[0], Waiting{0, 7, sum_of(10)});
  const Stalled stalled = story.last<Stalled>(workers[0]);
  EXPECT_EQ(stalled.sequence, 7u);
  EXPECT_EQ(stalled.missing_count, 18u);
  EXPECT_EQ(stalled.missing, (Ranks{1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}));
  for (const PeerId w : workers) story.say(w, Waiting{0, 7, sum_of(10)});
  story.say(workers[3], Waiting{0, 7, sum_of(10)});
  EXPECT_EQ(story.last<Stalled>(workers[3]).missing_count, 0u);
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorCalls, AMismatchNamesFieldRanksAndValues) {
  Story story;
  const auto workers = story.running(3, {story.reducer("r0")});
  story.say(workers[1], Waiting{0, 7, sum_of(409598)});
  story.say(workers[0], Waiting{0, 7, sum_of(409600)});
  EXPECT_EQ(story.last<Describe>(workers[2]).sequence, 7u) << "the third is asked, so that the text can name all";
  EXPECT_EQ(story.count<Fail>(workers[0]), 0u);
  story.say(workers[2], Waiting{0, 7, sum_of(409598)});
  for (const PeerId w : workers) {
    const Fail fail = story.last<Fail>(w);
    EXPECT_EQ(fail.communicator, 0u);
    EXPECT_EQ(fail.code, Code::mismatch);
    EXPECT_EQ(fail.text,
              "call 7 differs in count: rank 0 has 409600, ranks 1, 2 have 409598 (allreduce of 409600 fp32, sum)");
    EXPECT_EQ(fail.ranks, (Ranks{0}));
  }
  EXPECT_EQ(story.state(), "running") << "only the communicator has failed";
  for (const PeerId w : workers) story.say(w, Waiting{0, 8, sum_of(1)});
  EXPECT_EQ(story.count<Fail>(workers[0]), 1u);
  EXPECT_EQ(story.count<Stalled>(workers[2]), 0u);
}

TEST(CoordinatorCalls, AMismatchDoesNotWaitLongForRanksThatDoNotAnswer) {
  Story story;
  const auto workers = story.running(3, {story.reducer("r0")});
  story.say(workers[0], Waiting{0, 2, sum_of(8)});
  story.say(workers[1], Waiting{0, 2, sum_of(8, DType::bf16)});
  story.pass(kSecond / 2);
  EXPECT_EQ(story.last<Fail>(workers[2]).text,
            "call 2 differs in dtype: rank 0 has fp32, rank 1 has bf16 (allreduce of 8 fp32, sum)");
}

TEST(CoordinatorCalls, SeveralFieldsAreNamedOneByOne) {
  Story story;
  const auto workers = story.running(3, {story.reducer("r0")});
  CallDescription other = sum_of(8);
  other.op = Op::max;
  story.say(workers[0], Waiting{0, 2, sum_of(8)});
  story.say(workers[1], Waiting{0, 2, sum_of(9)});
  story.say(workers[2], Waiting{0, 2, other});
  EXPECT_EQ(story.last<Fail>(workers[0]).text,
            "call 2 differs in count: rank 0 has 8, rank 1 has 9; in op: rank 0 has sum, rank 2 has max (allreduce of "
            "8 fp32, "
            "sum)");
  EXPECT_EQ(story.last<Fail>(workers[0]).ranks, (Ranks{1, 2}));
}

TEST(CoordinatorCalls, AReducersReportIsExplainedByTheRanks) {
  Story story;
  const PeerId r0 = story.reducer("r0"), r1 = story.reducer("r1");
  const auto workers = story.running(3, {r0, r1});
  const std::uint16_t id = story.communicator(workers, {2, 0}, {r0, r1});
  story.say(r0, Mismatched{"train", id, 4});
  story.say(r1, Mismatched{"train", id, 4});
  EXPECT_EQ(story.count<Describe>(workers[0]), 1u);
  EXPECT_EQ(story.count<Describe>(workers[1]), 0u) << "not a member";
  story.say(workers[0], Waiting{id, 4, sum_of(5)});
  story.say(workers[2], Waiting{id, 4, sum_of(6)});
  const Fail fail = story.last<Fail>(workers[2]);
  EXPECT_EQ(fail.communicator, id);
  EXPECT_EQ(fail.text,
            "communicator 1: call 4 differs in count: rank 0 has 6, rank 1 has 5 (allreduce of 6 fp32, sum)");
  EXPECT_EQ(story.count<Fail>(workers[1]), 0u);
  // The world goes on.
  for (const PeerId w : workers) story.say(w, Waiting{0, 0, sum_of(1)});
  EXPECT_EQ(story.count<Stalled>(workers[0]), 1u);
}

TEST(CoordinatorCalls, AReportThatNobodyExplainsEndsAllTheSame) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(3, {r0});
  story.say(r0, Mismatched{"train", 0, 4});
  for (const std::uint32_t r : {0, 1}) story.say(workers[r], Waiting{0, 4, sum_of(5)});
  story.pass(310 * kMillisecond);
  EXPECT_EQ(story.count<Fail>(workers[2]), 0u) << "an earlier call may differ";
  EXPECT_EQ(story.last<Describe>(workers[0]).sequence, 3u);
  story.pass(400 * kMillisecond);
  EXPECT_EQ(story.last<Fail>(workers[2]).code, Code::mismatch);
  EXPECT_EQ(
      story.last<Fail>(workers[2]).text,
      "call 4 does not match: contributions differ at reducer 'r0' (r0:7401), though ranks 0, 1 have the same call, "
      "allreduce of 5 fp32, sum; rank 2 did not say what it was");
}

// A call that differs in its number of chunks shifts the numbers of all that come behind it.
TEST(CoordinatorCalls, AReportAboutTheEchoOfAnEarlierCallNamesTheEarlierOne) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(2, {r0});
  story.say(r0, Mismatched{"train", 0, 4});
  for (const Sequence at : {4u, 3u}) {
    EXPECT_EQ(story.last<Describe>(workers[1]).sequence, at);
    for (const PeerId w : workers) story.say(w, Waiting{0, at, sum_of(5)});
  }
  EXPECT_EQ(story.last<Describe>(workers[1]).sequence, 2u);
  story.say(workers[0], Waiting{0, 2, sum_of(5)});
  story.say(workers[1], Waiting{0, 2, sum_of(5000)});
  EXPECT_EQ(story.last<Fail>(workers[0]).text,
            "call 2 differs in count: rank 0 has 5, rank 1 has 5000 (allreduce of 5 fp32, sum)");
}

TEST(CoordinatorCalls, AReportAboutAnotherJobsCommunicatorIsAProtocolError) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  story.running(1, {r0});
  const PeerId late = story.reducer("r1");
  story.say(late, Mismatched{"train", 0, 4});
  EXPECT_TRUE(story.is_closed(late));
  story.say(r0, Mismatched{"nobody", 0, 4});
  story.say(r0, Mismatched{"train", 77, 4});
  EXPECT_FALSE(story.is_closed(r0)) << "of the past";
  EXPECT_EQ(story.state(), "running");
}

TEST(CoordinatorCalls, WhoHasLeftTakesNoPartInLaterCallsAndIsNamed) {
  Story story;
  const auto workers = story.running(2, {story.reducer("r0")});
  story.say(workers[0], Leave{7});  // calls 0 to 6
  story.cut(workers[0]);
  story.say(workers[1], Waiting{0, 6, sum_of(10)});
  EXPECT_EQ(story.last<Stalled>(workers[1]).missing_count, 0u) << "it took part in that one; the result is on its way";
  story.say(workers[1], Waiting{0, 7, sum_of(10)});
  const Fail fail = story.last<Fail>(workers[1]);
  EXPECT_EQ(fail.communicator, 0u);
  EXPECT_EQ(fail.code, Code::peer_lost);
  EXPECT_EQ(fail.text, "rank 0 (host0:100 at 127.0.0.1:5002) has left the job and takes no part in call 7");
  EXPECT_EQ(fail.ranks, (Ranks{0}));
}

TEST(CoordinatorCalls, WhoHasClosedTheCommunicatorTakesNoPartInLaterCalls) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(3, {r0});
  const std::uint16_t id = story.communicator(workers, {1, 2}, {r0});
  story.say(workers[2], CloseCommunicator{"", id, 1});
  story.say(workers[1], Waiting{id, 1, sum_of(10)});
  EXPECT_EQ(
      story.last<Fail>(workers[1]).text,
      "communicator 1: rank 1 (host2:100 at 127.0.0.1:5004) has closed the communicator and takes no part in call 1");
  EXPECT_EQ(story.count<Fail>(workers[2]), 0u);
}

TEST(CoordinatorCalls, WaitingInACommunicatorOfOthersIsAProtocolError) {
  Story story;
  const PeerId r0 = story.reducer("r0");
  const auto workers = story.running(2, {r0});
  const std::uint16_t id = story.communicator(workers, {1}, {r0});
  story.say(workers[0], Waiting{id, 0, sum_of(1)});
  EXPECT_EQ(story.last<Fail>(workers[0]).code, Code::protocol_error);
}

TEST(CoordinatorCalls, OnlySoManyCallsAreRemembered) {
  WaitingCalls calls(2);
  for (Sequence s = 0; s < 1000; ++s) calls.add(calls.at(s), 0, sum_of(s));
  EXPECT_EQ(calls.size(), kMaxWaitingCalls);
  EXPECT_EQ(calls.at(999).reports, 1u);
  EXPECT_EQ(calls.at(0).reports, 0u) << "forgotten";
  calls.add(calls.at(999), 0, sum_of(5));
  EXPECT_EQ(calls.at(999).groups.size(), 1u) << "a rank does not differ from itself";
}

}  // namespace
}  // namespace redsum::server
