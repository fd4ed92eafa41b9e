// SPDX-License-Identifier: Apache-2.0
// A Region is address space reserved up front and backed by memory at first touch: many idle communicators cost little.
#pragma once
#include <cstddef>

#include "transport/base/status.h"
#include "transport/base/types.h"

namespace redsum {

// Movable owner of an anonymous, page-aligned mapping. One thread uses it at a time.
class Region {
 public:
  Region() = default;
  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;

  // Reserves `bytes` (rounded up to pages). No page is touched. resource_exhausted when the address space is refused.
  static Result<Region> reserve(std::size_t bytes);

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Bytes slice(std::size_t offset, std::size_t length) const noexcept { return {data_ + offset, length}; }

  // Gives the pages back to the system; the next touch finds zeros. The contents are lost.
  void give_back() noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace redsum
