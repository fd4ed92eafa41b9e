// SPDX-License-Identifier: Apache-2.0
#include "transport/agent.h"

#include <future>

#include "transport/base/thread.h"

namespace redsum {

AgentThread::AgentThread(std::string name) : name_(std::move(name)) {}

AgentThread::~AgentThread() {
  stop();
}

void AgentThread::start(transport::Transport& transport, Agent& agent) {
  thread_ = start_thread(name_, [this, &transport, &agent] { run(transport, agent); });
}

void AgentThread::stop() {
  if (!thread_.joinable()) return;
  loop_.post([this] { stopping_.store(true, std::memory_order_relaxed); });
  thread_.join();
}

void AgentThread::call(const std::function<void()>& work) {
  std::promise<void> done;
  loop_.post([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

void AgentThread::run(transport::Transport& transport, Agent& agent) {
  TimeNs awake_since = monotonic_now();
  while (!stopping_.load(std::memory_order_relaxed)) {
    std::size_t work = loop_.poll();
    work += transport.poll();
    const TimeNs now = monotonic_now();
    last_turn_.store(now, std::memory_order_relaxed);
    work += agent.do_work(now);
    if (work != 0 || !transport.arm()) continue;
    busy_ns_.fetch_add(now - awake_since, std::memory_order_relaxed);
    asleep_.store(true, std::memory_order_relaxed);
    loop_.wait_until(agent.next_deadline());
    asleep_.store(false, std::memory_order_relaxed);
    awake_since = monotonic_now();
  }
}

}  // namespace redsum
