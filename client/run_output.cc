// SPDX-License-Identifier: Apache-2.0
#include "client/run_output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace redsum::run {

void OutputQueue::push(int fd, std::string text) {
  if (closed_[fd]) return;
  bytes_ += text.size();
  queue_.push_back({fd, std::move(text), 0});
}

bool OutputQueue::write_some() {
  constexpr std::size_t kPieceBytes = 4096;  // a pipe that polls writable has room for a page
  Entry& entry = queue_.front();
  const std::size_t piece = std::min(kPieceBytes, entry.text.size() - entry.written);
  const ssize_t written = ::write(entry.fd, entry.text.data() + entry.written, piece);
  if (written < 0) {
    if (errno == EAGAIN || errno == EINTR) return true;
    closed_[entry.fd] = true;
    std::erase_if(queue_, [fd = entry.fd](const Entry& other) { return other.fd == fd; });
    bytes_ = 0;
    for (const Entry& other : queue_) bytes_ += other.text.size() - other.written;
    return false;
  }
  bytes_ -= static_cast<std::size_t>(written);
  entry.written += static_cast<std::size_t>(written);
  if (entry.written == entry.text.size()) queue_.pop_front();
  return true;
}

LineReader::LineReader(LineReader&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), on_line_(std::move(other.on_line_)), partial_(std::move(other.partial_)) {}

LineReader::~LineReader() {
  if (fd_ >= 0) ::close(fd_);
}

void LineReader::end_line() {
  on_line_(partial_);
  partial_.clear();
}

bool LineReader::read_once() {
  char buffer[65536];
  const ssize_t got = ::read(fd_, buffer, sizeof buffer);
  if (got < 0) return errno == EINTR;
  if (got == 0) {
    if (!partial_.empty()) end_line();
    ::close(std::exchange(fd_, -1));
    return false;
  }
  std::string_view text(buffer, static_cast<std::size_t>(got));
  for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
    partial_ += text.substr(0, end);
    end_line();
  }
  partial_ += text;
  if (partial_.size() > kMaxLineBytes) end_line();
  return true;
}

void LineReader::read_some() {
  if (fd_ >= 0) (void)read_once();
}

void LineReader::drain() {
  while (fd_ >= 0 && read_once()) {
  }
  if (!partial_.empty()) end_line();
}

}  // namespace redsum::run
