// SPDX-License-Identifier: Apache-2.0
// Threads of the library: named, and deaf to signals, because the host program's handlers must not run on them.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <string>
#include <thread>
#include <utility>

namespace redsum {

// `name`: at most 15 characters, as the system shows it.
template <typename Body>
std::thread start_thread(std::string name, Body body) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([name = name.substr(0, 15), body = std::move(body)]() mutable {
    ::pthread_setname_np(::pthread_self(), name.c_str());
    body();
  });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace redsum
