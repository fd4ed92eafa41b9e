// SPDX-License-Identifier: Apache-2.0
// The C interface: collectives and their handles. Arguments are checked and turned into calls.
#include <memory>

#include "client/api.h"
#include "client/call_arguments.h"
#include "transport/base/time.h"

using namespace redsum;
using client::Call;
using client::CallPtr;
using client::check_kind;
using client::fill_tensors;
using client::guarded;
using client::invalid;
using client::options_or_default;

namespace redsum::client {

Status submit(redsum_comm& comm, CallPtr call, redsum_handle** handle) {
  REDSUM_RETURN_IF_ERROR(comm.job->route(comm.members, call->description));
  REDSUM_RETURN_IF_ERROR(comm.job->closed(comm.id, comm.began));
  const std::string& key = call->description.key;
  if (!key.empty() && !comm.keys->take(key))
    return invalid("key '" + key + "' belongs to an earlier call of this rank and cannot name this one too (" +
                   call->description.to_string() + "); wait for the earlier call or free its handle first");
  auto owner = std::make_unique<redsum_handle>(call, key.empty() ? nullptr : comm.keys);
  std::lock_guard lock(comm.mutex);
  comm.forget_completed();
  call->sequence = call->description.kind == wire::Kind::send ? kOwnSequences | comm.next_own++ : comm.next_sequence++;
  call->submitted = monotonic_now();
  call->deadline = call->submitted + call->timeout;
  comm.pending.push_back(call);
  comm.job->submit(comm.id, std::move(call));
  *handle = owner.release();
  return {};
}

Result<CallPtr> begin_call(const redsum_comm* comm, redsum_handle** handle, wire::Kind kind, redsum_dtype dtype,
                           redsum_op op, const redsum_call_options* options) {
  if (!comm || !handle) return failure(invalid("comm and handle must not be NULL"));
  if (Status status = check_kind(dtype, op); !status) return failure(std::move(status));
  auto call = std::make_shared<Call>();
  call->description.kind = kind;
  call->description.dtype = static_cast<DType>(dtype);
  call->description.op = static_cast<Op>(op);
  if (Status status = fill_options(options_or_default(options), comm->job->options().operation_timeout, *call); !status)
    return failure(std::move(status));
  return call;
}

Result<std::uint32_t> rank_of(const redsum_comm& comm, const char* name, std::int32_t rank) {
  if (rank < 0 || static_cast<std::size_t>(rank) >= comm.members.size())
    return failure(invalid(std::string(name) + " is " + std::to_string(rank) + "; expected 0 to " +
                           std::to_string(comm.members.size() - 1)));
  return static_cast<std::uint32_t>(rank);
}

}  // namespace redsum::client

namespace {

// One collective as a caller asks for it.
struct Request {
  wire::Kind kind;
  redsum_dtype dtype;
  redsum_op op;
  std::int32_t root = 0;                   // broadcast, reduce
  const redsum_tensor* tensors = nullptr;  // of those without parts
  std::size_t tensor_count = 0;
  client::PartsArguments parts{};  // reduce_scatter, all_gather
};

Status start(redsum_comm* comm, const Request& request, const redsum_call_options* options, redsum_handle** handle) {
  auto begun = client::begin_call(comm, handle, request.kind, request.dtype, request.op, options);
  if (!begun) return begun.error();
  const auto root = client::rank_of(*comm, "root", request.root);
  if (!root) return root.error();
  CallPtr call = std::move(*begun);
  call->description.root = *root;
  const bool is_root = *root == comm->rank;
  if (wire::has_parts(request.kind)) {
    const auto members = static_cast<std::uint32_t>(comm->members.size());
    REDSUM_RETURN_IF_ERROR(client::fill_parts(request.parts, comm->rank, members, *call));
    return submit(*comm, std::move(call), handle);
  }
  const bool reads = request.kind != wire::Kind::broadcast || is_root;
  const bool writes = request.kind == wire::Kind::broadcast ? !is_root : request.kind != wire::Kind::reduce || is_root;
  REDSUM_RETURN_IF_ERROR(fill_tensors(request.tensors, request.tensor_count, reads, writes, *call));
  return submit(*comm, std::move(call), handle);
}

}  // namespace

extern "C" {

redsum_status redsum_allreduce(redsum_comm* comm, const redsum_tensor* tensors, size_t tensor_count, redsum_dtype dtype,
                               redsum_op op, const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, {wire::Kind::allreduce, dtype, op, 0, tensors, tensor_count}, options, handle);
  });
}

