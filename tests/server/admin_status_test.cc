// SPDX-License-Identifier: Apache-2.0
// Ready, alive, and what /status and the page show.
#include "server/admin_status.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "server/admin.h"
#include "server/human.h"
#include "server/status_sampler.h"
#include "tests/server/example_status.h"

namespace redsum::server {
namespace {

using test::example_status;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Readiness, NeedsEveryRoleAndNoDrain) {
  EXPECT_TRUE(readiness(example_status()).ok);
  DaemonStatus status = example_status();
  status.reducer->registered = false;
  EXPECT_THAT(readiness(status).text, HasSubstr("not registered"));
  status = example_status();
  status.draining = true;
  EXPECT_THAT(readiness(status).text, HasSubstr("draining"));
  status = example_status();
  status.reducer->draining = true;
  EXPECT_THAT(readiness(status).text, HasSubstr("draining"));
  status = example_status();
  status.starting = true;
  EXPECT_FALSE(readiness(status).ok);
  EXPECT_FALSE(readiness(DaemonStatus()).ok);
  status = example_status();
  status.reducer.reset();
  EXPECT_TRUE(readiness(status).ok) << "a coordinator alone";
}

TEST(Liveness, FailsOnlyWhenWorkIsPendingAndNothingMoves) {
  DaemonStatus status = example_status();
  status.reducer->registered = false;
  status.draining = true;
  EXPECT_TRUE(liveness(status).ok) << "not ready is not dead";
  status.reducer->stuck = true;
  EXPECT_THAT(liveness(status).text, HasSubstr("shard"));

  status = example_status();
  status.coordinator->last_progress = status.now - kStuckAfter;
  EXPECT_TRUE(liveness(status).ok);
  status.coordinator->last_progress -= kSecond;
  EXPECT_THAT(liveness(status).text, HasSubstr("coordinator"));
  status.coordinator->reducers.clear();
  status.coordinator->jobs.clear();
  EXPECT_TRUE(liveness(status).ok) << "nobody there: nothing to do";

  status = example_status();
  status.silent = kStuckAfter;
  EXPECT_TRUE(liveness(status).ok);
  status.silent += kSecond;
  EXPECT_THAT(liveness(status).text, HasSubstr("not answered"));
}

TEST(StatusJson, HoldsWhatTheSnapshotsHold) {
  const auto json = nlohmann::json::parse(status_json(example_status()));
  EXPECT_EQ(json["version"], REDSUM_VERSION);
  EXPECT_EQ(json["ready"], true);
  EXPECT_EQ(json["uptime_seconds"], 100.0);
  EXPECT_EQ(json["reducer"]["instance"], "18446744073709551615");
  EXPECT_EQ(json["reducer"]["shards"].size(), 2u);
  EXPECT_EQ(json["reducer"]["shards"][0]["bytes_received"], 1000);
  EXPECT_EQ(json["reducer"]["jobs"][0]["slowest"][0]["rank"], 3);
  EXPECT_EQ(json["coordinator"]["jobs"][0]["missing"], nlohmann::json::array({2}));
  EXPECT_EQ(json["coordinator"]["jobs"][0]["epoch"]["term"], 5);
  EXPECT_DOUBLE_EQ(json["coordinator"]["jobs"][0]["seconds"], 60);
  EXPECT_EQ(json["coordinator"]["failures"]["peer_lost"], 4);
  DaemonStatus bare;
  bare.starting = true;
  const auto starting = nlohmann::json::parse(status_json(bare));
  EXPECT_FALSE(starting.contains("reducer") || starting.contains("coordinator"));
  EXPECT_EQ(starting["ready_text"], "starting");
}

TEST(StatusJson, BrokenUtf8FromAPeerIsStillJson) {
  DaemonStatus status = example_status();
  status.coordinator->jobs[0].last_error = "rank 2 said \xff\xfe\"";
  EXPECT_TRUE(nlohmann::json::accept(status_json(status)));
}

TEST(StatusPage, ShowsBothRolesAndEscapes) {
  DaemonStatus status = example_status();
  status.coordinator->jobs[0].last_error = "<script>alert('x')</script> & \"more\"";
  const std::string page = status_page(status);
  EXPECT_THAT(page,
              AllOf(HasSubstr("Reducer r0"), HasSubstr("resnet"), HasSubstr("3/4"), HasSubstr("256 MiB of 1.0 GiB")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &quot;more&quot;"));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
  status.reducer->registered = false;
  EXPECT_THAT(status_page(status), HasSubstr("not ready: the reducer is not registered"));
}

TEST(AdminAnswer, EachPath) {
  DaemonStatus status = example_status();
  EXPECT_EQ(admin_answer("/livez", status).status, 200);
  EXPECT_EQ(admin_answer("/readyz", status).body, "ok\n");
  EXPECT_EQ(admin_answer("/metrics", status).content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(admin_answer("/status", status).content_type, "application/json");
  EXPECT_TRUE(nlohmann::json::parse(admin_answer("/version", status).body).contains("protocol"));
  EXPECT_EQ(admin_answer("/", status).content_type, "text/html; charset=utf-8");
  for (const char* path : {"", "/livez/", "/statu", "/../etc/passwd", "*", "/%6Civez"})
    EXPECT_EQ(admin_answer(path, status).status, 404) << path;
  status.reducer->stuck = true;
  status.draining = true;
  EXPECT_EQ(admin_answer("/livez", status).status, 503);
  EXPECT_EQ(admin_answer("/readyz", status).status, 503);
}

TEST(Human, Numbers) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(256ull << 20), "256 MiB");
  EXPECT_EQ(human_bytes(~0ull), "16.0 EiB");
  EXPECT_EQ(human_duration(-5), "0 s");
  EXPECT_EQ(human_duration(61 * kSecond), "1 m 01 s");
  EXPECT_EQ(human_duration(7500 * kSecond), "2 h 05 m");
}

// A gate at which a collection waits, as a role does that does not answer.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void await_someone() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ > 0; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(StatusSampler, AnswersWithASnapshotTakenAfterTheQuestion) {
  std::atomic<int> value{1};
  StatusSampler sampler(
      [&] {
        DaemonStatus status = example_status();
        status.reducer->name = std::to_string(value.load());
        return status;
      },
      60 * kSecond);
  for (int i = 1; i < 50; ++i) {
    value = i;
    EXPECT_EQ(sampler.status().reducer->name, std::to_string(i));
  }
}

TEST(StatusSampler, AFrozenRoleHoldsUpNobody) {
  Gate gate;
  StatusSampler sampler(
      [&] {
        gate.pass();
        return example_status();
      },
      kMillisecond);
  const DaemonStatus first = sampler.status();
  EXPECT_TRUE(first.starting) << "nothing was collected yet";
  gate.await_someone();
  const DaemonStatus frozen = sampler.status();
  EXPECT_GT(frozen.silent, 0);
  const DaemonStatus later = sampler.status();
  EXPECT_GT(later.silent, frozen.silent) << "the silence grows until it counts as stuck";
  gate.open();
  DaemonStatus after;
  do after = sampler.status();  // as soon as the role answers again
  while (!after.reducer);
  EXPECT_FALSE(after.starting);
}

TEST(StatusSampler, ManyAskAtOnce) {
  std::atomic<int> collections{0};
  StatusSampler sampler(
      [&] {
        ++collections;
        return example_status();
      },
      60 * kSecond);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) EXPECT_EQ(sampler.status().reducer->name, "r0");
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(collections, 400);
}

}  // namespace
}  // namespace redsum::server
