// SPDX-License-Identifier: Apache-2.0
// What a peer did wrong, as text: the field, its value and its limit. Not on the fast path.
#pragma once
#include <cstdint>
#include <string_view>

#include "transport/base/status.h"
#include "transport/wire/header.h"

namespace redsum::wire {

Status violation(std::string_view field, std::uint64_t value, std::string_view limit);
Status violation(const Header& header, std::string_view field);  // `field`: what check_header() returned

}  // namespace redsum::wire
