// SPDX-License-Identifier: Apache-2.0
// The event loop of one thread: an io_context(1) with what every agent needs around it. Boost stays behind this header.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include "transport/base/time.h"

namespace boost::asio {
class io_context;
}

namespace redsum {

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;

  // -- the owning thread
  std::size_t poll();  // runs what is ready, returns the number of handlers run; never sleeps
  void wait_until(
      TimeNs deadline);  // sleeps until something ran, wake() was called or the deadline passed (kNever: none)
  void run();            // poll and sleep until stop(); for control threads
  boost::asio::io_context& io();

  // -- any thread
  void post(std::function<void()> work);  // runs on the owning thread; costs an allocation, so not for the data path
  void wake();  // makes a wait_until() that runs now, or the next one, return; cheap when awake
  void stop();  // makes run() return, after what is queued

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Calls back once at a time on the loop's thread. Destroying or re-arming it cancels the earlier call.
class Timer {
 public:
  explicit Timer(Loop& loop);
  ~Timer();
  void at(TimeNs when, std::function<void()> callback);
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace redsum
