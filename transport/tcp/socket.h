// SPDX-License-Identifier: Apache-2.0
// Owner of one connected, non-blocking TCP descriptor, on its way from one thread or event loop to another.
#pragma once
#include <string>
#include <utility>

namespace redsum::tcp {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {}
  ~Socket() { reset(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      reset();
      descriptor_ = std::exchange(other.descriptor_, -1);
    }
    return *this;
  }

  int descriptor() const noexcept { return descriptor_; }
  int release() noexcept { return std::exchange(descriptor_, -1); }
  explicit operator bool() const noexcept { return descriptor_ >= 0; }

 private:
  void reset() noexcept;  // socket.cc
  int descriptor_ = -1;
};

std::string errno_text(int error);  // "Connection refused (111)"

}  // namespace redsum::tcp
