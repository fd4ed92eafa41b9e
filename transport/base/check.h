// SPDX-License-Identifier: Apache-2.0
// REDSUM_CHECK: for what is impossible unless redsum itself is wrong. On in release builds. No byte from a peer, no
// argument of a user may reach one: those are Status values.
#pragma once
#include <string_view>

namespace redsum {

// Called once before the process ends because of a failed check; a daemon sets it to dump its last events.
using CheckHook = void (*)(std::string_view what) noexcept;
void set_check_hook(CheckHook hook) noexcept;
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;

}  // namespace redsum

#define REDSUM_CHECK(condition)                               \
  do {                                                        \
    if (!(condition)) [[unlikely]]                            \
      ::redsum::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
