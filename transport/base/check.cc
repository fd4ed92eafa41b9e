// SPDX-License-Identifier: Apache-2.0
#include "transport/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace redsum {
namespace {
std::atomic<CheckHook> hook{nullptr};
}

void set_check_hook(CheckHook new_hook) noexcept {
  hook.store(new_hook);
}

void check_failed(const char* expression, const char* file, int line) noexcept {
  char text[512];
  std::snprintf(text, sizeof text, "redsum: internal error: %s does not hold at %s:%d; please report it", expression,
                file, line);
  std::fprintf(stderr, "%s\n", text);
  if (CheckHook h = hook.exchange(nullptr)) h(text);
  std::abort();
}

}  // namespace redsum
