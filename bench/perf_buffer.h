// SPDX-License-Identifier: Apache-2.0
// A page-aligned buffer that is not zeroed on purpose.
#pragma once
#include <cstddef>
#include <memory>
#include <new>

namespace perf {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t bytes) : memory_(static_cast<std::byte*>(::operator new(bytes + 1, kAlignment))) {}
  std::byte* data() const noexcept { return memory_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::byte* memory) const noexcept { ::operator delete(memory, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace perf