redsum_status redsum_reduce(redsum_comm* comm, const redsum_tensor* tensors, size_t tensor_count, redsum_dtype dtype,
                            redsum_op op, int32_t root, const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, {wire::Kind::reduce, dtype, op, root, tensors, tensor_count}, options, handle);
  });
}

redsum_status redsum_broadcast(redsum_comm* comm, const redsum_tensor* tensors, size_t tensor_count, redsum_dtype dtype,
                               int32_t root, const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, {wire::Kind::broadcast, dtype, REDSUM_SUM, root, tensors, tensor_count}, options, handle);
  });
}

redsum_status redsum_reduce_scatter(redsum_comm* comm, const void* input, void* output, uint64_t count,
                                    redsum_dtype dtype, redsum_op op, const redsum_call_options* options,
                                    redsum_handle** handle) {
  return guarded([&] {
    return start(comm, {.kind = wire::Kind::reduce_scatter, .dtype = dtype, .op = op, .parts = {input, output, count}},
                 options, handle);
  });
}

redsum_status redsum_reduce_scatter_v(redsum_comm* comm, const void* input, void* output, const uint64_t* counts,
                                      redsum_dtype dtype, redsum_op op, const redsum_call_options* options,
                                      redsum_handle** handle) {
  return guarded([&]() -> Status {
    if (!counts) return invalid("counts is NULL");
    return start(comm,
                 {.kind = wire::Kind::reduce_scatter, .dtype = dtype, .op = op, .parts = {input, output, 0, counts}},
                 options, handle);
  });
}

redsum_status redsum_all_gather(redsum_comm* comm, const void* input, void* output, uint64_t count, redsum_dtype dtype,
                                const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm,
                 {.kind = wire::Kind::all_gather, .dtype = dtype, .op = REDSUM_SUM, .parts = {input, output, count}},
                 options, handle);
  });
}

redsum_status redsum_all_gather_v(redsum_comm* comm, const void* input, void* output, const uint64_t* counts,
                                  redsum_dtype dtype, const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&]() -> Status {
    if (!counts) return invalid("counts is NULL");
    return start(
        comm, {.kind = wire::Kind::all_gather, .dtype = dtype, .op = REDSUM_SUM, .parts = {input, output, 0, counts}},
        options, handle);
  });
}

redsum_status redsum_barrier(redsum_comm* comm, const redsum_call_options* options, redsum_handle** handle) {
  return guarded([&] {
    return start(comm, {wire::Kind::barrier, REDSUM_UINT8, REDSUM_SUM, 0, nullptr, 0}, options, handle);
  });
}

redsum_status redsum_wait(redsum_handle* handle, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    if (!handle) return invalid("handle is NULL");
    // The library ends every call by its own deadline; the margin is for a progress thread that is late.
    const TimeNs limit = timeout_ns < 0 ? kNever : monotonic_now() + timeout_ns;
    if (!handle->call->wait_until(limit))
      return {Code::timeout,
              "the call is not complete after the " + std::to_string(timeout_ns) + " ns of this wait; wait again"};
    handle->give_key_back();
    return handle->call->status();
  });
}

int redsum_test(const redsum_handle* handle) {
  if (!handle || !handle->call->done()) return 0;
  const_cast<redsum_handle*>(handle)->give_key_back();
  return 1;
}

redsum_status redsum_on_complete(redsum_handle* handle, redsum_callback callback, void* user) {
  return guarded([&]() -> Status {
    if (!handle || !callback) return invalid("handle and callback must not be NULL");
    const auto run = [callback, user](const Status& status) {
      callback(user, static_cast<redsum_status>(status.code()));
    };
    if (!handle->call->on_complete(run)) return invalid("the handle has a callback already");
    return {};
  });
}

const char* redsum_handle_error(const redsum_handle* handle) {
  return handle && handle->call->done() ? handle->call->status().text().c_str() : "";
}

uint64_t redsum_handle_sequence(const redsum_handle* handle) {
  return handle->call->sequence & ~client::kOwnSequences;
}

uint64_t redsum_handle_epoch(const redsum_handle* handle) {
  return handle->call->done() ? handle->call->epoch().value : 0;
}

uint32_t redsum_handle_contributors(const redsum_handle* handle) {
  return handle->call->done() ? handle->call->contributors() : 0;
}

void redsum_handle_free(redsum_handle* handle) {
  delete handle;
}

}  // extern "C"
