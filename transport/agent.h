// SPDX-License-Identifier: Apache-2.0
// One thread, one loop, one transport, one agent: how shards and workers' data paths run. The thread turns while there
// is work, then arms the transport, looks once more and sleeps until something arrives or the agent's next deadline.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "transport/base/time.h"
#include "transport/loop/loop.h"
#include "transport/transport.h"

namespace redsum {

class Agent {
 public:
  virtual ~Agent() = default;
  virtual std::size_t do_work(TimeNs now) = 0;  // a bounded piece; returns how much it did, 0: nothing to do now
  virtual TimeNs next_deadline() const = 0;     // when do_work() wants to be called although nothing arrives
};

class AgentThread {
 public:
  explicit AgentThread(std::string name);  // at most 15 characters, as the system shows it
  ~AgentThread();                          // stop()
  Loop& loop() { return loop_; }

  // Both stay valid until stop() has returned.
  void start(transport::Transport& transport, Agent& agent);
  void stop();  // joins; what was posted before is carried out first
  // Runs `work` on the thread and waits for it. Not from the thread itself.
  void call(const std::function<void()>& work);

  DurationNs busy_ns() const { return busy_ns_.load(std::memory_order_relaxed); }  // not asleep
  TimeNs last_turn() const { return last_turn_.load(std::memory_order_relaxed); }
  bool asleep() const { return asleep_.load(std::memory_order_relaxed); }

 private:
  void run(transport::Transport& transport, Agent& agent);

  const std::string name_;
  Loop loop_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<DurationNs> busy_ns_{0};
  std::atomic<TimeNs> last_turn_{0};
  std::atomic<bool> asleep_{false};
};

}  // namespace redsum
