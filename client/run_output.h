// SPDX-License-Identifier: Apache-2.0
// Lines of many processes into one stdout and one stderr: whole lines only, in the order of arrival, without ever
// blocking the launcher. Not thread safe; the launcher has one thread.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

namespace redsum::run {

// What waits to be written. A reader that is slow slows the workers, not the launcher: see full().
class OutputQueue {
 public:
  void push(int fd, std::string text);  // `text` ends with a newline
  bool empty() const { return queue_.empty(); }
  bool full() const { return bytes_ > kMaxBytes; }  // read nothing more from the workers for now
  int blocked_fd() const { return queue_.empty() ? -1 : queue_.front().fd; }  // to poll for POLLOUT
  // Writes a piece to a descriptor that poll() found writable; so short a piece does not block. False: the reader is
  // gone, and what was meant for it has been dropped.
  bool write_some();

 private:
  static constexpr std::size_t kMaxBytes = 4u << 20;
  struct Entry {
    int fd;
    std::string text;
    std::size_t written;
  };
  std::deque<Entry> queue_;
  std::size_t bytes_ = 0;
  bool closed_[3] = {};  // stdout, stderr: nobody reads it any more
};

// Cuts what comes out of a pipe into lines.
class LineReader {
 public:
  using OnLine = std::function<void(std::string_view line)>;  // without the newline
  LineReader() = default;
  LineReader(int fd, OnLine on_line) : fd_(fd), on_line_(std::move(on_line)) {}  // a non-blocking descriptor, owned
  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&&) = delete;
  ~LineReader();
  int fd() const { return fd_; }  // -1 once closed
  void read_some();               // one read(2)
  void drain();                   // everything that is there now; a last line without a newline counts
 private:
  static constexpr std::size_t kMaxLineBytes = 1u << 20;  // a longer line is cut
  bool read_once();
  void end_line();
  int fd_ = -1;
  OnLine on_line_;
  std::string partial_;
};

}  // namespace redsum::run
