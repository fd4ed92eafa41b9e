// SPDX-License-Identifier: Apache-2.0
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bench/echo.h"

namespace echo {

Worker::Worker(const Config& config, std::uint32_t rank, std::vector<int> lanes)
    : config_(config),
      rank_(rank),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      input_(config.bytes),
      output_(config.bytes),
      send_headers_(config.window),
      receive_headers_(config.window),
      iovecs_(2 * static_cast<std::size_t>(config.window)) {
  if (epoll_ < 0) die("epoll_create1");
  for (std::size_t i = 0; i < input_.size(); ++i) input_[i] = static_cast<std::byte>(i * 31 + (i >> 8) * 7 + rank);
  for (std::uint32_t i = 0; i < lanes.size(); ++i) {
    lanes_.push_back({lanes[i], i, chunks_of_lane(config, i), {}, {}, false});
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = i;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, lanes[i], &event) != 0) die("epoll_ctl");
  }
}

// The frames from `from` up to frame `until` as a gather list; the first may be half done.
std::size_t Worker::frames_to_iovec(Lane& lane, const Progress& from, std::uint64_t until, std::byte* memory,
                                    std::vector<Header>& headers, iovec* vector) {
  std::size_t used = 0;
  std::uint64_t skip = from.partial;
  for (std::uint64_t k = from.frame; k < until; ++k) {
    Header& header = headers[k - from.frame];
    const std::uint64_t bytes = payload_bytes(config_, lane.index, k);
    if (memory == input_.data()) header = {k * config_.servers + lane.index, bytes, {}};
    if (skip < sizeof header) {
      vector[used++] = {reinterpret_cast<std::byte*>(&header) + skip, sizeof header - skip};
      skip = 0;
    } else {
      skip -= sizeof header;
    }
    vector[used++] = {memory + chunk_offset(config_, lane.index, k) + skip, bytes - skip};
    skip = 0;
  }
  return used;
}

void Worker::advance(const Lane& lane, Progress& progress, std::uint64_t bytes) const {
  progress.partial += bytes;
  while (progress.frame < lane.chunks) {
    const std::uint64_t frame_bytes = sizeof(Header) + payload_bytes(config_, lane.index, progress.frame);
    if (progress.partial < frame_bytes) return;
    progress.partial -= frame_bytes;
    ++progress.frame;
  }
}

void Worker::watch(Lane& lane, bool write) {
  if (lane.wants_write == write) return;
  lane.wants_write = write;
  epoll_event event{};
  event.events = EPOLLIN | (write ? EPOLLOUT : 0u);
  event.data.u32 = lane.index;
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, lane.fd, &event) != 0) die("epoll_ctl");
}

void Worker::send_some(Lane& lane) {
  const std::uint64_t until = std::min(lane.chunks, lane.received.frame + config_.window);
  while (lane.sent.frame < until) {
    msghdr message{};
    message.msg_iov = iovecs_.data();
    message.msg_iovlen = frames_to_iovec(lane, lane.sent, until, input_.data(), send_headers_, iovecs_.data());
    const ssize_t sent = sendmsg(lane.fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return watch(lane, true);
    if (sent < 0) die("sendmsg");
    advance(lane, lane.sent, static_cast<std::uint64_t>(sent));
  }
  watch(lane, false);
}

void Worker::receive_some(Lane& lane) {
  const std::size_t used =
      frames_to_iovec(lane, lane.received, lane.sent.frame, output_.data(), receive_headers_, iovecs_.data());
  if (used == 0) die("an answer to nothing");
  const ssize_t got = readv(lane.fd, iovecs_.data(), static_cast<int>(used));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) die("readv");
  advance(lane, lane.received, static_cast<std::uint64_t>(got));
}

void Worker::run() {
  std::size_t open = 0;
  // As in redsum, rank r starts at another lane than its neighbours.
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = lanes_[(i + rank_ * lanes_.size() / config_.workers) % lanes_.size()];
    lane.sent = lane.received = {};
    if (lane.chunks > 0) ++open;
    send_some(lane);
  }
  epoll_event events[64];
  while (open > 0) {
    const int ready = epoll_wait(epoll_, events, 64, -1);
    if (ready < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < ready; ++i) {
      Lane& lane = lanes_[events[i].data.u32];
      if ((events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
        const bool was_open = lane.received.frame < lane.chunks;
        receive_some(lane);
        if (was_open && lane.received.frame == lane.chunks) --open;
      }
      send_some(lane);
    }
  }
}

bool Worker::verify() const {
  return input_ == output_;
}
void Worker::poison() {
  std::fill(output_.begin(), output_.end(), std::byte{0xA5});
}

}  // namespace echo
