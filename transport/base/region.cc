// SPDX-License-Identifier: Apache-2.0
#include "transport/base/region.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace redsum {

Region::~Region() {
  if (data_) ::munmap(data_, bytes_);
}

Region::Region(Region&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Result<Region> Region::reserve(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  Region region;
  const std::size_t rounded = (bytes + page - 1) / page * page;
  if (rounded < bytes)
    return failure(Code::resource_exhausted,
                   "a region of " + std::to_string(bytes) + " bytes is beyond the address space");
  if (rounded == 0) return region;
  void* at = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return failure(Code::resource_exhausted, "cannot reserve " + std::to_string(rounded) +
                                                 " bytes of address space: " + std::strerror(errno) +
                                                 "; lower the memory budget or raise the limit (ulimit -v)");
  region.data_ = static_cast<std::byte*>(at);
  region.bytes_ = rounded;
  return region;
}

void Region::give_back() noexcept {
  if (data_) ::madvise(data_, bytes_, MADV_DONTNEED);
}

}  // namespace redsum
