// SPDX-License-Identifier: Apache-2.0
// The C interface: arguments checked, values turned into calls, errors into texts. No exception leaves a function.
#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>

#include "client/call_arguments.h"
#include "client/job.h"
#include "client/keys_in_use.h"
#include "client/options.h"
#include "client/redsum.h"
#include "transport/base/log.h"

using namespace redsum;
using client::Call;
using client::CallPtr;
using client::check_kind;
using client::fill_tensors;
using client::invalid;
using client::Job;
using client::options_or_default;

struct redsum_comm {
  std::shared_ptr<Job> job;
  CommunicatorId id;
  bool world = false;
  std::vector<std::uint32_t> members;  // ranks in the job
  std::uint32_t rank = 0;              // own, in the communicator
  std::shared_ptr<client::KeysInUse> keys = std::make_shared<client::KeysInUse>();

  std::mutex mutex;  // submissions: sequence and hand-over are one step
  Sequence next_sequence = 0;
  std::deque<CallPtr> pending;              // completed ones leave at the front
  std::uint64_t completed = 0, failed = 0;  // of those that left `pending`

  void forget_completed() {
    while (!pending.empty() && pending.front()->done()) {
      (pending.front()->status().ok() ? completed : failed) += 1;
      pending.pop_front();
    }
  }
};

struct redsum_handle {
  CallPtr call;
  std::shared_ptr<client::KeysInUse> keys;  // holds the call's key; empty: it has none, or has given it back
  std::mutex mutex;

  redsum_handle(CallPtr of, std::shared_ptr<client::KeysInUse> holder) : call(std::move(of)), keys(std::move(holder)) {}
  ~redsum_handle() { give_key_back(); }
  void give_key_back() {
    std::lock_guard lock(mutex);
    if (keys) keys->give(call->description.key);
    keys = nullptr;
  }
};

namespace {

thread_local std::string last_error;

redsum_status report(const Status& status) {
  last_error = status.ok() ? "" : status.to_string();
  return static_cast<redsum_status>(status.code());
}

// Runs the body of a C function: a Status out, whatever happens inside.
template <typename Body>
redsum_status guarded(Body body) noexcept {
  try {
    return report(body());
  } catch (const std::bad_alloc&) {
    return static_cast<redsum_status>(Code::resource_exhausted);
  } catch (const std::exception& error) {
    return report({Code::internal, error.what()});
  }
}

Status submit(redsum_comm& comm, CallPtr call, redsum_handle** handle) {
  REDSUM_RETURN_IF_ERROR(comm.job->route(comm.members, call->description));
  REDSUM_RETURN_IF_ERROR(comm.job->closed(comm.id));
  const std::string& key = call->description.key;
  if (!key.empty() && !comm.keys->take(key))
    return invalid("key '" + key + "' belongs to an earlier call of this rank and cannot name this one too (" +
                   call->description.to_string() + "); wait for the earlier call or free its handle first");
  auto owner = std::make_unique<redsum_handle>(call, key.empty() ? nullptr : comm.keys);
  std::lock_guard lock(comm.mutex);
  comm.forget_completed();
  call->sequence = comm.next_sequence++;
  call->submitted = monotonic_now();
  call->deadline = call->submitted + call->timeout;
  comm.pending.push_back(call);
  comm.job->submit(comm.id, std::move(call));
  *handle = owner.release();
  return {};
}

// To a caller whose struct has `bytes` bytes: that of an older or newer version of the header.
template <typename T>
void write_sized(T* to, T value, std::size_t bytes) {
  value.struct_bytes = std::min(bytes, sizeof value);
  std::memcpy(static_cast<void*>(to), &value, value.struct_bytes);
}

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
  if (!comm || !handle) return invalid("comm and handle must not be NULL");
  REDSUM_RETURN_IF_ERROR(check_kind(request.dtype, request.op));
  if (request.root < 0 || static_cast<std::size_t>(request.root) >= comm->members.size())
    return invalid("root is " + std::to_string(request.root) + "; expected 0 to " +
                   std::to_string(comm->members.size() - 1));
  const bool is_root = static_cast<std::uint32_t>(request.root) == comm->rank;
  auto call = std::make_shared<Call>();
  call->description.kind = request.kind;
  call->description.dtype = static_cast<DType>(request.dtype);
  call->description.op = static_cast<Op>(request.op);
  call->description.root = static_cast<std::uint32_t>(request.root);
  REDSUM_RETURN_IF_ERROR(
      client::fill_options(options_or_default(options), comm->job->options().operation_timeout, *call));
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

const char* redsum_version(void) {
  return REDSUM_VERSION;
}

const char* redsum_status_name(redsum_status status) {
  return code_name(static_cast<Code>(status)).data();
}

const char* redsum_last_error(void) {
  return last_error.c_str();
}

size_t redsum_dtype_bytes(redsum_dtype dtype) {
  return dtype_bytes(static_cast<DType>(dtype));
}

redsum_status redsum_dtype_from_name(const char* name, redsum_dtype* dtype) {
  return guarded([&]() -> Status {
    const auto found = dtype_from_name(name ? name : "");
    if (!found || !dtype)
      return invalid("'" + std::string(name ? name : "(null)") + "' is no dtype; expected fp64, fp32, fp16, bf16, ...");
    *dtype = static_cast<redsum_dtype>(*found);
    return {};
  });
}

redsum_status redsum_op_from_name(const char* name, redsum_op* op) {
  return guarded([&]() -> Status {
    const auto found = op_from_name(name ? name : "");
    if (!found || !op)
      return invalid("'" + std::string(name ? name : "(null)") + "' is no op; expected sum, prod, min, max or avg");
    *op = static_cast<redsum_op>(*found);
    return {};
  });
}

void redsum_options_init_sized(redsum_options* options, size_t struct_bytes) {
  redsum_options all{};
  client::options_from_environment(all);
  write_sized(options, all, struct_bytes);
}

void redsum_call_options_init_sized(redsum_call_options* options, size_t struct_bytes) {
  write_sized(options, client::options_or_default(nullptr), struct_bytes);
}

redsum_status redsum_init(const redsum_options* given, redsum_comm** world) {
  return guarded([&]() -> Status {
    if (!world) return invalid("world is NULL");
    *world = nullptr;
    redsum_options options;
    redsum_options_init(&options);
    if (given) std::memcpy(&options, given, std::min(given->struct_bytes, sizeof options));
    auto checked = client::check_options(options);
    if (!checked) return checked.error();
    auto job = Job::join(*checked);
    if (!job) return job.error();
    auto comm = std::make_unique<redsum_comm>();
    comm->job = std::move(*job);
    comm->world = true;
    comm->rank = checked->rank;
    for (std::uint32_t rank = 0; rank < checked->world_size; ++rank) comm->members.push_back(rank);
    *world = comm.release();
    return {};
  });
}

redsum_status redsum_comm_create(redsum_comm* parent, const int32_t* ranks, size_t count, redsum_comm** created) {
  return guarded([&]() -> Status {
    if (!parent || !created || (count != 0 && !ranks)) return invalid("parent, ranks and comm must not be NULL");
    *created = nullptr;
    if (count == 0) return invalid("a communicator needs at least one rank");
    auto comm = std::make_unique<redsum_comm>();
    comm->rank = static_cast<std::uint32_t>(count);
    for (size_t i = 0; i < count; ++i) {
      if (ranks[i] < 0 || static_cast<size_t>(ranks[i]) >= parent->members.size())
        return invalid("rank " + std::to_string(ranks[i]) + " is not in the parent of " +
                       std::to_string(parent->members.size()));
      const std::uint32_t member = parent->members[static_cast<size_t>(ranks[i])];
      if (std::count(comm->members.begin(), comm->members.end(), member) != 0)
        return invalid("rank " + std::to_string(ranks[i]) + " is in the list twice");
      if (static_cast<std::uint32_t>(ranks[i]) == parent->rank) comm->rank = static_cast<std::uint32_t>(i);
      comm->members.push_back(member);
    }
    if (comm->rank == count) return invalid("the calling rank " + std::to_string(parent->rank) + " is not in the list");
    REDSUM_RETURN_IF_ERROR(parent->job->closed(parent->id));
    auto id = parent->job->create(comm->members);
    if (!id) return id.error();
    comm->id = *id;
    comm->job = parent->job;
    *created = comm.release();
    return {};
  });
}

redsum_status redsum_comm_close(redsum_comm* comm) {
  return guarded([&]() -> Status {
    if (!comm) return {};
    std::unique_ptr<redsum_comm> owner(comm);
    for (const CallPtr& call : owner->pending) call->wait_until(call->deadline + kSecond);
    if (owner->world)
      owner->job->leave(owner->next_sequence);
    else
      owner->job->close_communicator(owner->id, owner->next_sequence);
    return {};
  });
}

int32_t redsum_comm_rank(const redsum_comm* comm) {
  return static_cast<int32_t>(comm->rank);
}
int32_t redsum_comm_size(const redsum_comm* comm) {
  return static_cast<int32_t>(comm->members.size());
}

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
  return handle->call->sequence;
}

