// SPDX-License-Identifier: Apache-2.0
// The coordinator as a process sees it: a thread behind a port, with workers and reducers made of control connections.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "server/coordinator.h"
#include "transport/control/connection.h"

namespace redsum::server {
namespace {

constexpr DurationNs kPatience = 20 * kSecond;

// Everybody but the coordinator, on one loop of the test's own thread.
class Members {
 public:
  struct Member {
    Epoch epoch;  // of the job that was opened
    std::shared_ptr<void> dialing;
    std::shared_ptr<control::Connection> connection;
    std::map<std::string, std::vector<wire::Message>> inbox;  // by type
    std::optional<Status> lost;
    std::function<void(Member&, const wire::Message&)> on_message = [](Member&, const wire::Message&) {};

    template <typename T>
    T last() const {
      const auto found = inbox.find(std::string(wire::type_name(T{})));
      return found == inbox.end() ? T{} : std::get<T>(found->second.back());
    }
    std::size_t count(const std::string& type) const { return inbox.contains(type) ? inbox.at(type).size() : 0; }
  };

  explicit Members(CoordinatorConfig config = patient()) : key_(config.pool_key) {
    config.address = "127.0.0.1:0";
    auto started = start_coordinator(config);
    EXPECT_TRUE(started) << started.error().to_string();
    coordinator = std::move(*started);
  }

  // These members send no heartbeats: a coordinator that is to keep them waits longer than any test.
  static CoordinatorConfig patient() {
    CoordinatorConfig config;
    config.heartbeat_timeout = 10 * kPatience;
    return config;
  }

  Member& add(wire::Purpose purpose, std::uint32_t rank, wire::Message first) {
    Member& member = *members_.emplace_back(std::make_unique<Member>());
    wire::Hello hello;
    hello.purpose = purpose;
    hello.job = purpose == wire::Purpose::control_worker ? "train" : "";
    hello.rank = rank;
    hello.incarnation = ++incarnations_;
    control::DialSpec spec{{coordinator->address()}, hello, key_, monotonic_now() + kPatience};
    member.dialing = control::dial(loop, spec, [&member, first = std::move(first)](auto dialed) {
      if (!dialed) {
        member.lost = dialed.error();
        return;
      }
      member.connection = std::move(*dialed);
      member.connection->start(
          [&member](wire::Message message) {
            member.on_message(member, message);
            member.inbox[std::string(wire::type_name(message))].push_back(std::move(message));
          },
          [&member](const Status& why) { member.lost = why; });
      member.connection->send(first);
    });
    return member;
  }
  Member& reducer(const std::string& name) {
    Member& member =
        add(wire::Purpose::control_reducer, 0, wire::Register{name, "127.0.0.1:7401", 2, 1 << 30, "0.1.0"});
    member.on_message = [](Member& self, const wire::Message& message) {
      if (const auto* job = std::get_if<wire::OpenJob>(&message)) self.epoch = job->record.epoch;
      if (const auto* open = std::get_if<wire::OpenCommunicator>(&message))
        self.connection->send(wire::Reserved{open->job, open->communicator, 4096, Code::ok, "", self.epoch});
    };
    return member;
  }
  Member& worker(std::uint32_t rank, std::uint32_t world_size) {
    Member& member = add(wire::Purpose::control_worker, rank,
                         wire::Join{world_size, "host:" + std::to_string(rank), "0.1.0", {}, 0});
    member.on_message = [](Member& self, const wire::Message& message) {
      if (std::holds_alternative<wire::Joined>(message)) self.connection->send(wire::Ready{});
    };
    return member;
  }
  bool until(const std::function<bool()>& holds) {
    const TimeNs end = monotonic_now() + kPatience;
    while (!holds() && monotonic_now() < end) loop.wait_until(std::min(end, monotonic_now() + 5 * kMillisecond));
    return holds();
  }
  std::string state() const {
    const CoordinatorSnapshot now = coordinator->snapshot();
    return now.jobs.empty() ? "none" : now.jobs.front().state;
  }

  Loop loop;
  std::unique_ptr<Coordinator> coordinator;

