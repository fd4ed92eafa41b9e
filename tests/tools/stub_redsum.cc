// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/stub_redsum.h"

#include <cstring>

struct redsum_comm {
  int members;
};
struct redsum_handle {
  bool waited = false;
};

namespace stub {
State state;
}

using stub::state;

namespace {
redsum_status give_handle(redsum_handle** handle, const redsum_call_options* options) {
  state.last_call = *options;
  state.last_key = options->key != nullptr ? options->key : "";
  if (state.submit_status != REDSUM_OK) return state.submit_status;
  ++state.live_handles;
  *handle = new redsum_handle;
  return REDSUM_OK;
}
}  // namespace

extern "C" {
const char* redsum_status_name(redsum_status status) {
  return status == REDSUM_TIMEOUT ? "timeout" : "mismatch";
}
const char* redsum_last_error(void) {
  return "text of the last error";
}
void redsum_options_init_sized(redsum_options* options, size_t) {
  std::memset(options, 0, sizeof *options);
  options->struct_bytes = sizeof *options;
  options->coordinator = "from-environment:7400";
  options->rank = 2;
  options->world_size = 5;
  options->connect_timeout_ns = 60'000'000'000;
  options->mode = state.mode;
  options->ring_order = state.ring_order;
}
void redsum_call_options_init_sized(redsum_call_options* options, size_t) {
  std::memset(options, 0, sizeof *options);
  options->struct_bytes = sizeof *options;
}
redsum_status redsum_init(const redsum_options* options, redsum_comm** world) {
  state.coordinator = options->coordinator;
  state.connect_timeout_ns = options->connect_timeout_ns;
  state.last_mode = options->mode;
  state.last_ring_order = options->ring_order;
  if (state.submit_status != REDSUM_OK) return state.submit_status;
  ++state.live_comms;
  *world = new redsum_comm{options->world_size};
  return REDSUM_OK;
}
redsum_status redsum_comm_create(redsum_comm*, const int32_t*, size_t count, redsum_comm** comm) {
  ++state.live_comms;
  *comm = new redsum_comm{static_cast<int>(count)};
  return REDSUM_OK;
}
redsum_status redsum_comm_close(redsum_comm* comm) {
  if (comm != nullptr) --state.live_comms;
  delete comm;
  return state.close_status;
}
int32_t redsum_comm_rank(const redsum_comm*) {
  return 2;
}
int32_t redsum_comm_size(const redsum_comm* comm) {
  return comm->members;
}
redsum_status redsum_stats(redsum_comm*, redsum_statistics* statistics) {
  if (statistics->struct_bytes != sizeof *statistics) return REDSUM_INVALID_ARGUMENT;
  statistics->reducers = 7;
  return REDSUM_OK;
}
redsum_status redsum_allreduce(redsum_comm*, const redsum_tensor* tensors, size_t count, redsum_dtype dtype,
                               redsum_op op, const redsum_call_options* options, redsum_handle** handle) {
  state.tensors.assign(tensors, tensors + count);
  state.dtype = dtype;
  state.op = op;
  return give_handle(handle, options);
}
redsum_status redsum_broadcast(redsum_comm*, const redsum_tensor* tensors, size_t count, redsum_dtype dtype,
                               int32_t root, const redsum_call_options* options, redsum_handle** handle) {
  state.tensors.assign(tensors, tensors + count);
  state.dtype = dtype;
  state.root = root;
  return give_handle(handle, options);
}
redsum_status redsum_reduce_scatter(redsum_comm*, const void* input, void* output, uint64_t count, redsum_dtype dtype,
                                    redsum_op op, const redsum_call_options* options, redsum_handle** handle) {
  state.tensors = {{input, output, count}};
  state.dtype = dtype;
  state.op = op;
  return give_handle(handle, options);
}
redsum_status redsum_reduce_scatter_v(redsum_comm* comm, const void* input, void* output, const uint64_t* counts,
                                      redsum_dtype dtype, redsum_op op, const redsum_call_options* options,
                                      redsum_handle** handle) {
  return redsum_reduce_scatter(comm, input, output, counts[2], dtype, op, options, handle);
}
redsum_status redsum_all_gather(redsum_comm*, const void* input, void* output, uint64_t count, redsum_dtype dtype,
                                const redsum_call_options* options, redsum_handle** handle) {
  state.tensors = {{input, output, count}};
  state.dtype = dtype;
  return give_handle(handle, options);
}
redsum_status redsum_all_gather_v(redsum_comm* comm, const void* input, void* output, const uint64_t* counts,
                                  redsum_dtype dtype, const redsum_call_options* options, redsum_handle** handle) {
  return redsum_all_gather(comm, input, output, counts[2], dtype, options, handle);
}
redsum_status redsum_barrier(redsum_comm*, const redsum_call_options* options, redsum_handle** handle) {
  return give_handle(handle, options);
}
redsum_status redsum_wait(redsum_handle* handle, int64_t timeout_ns) {
  state.last_wait_ns = timeout_ns;
  if (!state.complete && timeout_ns >= 0) return REDSUM_TIMEOUT;
  handle->waited = true;
  ++state.waits;
  return state.call_status;
}
int redsum_test(const redsum_handle*) {
  return state.complete ? 1 : 0;
}
redsum_status redsum_on_complete(redsum_handle*, redsum_callback callback, void* user) {
  if (state.submit_status != REDSUM_OK) return state.submit_status;
  callback(user, state.call_status);
  return REDSUM_OK;
}
const char* redsum_handle_error(const redsum_handle*) {
  return state.call_status == REDSUM_OK ? "" : "text of the handle";
}
uint64_t redsum_handle_sequence(const redsum_handle*) {
  return 41;
}
uint32_t redsum_handle_contributors(const redsum_handle*) {
  return 5;
}
void redsum_handle_free(redsum_handle* handle) {
  if (handle != nullptr) --state.live_handles;
  delete handle;
}
}
