// SPDX-License-Identifier: Apache-2.0
// The text of every control message, pinned: a peer of another build must read it.
#include <gtest/gtest.h>

#include <limits>

#include "transport/wire/control.h"

namespace redsum::wire {
namespace {

void expect_text(const Message& message, const std::string& golden) {
  EXPECT_EQ(encode(message), golden);
  const Result<Message> back = decode(golden);
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(back->index(), message.index());
  EXPECT_EQ(encode(*back), golden);
}

EpochRecord sample_record() {
  EpochRecord record;
  record.epoch = Epoch(1, 2);
  record.workers = {{0, 11, "a:1", "10.0.0.2:40001"}, {1, 12, "b:2", ""}};
  record.reducers = {{21, "r0", "10.0.0.1:7401", 4, 3}};
  record.settings = {65536, 4, 8, 16384};
  record.stayed = 1;
  record.sequence = 9;
  for (std::size_t i = 0; i < 32; ++i) record.lane_nonce[i] = static_cast<std::uint8_t>(i * 7);
  return record;
}
const std::string kRecord =
    R"({"epoch":1048578,"lane_nonce":"00070e151c232a31383f464d545b626970777e858c939aa1a8afb6bdc4cbd2d9",)"
    R"("reducers":[{"address":"10.0.0.1:7401","instance":21,"name":"r0","shards":4,"weight":3}],"sequence":9,)"
    R"("settings":{"chunk_bytes":65536,"fallback":"unset","max_workers":0,"min_workers":0,"mode":"unset","ring_order":"unset","small_bytes":16384,"small_window":8,"window":4},"stayed":1,)"
    R"("workers":[{"address":"10.0.0.2:40001","host":"a:1","incarnation":11,"rank":0},)"
    R"({"address":"","host":"b:2","incarnation":12,"rank":1}]})";

TEST(ControlText, of_a_workers_life) {
  expect_text(
      Join{4, "n1:77", "0.1.0", {4096, 1, 2, 512}, 1500, "n1:40001"},
      R"({"address":"n1:40001","host":"n1:77","limit_ms":1500,"settings":{"chunk_bytes":4096,"fallback":"unset","max_workers":0,"min_workers":0,"mode":"unset","ring_order":"unset","small_bytes":512,"small_window":2,"window":1},)"
      R"("type":"join","version":"0.1.0","world_size":4})");
  expect_text(
      Join{1, "", "", {}, 0},
      R"({"address":"","host":"","limit_ms":0,"settings":{"chunk_bytes":0,"fallback":"unset","max_workers":0,"min_workers":0,"mode":"unset","ring_order":"unset","small_bytes":0,"small_window":0,"window":0},)"
      R"("type":"join","version":"","world_size":1})");
  expect_text(Joined{sample_record()}, R"({"record":)" + kRecord + R"(,"type":"joined"})");
  expect_text(Ready{}, R"({"type":"ready"})");
  expect_text(Leave{5}, R"({"calls":5,"type":"leave"})");
  expect_text(Resume{8, true, 1500}, R"({"admit":1,"limit_ms":1500,"sequence":8,"type":"resume"})");
  expect_text(Resumed{Code::timeout, "rank 1"}, R"({"code":"timeout","text":"rank 1","type":"resumed"})");
  expect_text(Applicants{2}, R"({"count":2,"type":"applicants"})");
  expect_text(Create{3, {2, 0, 65535}}, R"({"members":[2,0,65535],"request":3,"type":"create"})");
  expect_text(Created{3, 9}, R"({"communicator":9,"request":3,"type":"created"})");
  expect_text(CreateFailed{3, Code::resource_exhausted, "no room"},
              R"({"code":"resource_exhausted","request":3,"text":"no room","type":"create_failed"})");
  expect_text(CloseCommunicator{"", 9, 100}, R"({"calls":100,"communicator":9,"job":"","type":"close_communicator"})");
}

TEST(ControlText, of_a_reducers_life) {
  expect_text(Register{"r0", "[::1]:7401", 2, 1ull << 63, "0.1.0", "train", 7},
              R"({"address":"[::1]:7401","budget_bytes":9223372036854775808,"job":"train","name":"r0","shards":2,)"
              R"("type":"register","version":"0.1.0","worker":7})");
  expect_text(Registered{2}, R"({"reducers":2,"type":"registered"})");
  expect_text(OpenJob{"train-1", sample_record()},
              R"({"job":"train-1","record":)" + kRecord + R"(,"type":"open_job"})");
  expect_text(OpenCommunicator{"j", 1, {0, 1}},
              R"({"communicator":1,"job":"j","members":[0,1],"type":"open_communicator"})");
  expect_text(
      Reserved{"j", 1, 18446744073709551615ull, Code::ok, "", Epoch(1, 3)},
      R"({"bytes":18446744073709551615,"code":"ok","communicator":1,"epoch":1048579,"job":"j","text":"","type":"reserved"})");
  expect_text(CloseJob{"j", "done"}, R"({"job":"j","reason":"done","type":"close_job"})");
  expect_text(Draining{}, R"({"type":"draining"})");
}

TEST(ControlText, of_trouble) {
  expect_text(Heartbeat{7}, R"({"count":7,"type":"heartbeat"})");
  expect_text(Mismatched{"j", 1, 2, Epoch(1, 3)},
              R"({"communicator":1,"epoch":1048579,"job":"j","sequence":2,"type":"mismatched"})");
  expect_text(Describe{1, 2}, R"({"communicator":1,"sequence":2,"type":"describe"})");
  const CallDescription call{Kind::reduce,
                             DType::fp8_e4m3,
                             DType::bf16,
                             Op::avg,
                             3,
                             1000,
                             0.1,
                             -std::numeric_limits<double>::infinity(),
                             "w",
                             {18446744073709551615ull, 0}};
  expect_text(
      Waiting{1, 2, call, {5}},
      R"({"awaits":[5],"call":{"count":1000,"dtype":"fp8_e4m3","key":"w","kind":"reduce","op":"avg","parts":[18446744073709551615,0],"postscale":"fff0000000000000",)"
      R"("prescale":"3fb999999999999a","root":3,"via":"reducers","wire_dtype":"bf16"},"communicator":1,"sequence":2,"type":"waiting"})");
  expect_text(Stalled{1, 2, {3, 4}, 2},
              R"({"communicator":1,"missing":[3,4],"missing_count":2,"sequence":2,"type":"stalled"})");
  expect_text(LaneLost{21, "reset"}, R"({"instance":21,"text":"reset","type":"lane_lost"})");
  expect_text(Fail{kEveryCommunicator, Code::peer_lost, "rank 1 \"gone\"", {1}},
              R"({"code":"peer_lost","communicator":4294967295,"ranks":[1],"text":"rank 1 \"gone\"","type":"fail"})");
  expect_text(Ping{}, R"({"type":"ping"})");
  expect_text(Prepare{Epoch(1, 2)}, R"({"epoch":1048578,"type":"prepare"})");
  expect_text(Progress{Epoch(2u), {{3, {4, 5}, {6, 7}}}},
              R"({"communicators":[{"bulk":[4,5],"communicator":3,"small":[6,7]}],"epoch":2,"type":"progress"})");
  expect_text(Enter{"train-1", Epoch(2u)}, R"({"epoch":2,"job":"train-1","type":"enter"})");
  expect_text(Entered{"train-1", Epoch(2u)}, R"({"epoch":2,"job":"train-1","type":"entered"})");
  expect_text(
      Commit{Epoch(2u), {{21, "r1", "10.0.0.1:7401", 2, 1}}, {{0, {8}, {0}}}},
      R"({"epoch":2,"least":[{"bulk":[8],"communicator":0,"small":[0]}],"reducers":[{"address":"10.0.0.1:7401","instance":21,"name":"r1","shards":2,"weight":1}],"type":"commit"})");
  expect_text(
      Recruit{{{21, "r1", "10.0.0.1:7401", 2, 1}}},
      R"({"reducers":[{"address":"10.0.0.1:7401","instance":21,"name":"r1","shards":2,"weight":1}],"type":"recruit"})");
  expect_text(Recruited{21, Code::timeout, "no answer"},
              R"({"code":"timeout","instance":21,"text":"no answer","type":"recruited"})");
  expect_text(Bring{}, R"({"type":"bring"})");
  expect_text(Brought{Code::auth_failed, "no secret"}, R"({"code":"auth_failed","text":"no secret","type":"brought"})");
}

}  // namespace
}  // namespace redsum::wire