 private:
  wire::Key key_;
  std::vector<std::unique_ptr<Member>> members_;
  Incarnation incarnations_ = 0;
};

TEST(CoordinatorThread, AJobsWholeLife) {
  Members members;
  auto& reducer = members.reducer("r0");
  auto &a = members.worker(0, 2), &b = members.worker(1, 2);
  ASSERT_TRUE(members.until([&] { return members.state() == "running"; }));
  const CoordinatorSnapshot snapshot = members.coordinator->snapshot();
  EXPECT_EQ(snapshot.address, members.coordinator->address());
  ASSERT_EQ(snapshot.reducers.size(), 1u);
  EXPECT_EQ(snapshot.reducers[0].name, "r0");
  ASSERT_EQ(snapshot.jobs.size(), 1u);
  EXPECT_EQ(snapshot.jobs[0].job, "train");
  EXPECT_EQ(snapshot.jobs[0].joined, 2u);
  EXPECT_EQ(snapshot.jobs[0].workers[1], "1 host:1 " + b.connection->local_address());
  EXPECT_EQ(snapshot.jobs_formed, 1u);
  EXPECT_EQ(a.last<wire::Joined>().record, reducer.last<wire::OpenJob>().record);

  for (auto* worker : {&a, &b}) worker->connection->send(wire::Create{5, {1, 0}});
  ASSERT_TRUE(members.until([&] { return a.count("created") == 1 && b.count("created") == 1; }));
  EXPECT_EQ(a.last<wire::Created>().communicator, 1);
  for (auto* worker : {&a, &b}) {
    worker->connection->send(wire::Leave{});
    worker->connection->close();
  }
  ASSERT_TRUE(members.until([&] { return members.state() == "none" && reducer.count("close_job") == 1; }));
  EXPECT_EQ(members.coordinator->snapshot().jobs_ended, 1u);
  EXPECT_EQ(members.coordinator->snapshot().jobs_failed, 0u);
}

TEST(CoordinatorThread, ALostWorkerIsToldToTheOthers) {
  Members members;
  members.reducer("r0");
  auto &a = members.worker(0, 2), &b = members.worker(1, 2);
  ASSERT_TRUE(members.until([&] { return members.state() == "running"; }));
  const std::string address = b.connection->local_address();
  b.connection.reset();
  ASSERT_TRUE(members.until([&] { return a.count("fail") == 1; }));
  EXPECT_EQ(a.last<wire::Fail>().code, Code::peer_lost);
  EXPECT_EQ(a.last<wire::Fail>().text.find("rank 1 (host:1 at " + address + ") is lost: connection closed by"), 0u)
      << a.last<wire::Fail>().text;
  const std::vector<std::pair<std::string, std::uint64_t>> failures = {{"peer_lost", 1}};
  EXPECT_TRUE(members.until([&] { return members.coordinator->snapshot().failures == failures; }));
}

TEST(CoordinatorThread, SilenceAndAMissedFormationEndByThemselves) {
  CoordinatorConfig config;
  config.heartbeat_timeout = 300 * kMillisecond;
  Members silent(config);
  auto& reducer = silent.reducer("r0");
  ASSERT_TRUE(silent.until([&] { return reducer.lost.has_value(); }));
  EXPECT_EQ(reducer.last<wire::Fail>().code, Code::timeout);
  EXPECT_TRUE(silent.until([&] { return silent.coordinator->snapshot().reducers.empty(); }));

  config.heartbeat_timeout = 60 * kSecond;
  config.formation_timeout = 200 * kMillisecond;
  Members lonely(config);
  auto& worker = lonely.worker(1, 3);
  ASSERT_TRUE(lonely.until([&] { return worker.lost.has_value(); }));
  EXPECT_EQ(worker.last<wire::Fail>().code, Code::timeout);
  EXPECT_NE(worker.last<wire::Fail>().text.find("ranks 0, 2"), std::string::npos) << worker.last<wire::Fail>().text;
}

TEST(CoordinatorThread, WhoSendsNoMessageIsClosedAndOnlyHeHasTheHarm) {
  Members members;
  members.reducer("r0");
  auto& a = members.worker(0, 1);
  ASSERT_TRUE(members.until([&] { return members.state() == "running"; }));
  auto& liar = members.add(wire::Purpose::control_reducer, 0, wire::Draining{});
  ASSERT_TRUE(members.until([&] { return liar.lost.has_value(); }));
  EXPECT_EQ(liar.last<wire::Fail>().code, Code::protocol_error);
  EXPECT_EQ(members.state(), "running");
  EXPECT_EQ(a.count("fail"), 0u);
}

TEST(CoordinatorThread, ABusyAddressIsAnErrorAndARestartOnItWorksAtOnce) {
  Members members;
  auto& worker = members.worker(0, 2);
  ASSERT_TRUE(members.until([&] { return members.state() == "forming"; }));
  CoordinatorConfig config;
  config.address = members.coordinator->address();
  const auto busy = start_coordinator(config);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code(), Code::resource_exhausted);
  EXPECT_NE(busy.error().text().find(config.address), std::string::npos);
  members.coordinator.reset();  // with a connection open: its port stays in TIME_WAIT
  ASSERT_TRUE(members.until([&] { return worker.lost.has_value(); }));
  const auto again = start_coordinator(config);
  ASSERT_TRUE(again) << again.error().to_string();
  EXPECT_EQ((*again)->address(), config.address);
}

TEST(CoordinatorThread, StrangersAreCounted) {
  CoordinatorConfig config = Members::patient();
  config.pool_key = wire::key_from_secret("right");
  Members members(config);
  std::optional<Status> refused;
  wire::Hello hello;
  hello.purpose = wire::Purpose::control_tool;
  const auto dialing = control::dial(
      members.loop,
      {{members.coordinator->address()}, hello, wire::key_from_secret("wrong"), monotonic_now() + kPatience},
      [&](const auto& dialed) { refused = dialed ? Status() : dialed.error(); });
  ASSERT_TRUE(members.until([&] { return refused.has_value(); }));
  EXPECT_EQ(refused->code(), Code::auth_failed);
  EXPECT_TRUE(members.until([&] { return members.coordinator->snapshot().rejected_handshakes == 1; }));
}

TEST(CoordinatorThread, ManyWorkersFormAJob) {
  constexpr std::uint32_t kWorld = 256;
  Members members;
  members.reducer("r0");
  std::vector<Members::Member*> workers;
  for (std::uint32_t rank = 0; rank < kWorld; ++rank) workers.push_back(&members.worker(rank, kWorld));
  ASSERT_TRUE(members.until([&] { return members.state() == "running"; }));
  for (auto* worker : workers) EXPECT_EQ(worker->count("joined"), 1u);
}

TEST(CoordinatorThread, ShowsThatItIsAliveWhileNothingHappens) {
  Members members;
  const TimeNs before = members.coordinator->snapshot().last_progress;
  EXPECT_TRUE(members.until([&] { return members.coordinator->snapshot().last_progress > before; }));
}

}  // namespace
}  // namespace redsum::server
