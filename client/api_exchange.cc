// SPDX-License-Identifier: Apache-2.0
// The C interface: what goes from worker to worker.
#include <memory>

#include "client/api.h"
#include "client/call_arguments.h"
#include "client/exchange_arguments.h"

using namespace redsum;
using client::ExchangeArguments;
using client::guarded;
using client::invalid;

namespace {

// `fill` turns the arguments into the call's parts.
template <typename Fill>
Status start(redsum_comm* comm, wire::Kind kind, redsum_dtype dtype, std::int32_t peer, const char* peer_name,
             ExchangeArguments given, const redsum_call_options* options, redsum_handle** handle, Fill fill) {
  auto call = client::begin_call(comm, handle, kind, dtype, REDSUM_SUM, options);
  if (!call) return call.error();
  const auto rank = client::rank_of(*comm, peer_name, peer);
  if (!rank) return rank.error();
  given.peer = *rank;
  const auto members = static_cast<std::uint32_t>(comm->members.size());
  REDSUM_RETURN_IF_ERROR(fill(given, comm->rank, members, **call));
  return client::submit(*comm, std::move(*call), handle);
}

}  // namespace

extern "C" {

redsum_status redsum_all_to_all(redsum_comm* comm, const void* input, void* output, uint64_t count, redsum_dtype dtype,
                                const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, wire::Kind::all_to_all, dtype, 0, "", {input, output, count}, options, handle,
                 client::fill_all_to_all);
  });
}

redsum_status redsum_all_to_all_v(redsum_comm* comm, const void* input, const uint64_t* input_counts, void* output,
                                  const uint64_t* output_counts, redsum_dtype dtype, const redsum_call_options* options,
                                  redsum_handle** handle) {
  return guarded([&]() -> Status {
    if (!input_counts || !output_counts) return invalid("input_counts and output_counts must not be NULL");
    return start(comm, wire::Kind::all_to_all, dtype, 0, "", {input, output, 0, input_counts, output_counts}, options,
                 handle, client::fill_all_to_all);
  });
}

redsum_status redsum_gather(redsum_comm* comm, const void* input, void* output, uint64_t count, redsum_dtype dtype,
                            int32_t root, const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, wire::Kind::gather, dtype, root, "root", {input, output, count}, options, handle,
                 client::fill_gather);
  });
}

redsum_status redsum_scatter(redsum_comm* comm, const void* input, void* output, uint64_t count, redsum_dtype dtype,
                             int32_t root, const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, wire::Kind::scatter, dtype, root, "root", {input, output, count}, options, handle,
                 client::fill_scatter);
  });
}

redsum_status redsum_send(redsum_comm* comm, const void* input, uint64_t count, redsum_dtype dtype, int32_t to,
                          const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, wire::Kind::send, dtype, to, "to", {input, nullptr, count}, options, handle, client::fill_send);
  });
}

redsum_status redsum_recv(redsum_comm* comm, void* output, uint64_t count, redsum_dtype dtype, int32_t from,
                          const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, wire::Kind::send, dtype, from, "from", {nullptr, output, count}, options, handle,
                 client::fill_receive);
  });
}

}  // extern "C"
