// SPDX-License-Identifier: Apache-2.0
// The keys of a communicator's calls on this rank: a key names one call at a time. It is in use from the submission
// until the caller has seen the end of the call or dropped its handle, not until the call is complete: what the caller
// does is the same on every rank, when a call completes is not, and a call that some ranks refuse and others submit
// would leave them out of step. Any thread.
#pragma once
#include <mutex>
#include <set>
#include <string>

namespace redsum::client {

class KeysInUse {
 public:
  bool take(const std::string& key) {  // false: it is in use
    std::lock_guard lock(mutex_);
    return keys_.insert(key).second;
  }
  void give(const std::string& key) {
    std::lock_guard lock(mutex_);
    keys_.erase(key);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> keys_;
};

}  // namespace redsum::client
