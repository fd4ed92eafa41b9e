// SPDX-License-Identifier: Apache-2.0
#include "client/overlap.h"

#include <algorithm>

namespace redsum::client {

std::optional<Overlap> find_overlap(std::span<Extent> extents) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  // Of those that begin earlier, the one that reaches furthest, and the furthest of those that are written.
  const Extent *any = nullptr, *written = nullptr;
  const auto end = [](const Extent* extent) { return extent->begin + extent->bytes; };
  for (const Extent& extent : extents) {
    const Extent* before = extent.written ? any : written;
    if (before && end(before) > extent.begin)
      return Overlap{std::max(before->piece, extent.piece), std::min(before->piece, extent.piece)};
    if (!any || end(&extent) > end(any)) any = &extent;
    if (extent.written && (!written || end(&extent) > end(written))) written = &extent;
  }
  return std::nullopt;
}

}  // namespace redsum::client
