// SPDX-License-Identifier: Apache-2.0
// Control messages: whatever decode() takes can be sent on and means the same.
#include "transport/wire/control.h"

#include <cstddef>
#include <cstdint>

#include "transport/base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redsum;
  const Result<wire::Message> message = wire::decode({reinterpret_cast<const char*>(data), size});
  if (!message) {
    REDSUM_CHECK(!message.error().text().empty());
    return 0;
  }
  const std::string text = wire::encode(*message);
  const Result<wire::Message> again = wire::decode(text);
  REDSUM_CHECK(again.has_value() && again->index() == message->index());
  REDSUM_CHECK(wire::encode(*again) == text);
  return 0;
}
