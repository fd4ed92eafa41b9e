// SPDX-License-Identifier: Apache-2.0
#include "tests/transport/tcp_pair.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/base/check.h"

namespace redsum::test {

std::pair<int, int> connected_pair(int buffer_bytes) {
  sigset_t all, before;  // a signal must not end the blocking calls below
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int left = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (buffer_bytes != 0) {  // before connect, so that the window follows; an accepted socket inherits
    for (const int s : {listener, left}) {
      ::setsockopt(s, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
      ::setsockopt(s, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    }
  }
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  REDSUM_CHECK(::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 && ::listen(listener, 1) == 0);
  REDSUM_CHECK(::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &bytes) == 0);
  REDSUM_CHECK(::connect(left, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  const int right = ::accept(listener, nullptr, nullptr);
  REDSUM_CHECK(right >= 0);
  ::close(listener);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  const int on = 1;
  for (const int s : {left, right}) {
    ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(s, F_SETFL, ::fcntl(s, F_GETFL) | O_NONBLOCK);
  }
  return {left, right};
}

}  // namespace redsum::test
