// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/socket.h"

#include <unistd.h>

#include <system_error>

namespace redsum::tcp {

void Socket::reset() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

std::string errno_text(int error) {
  return std::generic_category().message(error) + " (" + std::to_string(error) + ")";
}

}  // namespace redsum::tcp
