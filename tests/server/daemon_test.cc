// SPDX-License-Identifier: Apache-2.0
// The daemon's life with roles that are made up: start, ready, signals, drain, end.
#include "server/daemon.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>

#include "server/admin_client.h"
#include "server/launch.h"
#include "tests/server/example_status.h"
#include "tests/server/temporary_folder.h"

namespace redsum::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What the made-up roles say; the test changes it while the daemon runs.
struct Pool {
  std::atomic<bool> registered{true}, draining{false};
  std::atomic<int> jobs{0}, ended{0};
  std::vector<std::string> events;  // on the daemon's thread
  ReducerConfig reducer;
  CoordinatorConfig coordinator;
  Status refuse_reducer;
};

class MadeUpCoordinator : public Coordinator {
 public:
  explicit MadeUpCoordinator(Pool& pool) : pool_(pool) {}
  ~MadeUpCoordinator() override { pool_.events.push_back("coordinator ends"); }
  std::string address() const override { return "0.0.0.0:4711"; }
  CoordinatorSnapshot snapshot() const override {
    CoordinatorSnapshot snapshot;
    snapshot.jobs.resize(static_cast<std::size_t>(pool_.jobs.load()));
    snapshot.jobs_ended = static_cast<std::uint64_t>(pool_.ended.load());
    return snapshot;
  }

 private:
  Pool& pool_;
};

class MadeUpReducer : public Reducer {
 public:
  explicit MadeUpReducer(Pool& pool) : pool_(pool) {}
  ~MadeUpReducer() override { pool_.events.push_back("reducer ends"); }
  std::string data_address() const override { return "127.0.0.1:4712"; }
  void drain() override { pool_.draining = true; }
  void wait_until_idle(DurationNs) override {}
  bool drained() const override { return pool_.draining && pool_.jobs == 0; }
  ReducerSnapshot snapshot() const override {
    ReducerSnapshot snapshot;
    snapshot.registered = pool_.registered;
    snapshot.draining = pool_.draining;
    snapshot.jobs.resize(static_cast<std::size_t>(pool_.jobs.load()));
    snapshot.jobs_ended = static_cast<std::uint64_t>(pool_.ended.load());
    return snapshot;
  }

 private:
  Pool& pool_;
};

struct World {
  test::TemporaryFolder folder;
  Pool pool;
  DaemonConfig config;
  World() {
    config.admin_address = "127.0.0.1:0";
    config.ports_file = folder.path("ports.json");
    config.drain_timeout = 60 * kSecond;
  }
  // Runs the daemon; `next` is asked for signals.
  int run(const SignalSource& next) {
    const Starters starters{[this](const CoordinatorConfig& own) -> Result<std::unique_ptr<Coordinator>> {
                              pool.coordinator = own;
                              return std::make_unique<MadeUpCoordinator>(pool);
                            },
                            [this](const ReducerConfig& own) -> Result<std::unique_ptr<Reducer>> {
                              pool.reducer = own;
                              if (!pool.refuse_reducer) return failure(pool.refuse_reducer);
                              return std::make_unique<MadeUpReducer>(pool);
                            }};
    return run_daemon(config, starters, next);
  }
  nlohmann::json ports() const { return nlohmann::json::parse(test::read_file(config.ports_file), nullptr, false); }
  int get(const std::string& path) const {
    const auto reply = ctl::http_get(ports().value("admin", ""), path, 30 * kSecond);
    return reply ? reply->status : 0;
  }
};

