// SPDX-License-Identifier: Apache-2.0
// How a worker goes: its communicators are closed, and what others may still need of it stays for a while.
#include <cstdlib>
#include <utility>

#include "client/job.h"

namespace redsum::client {
namespace {

constexpr DurationNs kAtOnce = 20 * kMillisecond;  // usually all ranks leave together

const Status& pending_call() {
  static const Status status(Code::closed, "the communicator was closed while the call was pending");
  return status;
}

class Lingering {
 public:
  static Lingering& instance() {
    // Never destroyed: a job's threads may outlive static objects; at_exit() waits for them.
    static Lingering* const lingering = [] {
      std::atexit([] { instance().wait_for_all(); });
      return new Lingering;
    }();
    return *lingering;
  }

  void add(std::shared_ptr<Job> job) {
    std::lock_guard lock(mutex_);
    std::erase_if(jobs_, [](const auto& one) { return one->wait_over(0); });
    if (job) jobs_.push_back(std::move(job));
  }

 private:
  void wait_for_all() {
    std::lock_guard lock(mutex_);
    for (const auto& job : jobs_) (void)job->wait_over(job->options().operation_timeout);
    jobs_.clear();
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Job>> jobs_;
};

}  // namespace

void stay_until_over(std::shared_ptr<Job> job) {
  if (job->wait_over(kAtOnce)) job.reset();
  Lingering::instance().add(std::move(job));
}

void Job::close_communicator(CommunicatorId id, Epoch began, std::uint64_t calls) {
  if (began.value != began_) return;  // it went with its membership
  progress_thread_.call([&] { worker_.progress.retire(id, pending_call()); });
  loop_.post([this, id, calls] { send(wire::CloseCommunicator{"", id.value, calls}); });
  std::lock_guard lock(closed_mutex_);
  closed_.erase(id);
}

void Job::leave(std::uint64_t calls) {
  // Communicators that are still open end with the job: a call that waits in one of them would wait for its limit.
  bool needed = false;
  progress_thread_.call([&] {
    worker_.progress.leave(pending_call(), {Code::closed, "the job was left: its world communicator was closed"});
    needed = worker_.progress.may_be_needed();
  });
  loop_.post([this, calls] { send(wire::Leave{calls}); });
  // Results of this worker's reducer may still be on their way to the others.
  if (OwnReducer* own = own_; own && !ended_) own->wait_until_idle(options_.operation_timeout);
  if (!needed) set_over();
}

void Job::set_over() {
  std::lock_guard lock(over_mutex_);
  over_ = true;
  over_changed_.notify_all();
}

bool Job::wait_over(DurationNs limit) const {
  std::unique_lock lock(over_mutex_);
  return over_changed_.wait_for(lock, std::chrono::nanoseconds(limit), [this] { return over_; });
}

}  // namespace redsum::client
