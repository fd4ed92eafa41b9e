// SPDX-License-Identifier: Apache-2.0
#include "transport/loop/loop.h"

#include <gtest/gtest.h>
#include <time.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace redsum {
namespace {

TEST(Loop, PollRunsWhatIsReadyAndNeverSleeps) {
  Loop loop;
  EXPECT_EQ(loop.poll(), 0u);
  int ran = 0;
  loop.post([&] { ++ran; });
  loop.post([&] { ++ran; });
  EXPECT_EQ(loop.poll(), 2u);
  EXPECT_EQ(ran, 2);
}

TEST(Loop, WorkThatIsNeverRunIsDestroyed) {
  auto token = std::make_shared<int>();
  {
    Loop loop;
    loop.post([token] {});
    EXPECT_EQ(token.use_count(), 2);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Loop, StopEndsRunAfterWhatIsQueued) {
  Loop loop;
  int ran = 0;
  loop.post([&] { ++ran; });
  loop.stop();
  loop.run();
  EXPECT_EQ(ran, 1);
  loop.post([&] { ++ran; });
  EXPECT_EQ(ran, 1);
}

TEST(Loop, AWakeBeforeTheSleepIsNotLost) {
  Loop loop;
  loop.wake();
  loop.wait_until(kNever);  // would hang
  loop.wake();
  loop.poll();
  loop.wait_until(kNever);
}

TEST(Loop, NoWakeOfAnotherThreadIsLost) {
  Loop loop;
  constexpr int kRounds = 20'000;
  std::atomic<int> asked{0}, answered{0};
  std::thread other([&] {
    for (int i = 1; i <= kRounds; ++i) {
      asked.store(i);
      loop.wake();
      while (answered.load() < i) std::this_thread::yield();
    }
  });
  for (int done = 0; done < kRounds;) {  // a lost wake-up leaves both waiting for ever
    if (asked.load() > done) {
      answered.store(++done);
    } else {
      loop.wait_until(kNever);
    }
  }
  other.join();
}

TEST(Loop, AnIdleWaitCostsNoCpu) {
  Loop loop;
  timespec before{}, after{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
  const TimeNs deadline = monotonic_now() + 200 * kMillisecond;
  int returns = 0;
  while (monotonic_now() < deadline) {
    loop.wait_until(deadline);
    ++returns;
  }
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
  EXPECT_LE(returns, 5);
  const DurationNs cpu = (after.tv_sec - before.tv_sec) * kSecond + (after.tv_nsec - before.tv_nsec);
  EXPECT_LT(cpu, 20 * kMillisecond) << "a tenth of the time: it spins";
}

TEST(Timer, FiresOnceCanBeArmedAgainAndCancelled) {
  Loop loop;
  Timer timer(loop);
  std::vector<int> fired;
  timer.at(monotonic_now() + kMillisecond, [&] { fired.push_back(1); });
  timer.at(monotonic_now() + 2 * kMillisecond, [&] {
    fired.push_back(2);
    timer.at(monotonic_now(), [&] { fired.push_back(3); });
  });
  while (fired.size() < 2) loop.wait_until(kNever);
  EXPECT_EQ(fired, (std::vector<int>{2, 3}));
  timer.at(monotonic_now(), [&] { fired.push_back(4); });
  timer.cancel();
  timer.at(kNever, [&] { fired.push_back(5); });
  loop.poll();
  EXPECT_EQ(fired.size(), 2u);
}

TEST(Timer, MayDestroyItselfInItsCallbackAndDieBeforeIt) {
  Loop loop;
  auto token = std::make_shared<int>();
  auto timer = std::make_unique<Timer>(loop);
  bool fired = false;
  timer->at(monotonic_now(), [&, token] {
    timer.reset();
    fired = *token == 0;
  });
  while (!fired) loop.wait_until(kNever);
  {
    Timer gone(loop);
    gone.at(monotonic_now(), [token] { FAIL(); });
  }
  loop.poll();
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
}  // namespace redsum
