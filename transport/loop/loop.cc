// SPDX-License-Identifier: Apache-2.0
#include "transport/loop/loop.h"

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

namespace redsum {
namespace {

namespace asio = boost::asio;

std::chrono::steady_clock::time_point to_time_point(TimeNs when) {
  return std::chrono::steady_clock::time_point(
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::nanoseconds(when)));
}

// What the owner is doing, as wake() needs to know it.
enum : int { kAwake = 0, kAsleep = 1, kWoken = 2 };

}  // namespace

struct Loop::State {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> guard{
      io.get_executor()};  // else every sleep returns at once
  std::atomic<int> owner{kAwake};
  bool stopped = false;  // the owner's thread only
};

Loop::Loop() : state_(std::make_unique<State>()) {}
Loop::~Loop() = default;

std::size_t Loop::poll() {
  return state_->io.poll();
}

void Loop::wait_until(TimeNs deadline) {
  int expected = kAwake;
  if (!state_->owner.compare_exchange_strong(expected, kAsleep)) {  // woken since the last sleep: do not sleep now
    state_->owner.store(kAwake);
    state_->io.poll_one();
    return;
  }
  if (deadline == kNever) {
    state_->io.run_one();
  } else {
    state_->io.run_one_until(to_time_point(deadline));
  }
  state_->owner.store(kAwake);
}

void Loop::run() {
  while (!state_->stopped) wait_until(kNever);
}

boost::asio::io_context& Loop::io() {
  return state_->io;
}

void Loop::post(std::function<void()> work) {
  asio::post(state_->io, std::move(work));
}

void Loop::wake() {
  // Only the call that finds the owner asleep pays for the system call that ends the sleep.
  if (state_->owner.exchange(kWoken) == kAsleep) asio::post(state_->io, [] {});
}

void Loop::stop() {
  asio::post(state_->io, [state = state_.get()] { state->stopped = true; });
}

struct Timer::State {
  explicit State(asio::io_context& io) : timer(io) {}
  asio::steady_timer timer;
  std::function<void()> callback;
  std::uint64_t armed =
      0;  // counts at() and cancel(): a handler of an earlier at() that is already queued finds another number
};

Timer::Timer(Loop& loop) : state_(std::make_shared<State>(loop.io())) {}

Timer::~Timer() {
  cancel();
}

void Timer::at(TimeNs when, std::function<void()> callback) {
  cancel();
  if (when == kNever) return;
  state_->callback = std::move(callback);
  state_->timer.expires_at(to_time_point(when));
  state_->timer.async_wait([state = state_, armed = state_->armed](const boost::system::error_code& error) {
    if (error || state->armed != armed) return;
    // Moved out first: the callback may arm the timer again or destroy it.
    const std::function<void()> fire = std::exchange(state->callback, nullptr);
    fire();
  });
}

void Timer::cancel() {
  ++state_->armed;
  state_->callback = nullptr;
  state_->timer.cancel();
}

}  // namespace redsum
