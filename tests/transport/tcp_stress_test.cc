// SPDX-License-Identifier: Apache-2.0
// Two threads over loopback while a signal without SA_RESTART hits them a thousand times a second and the sockets take
// only a little at a time: every byte arrives, and every wake-up is kept.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/transport/conformance.h"
#include "tests/transport/tcp_pair.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

namespace redsum::test {
namespace {

std::atomic<int> g_signals{0};

class TimerSignal {
 public:
  TimerSignal() {
    struct sigaction action {};
    action.sa_handler = [](int) { g_signals.fetch_add(1); };
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval every{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &every, nullptr);
  }
  ~TimerSignal() {
    const itimerval off{};
    ::setitimer(ITIMER_REAL, &off, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_ {};
};

// Sends `frames` frames with a window of two places and checks what the other end sends, until both are done.
struct Side final : transport::LaneSink {
  Side(int descriptor, int number, std::uint64_t count, const std::vector<std::byte>& source, std::size_t reader_pause)
      : frames(count), bytes(source), pause(reader_pause), places(2, bytes.size()), mine(number) {
    auto made = tcp::make_transport(loop, *this);
    transport = std::move(*made);
    lane = transport->adopt(tcp::make_link({tcp::Socket(descriptor), {}}));
    transport->expose(lane, CommunicatorId(1), places.table());
    transport->expose(lane, CommunicatorId(2), acknowledgements.table());
  }
  void run() {
    pump();
    while (!failed && (acknowledged < frames || got < frames || !transport->drained(lane))) {
      if (transport->poll() != 0 || !transport->arm()) continue;
      loop.wait_until(kNever);
    }
    transport->poll();
  }
  std::size_t size_of(std::uint64_t i) const { return (i * 7919) % bytes.size(); }
  void pump() {
    for (; sent < frames && sent - acknowledged < 2; ++sent) {
      const std::size_t size = size_of(sent);
      transport->deposit(lane, frame(1, sent % 2, size, sent), ConstBytes(bytes).first(size));
    }
  }
  void on_arrival(transport::LaneId, const wire::Header& header, Bytes payload) override {
    if (header.communicator == 2) {
      ++acknowledged;
      return pump();
    }
    failed |= header.sequence != got || payload.size() != size_of(got) ||
              !std::equal(payload.begin(), payload.end(), bytes.begin());
    ++got;
    for (std::size_t i = 0; i < pause; ++i) std::this_thread::yield();  // a slow reader
    transport->deposit(lane, frame(2, 0, 0, got), {});
  }
  void on_lane_lost(transport::LaneId, const Status& why) override {
    if (got < frames || acknowledged < frames) {
      failed = true;
      ADD_FAILURE() << "side " << mine << ": " << why.to_string();
    }
  }

  const std::uint64_t frames;
  const std::vector<std::byte>& bytes;
  const std::size_t pause;
  Places places, acknowledgements{1, 64};
  const int mine;
  std::uint64_t sent = 0, acknowledged = 0, got = 0;
  bool failed = false;
  Loop loop;
  std::unique_ptr<transport::Transport> transport;
  transport::LaneId lane;
};

void exchange(int buffer_bytes, std::uint64_t frames, std::size_t pause) {
  const auto bytes = bytes_from(1, 300'000);
  const auto [left, right] = connected_pair(buffer_bytes);
  Side a(left, 0, frames, bytes, pause), b(right, 1, frames, bytes, 0);
  std::thread other([&] { b.run(); });
  a.run();
  other.join();
  EXPECT_FALSE(a.failed);
  EXPECT_FALSE(b.failed);
  EXPECT_EQ(a.got, frames);
  EXPECT_EQ(b.got, frames);
}

TEST(TcpStress, NET_14_SignalsAndShortWritesLoseNothing) {
  g_signals = 0;
  {
    TimerSignal signal;
    do exchange(4096, 100, 20);
    while (g_signals < 100);
  }
  EXPECT_GE(g_signals, 100);
}

// The way out is closed, so the next write would raise SIGPIPE, whose default ends the process.
TEST(TcpStress, NET_11_WritingWhereNobodyReadsIsALossAndNoSignal) {
  struct sigaction standard {
  }, before{}, after{};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGPIPE, &standard, &before);
  const auto [left, right] = connected_pair();
  const int same = ::dup(left);
  Loop loop;
  Recorder recorder;
  auto transport = std::move(*tcp::make_transport(loop, recorder));
  const transport::LaneId lane = transport->adopt(tcp::make_link({tcp::Socket(left), {}}));
  ASSERT_EQ(::shutdown(same, SHUT_WR), 0);
  transport->deposit(lane, frame(1, 0, 0, 0), {});
  for (int i = 0; i < 10 && recorder.losses.empty(); ++i) transport->poll();
  ASSERT_EQ(recorder.losses_of(lane), 1u);
  EXPECT_EQ(recorder.losses[0].second.code(), Code::peer_lost);
  EXPECT_NE(recorder.losses[0].second.text().find("(32)"), std::string::npos) << recorder.losses[0].second.text();
  ::sigaction(SIGPIPE, &before, &after);
  EXPECT_EQ(after.sa_handler, SIG_DFL);
  ::close(same);
  ::close(right);
}

// It says nothing, reads nothing and ends nothing: the lane is read for as long as a live peer may pause, not for ever.
TEST(TcpStress, AClosedLaneWhosePeerDoesNotEndItIsLetGo) {
  struct Nobody final : transport::LaneSink {
    void on_arrival(transport::LaneId, const wire::Header&, Bytes) override {}
    void on_lane_lost(transport::LaneId, const Status&) override {}
  } nobody;
  const auto [mine, peer] = connected_pair();
  const tcp::Socket owned(peer);
  Loop loop;
  auto transport = std::move(*tcp::make_transport(loop, nobody));
  transport->close(transport->adopt(tcp::make_link({tcp::Socket(mine), {}})));
  const TimeNs closed = monotonic_now();
  TimeNs gone = kNever;
  while (gone == kNever && monotonic_now() < closed + 20 * kSecond) {
    transport->poll();
    if (::send(peer, "x", 1, MSG_NOSIGNAL) < 0 && errno != EINTR) gone = monotonic_now();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // what passes is the input
  }
  EXPECT_GT(gone - closed, 3 * kSecond);
  EXPECT_LT(gone - closed, 10 * kSecond);
}

TEST(TcpStress, TwoThreadsAtFullSpeedSleepAndWake) {
  exchange(0, 1000, 0);
}

}  // namespace
}  // namespace redsum::test
