// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "bench/echo.h"

namespace echo {
namespace {

// One worker's connection: a ring of `window` frames. A whole frame is sent back as it is; the window keeps the worker
// from sending more than there is room for.
class Connection {
 public:
  Connection(const Config& config, std::uint32_t lane, int fd)
      : config_(config),
        lane_(lane),
        fd_(fd),
        chunks_(chunks_of_lane(config, lane)),
        frame_bytes_(sizeof(Header) + config.chunk_bytes),
        ring_(frame_bytes_ * config.window),
        iovecs_(config.window) {}

  int fd() const { return fd_; }

  // False when the worker has closed.
  bool receive() {
    const std::size_t used = gather(received_, sent_.frame + config_.window);
    if (used == 0) die("a worker beyond its window");
    const ssize_t got = readv(fd_, iovecs_.data(), static_cast<int>(used));
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got < 0 && errno != ECONNRESET) die("readv");
    if (got <= 0) return false;
    advance(received_, static_cast<std::uint64_t>(got));
    return true;
  }

  // Sends what has arrived whole; true when something is left to send.
  bool send() {
    while (sent_.frame < received_.frame) {
      msghdr message{};
      message.msg_iov = iovecs_.data();
      message.msg_iovlen = gather(sent_, received_.frame);
      const ssize_t sent = sendmsg(fd_, &message, MSG_NOSIGNAL);
      if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return true;
      if (sent < 0) die("sendmsg");
      advance(sent_, static_cast<std::uint64_t>(sent));
    }
    return false;
  }

  bool watches_write = false;

 private:
  std::uint64_t bytes_of(std::uint64_t frame) const {
    return sizeof(Header) + payload_bytes(config_, lane_, frame % chunks_);
  }
  std::size_t gather(const Progress& from, std::uint64_t until) {
    std::size_t used = 0;
    std::uint64_t skip = from.partial;
    for (std::uint64_t frame = from.frame; frame < until; ++frame) {
      iovecs_[used++] = {ring_.data() + frame % config_.window * frame_bytes_ + skip, bytes_of(frame) - skip};
      skip = 0;
    }
    return used;
  }
  void advance(Progress& progress, std::uint64_t bytes) const {
    progress.partial += bytes;
    while (progress.partial >= bytes_of(progress.frame)) progress.partial -= bytes_of(progress.frame++);
  }

  const Config& config_;
  std::uint32_t lane_;
  int fd_;
  std::uint64_t chunks_;
  std::size_t frame_bytes_;
  std::vector<std::byte> ring_;
  std::vector<iovec> iovecs_;
  Progress received_, sent_;
};

void watch(int epoll, Connection& connection, bool write, int operation) {
  connection.watches_write = write;
  epoll_event event{};
  event.events = EPOLLIN | (write ? EPOLLOUT : 0u);
  event.data.ptr = &connection;
  if (epoll_ctl(epoll, operation, connection.fd(), &event) != 0) die("epoll_ctl");
}

}  // namespace

void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

void make_nonblocking(int fd, const Config& config) {
  const int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) die("TCP_NODELAY");
  const int bytes = static_cast<int>(config.socket_buffer_bytes);
  if (bytes > 0 && (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) != 0 ||
                    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) != 0)) {
    die("SO_SNDBUF");
  }
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) die("fcntl");
}

void serve(const Config& config, std::uint32_t lane, int listener) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) die("epoll_create1");
  if (chunks_of_lane(config, lane) == 0) return;
  std::vector<std::unique_ptr<Connection>> connections;
  for (std::uint32_t i = 0; i < config.workers; ++i) {
    const int fd = accept(listener, nullptr, nullptr);
    if (fd < 0) die("accept");
    make_nonblocking(fd, config);
    connections.push_back(std::make_unique<Connection>(config, lane, fd));
    watch(epoll, *connections.back(), false, EPOLL_CTL_ADD);
  }
  std::size_t open = connections.size();
  epoll_event events[64];
  while (open > 0) {
    const int ready = epoll_wait(epoll, events, 64, -1);
    if (ready < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < ready; ++i) {
      Connection& connection = *static_cast<Connection*>(events[i].data.ptr);
      if ((events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 && !connection.receive()) {
        close(connection.fd());
        --open;
        continue;
      }
      const bool write = connection.send();
      if (write != connection.watches_write) watch(epoll, connection, write, EPOLL_CTL_MOD);
    }
  }
}

}  // namespace echo
