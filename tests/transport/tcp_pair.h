// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>

namespace redsum::test {

// Two connected, non-blocking TCP sockets over loopback; socket buffers of `buffer_bytes` where it is not 0.
std::pair<int, int> connected_pair(int buffer_bytes = 0);

}  // namespace redsum::test