TEST(Daemon, StartsServesAndEndsOnASignal) {
  World world;
  world.folder.write("ports.json", R"({"ready":true,"control":"an earlier life"})");
  const int code = world.run([&](DurationNs at_most) {
    EXPECT_EQ(at_most, kNever) << "ready: nothing to look at until a signal comes";
    const auto ports = world.ports();
    EXPECT_EQ(ports["ready"], true);
    EXPECT_EQ(ports["control"], "0.0.0.0:4711");
    EXPECT_EQ(ports["data"], "127.0.0.1:4712");
    EXPECT_EQ(ports["pid"], ::getpid());
    EXPECT_EQ(world.get("/readyz"), 200);
    EXPECT_EQ(world.get("/livez"), 200);
    return SIGTERM;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(world.pool.reducer.coordinators, std::vector<std::string>{"127.0.0.1:4711"}) << "its own, by loopback";
  EXPECT_EQ(world.pool.events, (std::vector<std::string>{"reducer ends", "coordinator ends"}));
}

TEST(Daemon, IsNotReadyUntilRegistered) {
  World world;
  world.pool.registered = false;
  int asked = 0;
  const int code = world.run([&](DurationNs at_most) {
    ++asked;
    if (asked == 1) {
      EXPECT_EQ(world.ports()["ready"], false);
      EXPECT_EQ(world.get("/readyz"), 503);
      EXPECT_LT(at_most, kSecond);
      world.pool.registered = true;
      return 0;
    }
    EXPECT_EQ(world.ports()["ready"], true);
    EXPECT_EQ(world.get("/readyz"), 200);
    return SIGINT;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(asked, 2);
}

TEST(Daemon, DrainsUntilTheLastJobEnded) {
  World world;
  world.pool.jobs = 2;
  int asked = 0;
  const int code = world.run([&](DurationNs) {
    ++asked;
    if (asked == 1) return SIGTERM;
    EXPECT_EQ(world.get("/readyz"), 503);
    EXPECT_EQ(world.get("/livez"), 200);
    EXPECT_TRUE(world.pool.draining);
    --world.pool.jobs;
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(asked, 3);
}

TEST(Daemon, DrainsNoLongerThanTheTimeout) {
  World world;
  world.pool.jobs = 1;
  world.config.drain_timeout = 20 * kMillisecond;
  int asked = 0;
  EXPECT_EQ(world.run([&](DurationNs) { return ++asked == 1 ? SIGTERM : 0; }), 0);
  EXPECT_GE(asked, 2);
}

TEST(Daemon, OneShotEndsAfterTheLastJobAndNotBeforeTheFirst) {
  for (const bool coordinator : {true, false}) {
    World world;
    world.config.one_shot = true;
    world.config.has_coordinator = coordinator;
    int asked = 0;
    const int code = world.run([&](DurationNs at_most) {
      EXPECT_LE(at_most, kSecond);
      ++asked;
      if (asked == 2) world.pool.jobs = 2;
      if (asked == 3) world.pool.jobs = 1, world.pool.ended = 1;
      if (asked == 4) world.pool.jobs = 0, world.pool.ended = 2;
      return asked < 10 ? 0 : SIGTERM;
    });
    EXPECT_EQ(code, 0);
    EXPECT_EQ(asked, 4);
  }
}

TEST(Daemon, ARoleThatCannotStartIsAnError) {
  World world;
  world.pool.refuse_reducer = {Code::resource_exhausted, "data.address 127.0.0.1:7401: in use"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(world.run([](DurationNs) { return SIGTERM; }), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("resource_exhausted: data.address 127.0.0.1:7401"));
  EXPECT_EQ(world.pool.events, std::vector<std::string>{"coordinator ends"});
}

TEST(Daemon, AnAdminPortInUseIsAnError) {
  World world;
  const int code = world.run([&](DurationNs) {
    World second;
    second.config.admin_address = world.ports()["admin"];
    testing::internal::CaptureStderr();
    EXPECT_EQ(second.run([](DurationNs) { return SIGTERM; }), 1);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(second.config.admin_address));
    return SIGTERM;
  });
  EXPECT_EQ(code, 0);
}

TEST(Daemon, EachRoleAlone) {
  World reducer;
  reducer.config.has_coordinator = false;
  reducer.config.reducer.coordinators = {"192.0.2.1:7400"};
  reducer.config.admin_address.clear();
  EXPECT_EQ(reducer.run([&](DurationNs) {
    EXPECT_FALSE(reducer.ports().contains("control") || reducer.ports().contains("admin"));
    return SIGTERM;
  }),
            0);
  EXPECT_EQ(reducer.pool.reducer.coordinators, std::vector<std::string>{"192.0.2.1:7400"});
  World coordinator;
  coordinator.config.has_reducer = false;
  EXPECT_EQ(coordinator.run([&](DurationNs) {
    EXPECT_FALSE(coordinator.ports().contains("data"));
    EXPECT_EQ(coordinator.ports()["ready"], true);
    return SIGTERM;
  }),
            0);
}

TEST(Daemon, TellsTheServiceManager) {
  World world;
  const std::string path = world.folder.path("notify");
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un own{};
  own.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof own.sun_path);
  path.copy(own.sun_path, path.size());
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
  ASSERT_EQ(::setenv("NOTIFY_SOCKET", path.c_str(), 1), 0);
  const auto heard = [fd] {
    char text[128];
    const ssize_t n = ::recv(fd, text, sizeof text, MSG_DONTWAIT);
    return n > 0 ? std::string(text, static_cast<std::size_t>(n)) : std::string();
  };
  EXPECT_EQ(world.run([&](DurationNs) {
    EXPECT_THAT(heard(), HasSubstr("READY=1"));
    return SIGTERM;
  }),
            0);
  EXPECT_EQ(heard(), "STOPPING=1");
  ::close(fd);
  EXPECT_FALSE(notify_service_manager("READY=1")) << "nobody listens any more";
  ASSERT_EQ(::setenv("NOTIFY_SOCKET", "relative", 1), 0);
  EXPECT_FALSE(notify_service_manager("READY=1"));
  ASSERT_EQ(::unsetenv("NOTIFY_SOCKET"), 0);
  EXPECT_TRUE(notify_service_manager("READY=1"));
}

TEST(DaemonDeathTest, ASecondSignalEndsItAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        World world;
        world.pool.jobs = 1;
        const SignalSource signals = take_signals();
        ::raise(SIGTERM);
        world.run([&](DurationNs at_most) {
          const int signal = signals(at_most);
          if (signal == SIGTERM) ::raise(SIGINT);
          return signal;
        });
      },
      testing::ExitedWithCode(128 + SIGINT), "second signal");
}

TEST(DaemonDeathTest, AfterTheDrainASignalHasItsDefaultEffect) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        World world;
        (void)take_signals();
        world.run([](DurationNs) { return SIGTERM; });
        ::raise(SIGTERM);
      },
      testing::KilledBySignal(SIGTERM), "");
}

TEST(SignalSource, TimesOutWithZero) {
  EXPECT_EXIT(
      {
        const SignalSource signals = take_signals();
        const bool quiet = signals(kMillisecond) == 0;
        ::raise(SIGHUP);
        std::_Exit(quiet && signals(kNever) == SIGHUP ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(PortsFile, ThatCannotBeWrittenIsAnError) {
  const Status status = write_ports_file("/no/such/folder/ports.json", {}, true);
  EXPECT_THAT(status.text(), HasSubstr("/no/such/folder/ports.json"));
}

}  // namespace
}  // namespace redsum::server
