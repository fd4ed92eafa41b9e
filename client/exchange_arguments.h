// SPDX-License-Identifier: Apache-2.0
// From the arguments of an exchange to a Call that can be submitted: what is sent to whom, what is wanted from whom.
#pragma once
#include <cstdint>

#include "client/call.h"
#include "transport/base/status.h"

namespace redsum::client {

// An exchange as a caller asks for it. The call's description has its kind and dtype already.
struct ExchangeArguments {
  const void* input = nullptr;
  void* output = nullptr;
  std::uint64_t count = 0;                      // elements for each rank; of a send or receive: of it
  const std::uint64_t* input_counts = nullptr;  // all_to_all: elements for each rank, one after another; nullptr: count
  const std::uint64_t* output_counts = nullptr;  // of each rank
  std::uint32_t peer = 0;                        // gather, scatter: the root; send: to; receive: from
};
Status fill_all_to_all(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t members, Call& call);
Status fill_gather(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t members, Call& call);
Status fill_scatter(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t members, Call& call);
Status fill_send(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t members, Call& call);
Status fill_receive(const ExchangeArguments& given, std::uint32_t rank, std::uint32_t members, Call& call);

}  // namespace redsum::client