uint32_t redsum_handle_contributors(const redsum_handle* handle) {
  return handle->call->done() ? handle->call->contributors() : 0;
}

void redsum_handle_free(redsum_handle* handle) {
  delete handle;
}

redsum_status redsum_stats(redsum_comm* comm, redsum_statistics* statistics) {
  return guarded([&]() -> Status {
    if (!comm || !statistics) return invalid("comm and statistics must not be NULL");
    if (statistics->struct_bytes < sizeof(size_t) || statistics->struct_bytes > 65536)
      return invalid("struct_bytes is " + std::to_string(statistics->struct_bytes) +
                     "; set it to sizeof(redsum_statistics)");
    redsum_statistics all{};
    all.struct_bytes = statistics->struct_bytes;
    const transport::Transport::Counters moved = comm->job->counters();
    const wire::EpochRecord& record = comm->job->record();
    all.bytes_sent = moved.bytes_sent;
    all.bytes_received = moved.bytes_received;
    all.send_calls = moved.send_calls;
    all.receive_calls = moved.receive_calls;
    all.chunks_sent = moved.frames_sent;
    all.chunks_received = moved.frames_received;
    all.reducers = static_cast<uint32_t>(record.reducers.size());
    for (const wire::ReducerInfo& reducer : record.reducers) all.shards += reducer.shards;
    all.chunk_bytes = record.settings.chunk_bytes;
    all.window = record.settings.window;
    all.epoch = record.epoch.value;
    {
      std::lock_guard lock(comm->mutex);
      comm->forget_completed();
      all.calls_submitted = comm->next_sequence;
      all.calls_completed = comm->completed;
      all.calls_failed = comm->failed;
    }
    std::memcpy(statistics, &all, std::min(statistics->struct_bytes, sizeof all));
    return {};
  });
}

namespace {
redsum_log_callback log_callback = nullptr;
}

void redsum_set_log(redsum_log_callback callback, void* user) {
  log_callback = callback;
  if (!callback) return log::set_sink(nullptr, nullptr);
  log::set_sink([](void* to, log::Level level,
                   std::string_view line) { log_callback(to, static_cast<int>(level), std::string(line).c_str()); },
                user);
}

}  // extern "C"
