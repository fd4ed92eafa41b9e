// SPDX-License-Identifier: Apache-2.0
// The C interface: names, options, jobs, communicators, statistics, the log.
#include "client/api.h"

#include "client/call_arguments.h"
#include "client/options.h"
#include "transport/base/log.h"

using namespace redsum;
using client::CallPtr;
using client::guarded;
using client::invalid;
using client::Job;
using client::write_sized;

namespace redsum::client {
namespace {
thread_local std::string last_error;
}

redsum_status report(const Status& status) {
  last_error = status.ok() ? "" : status.to_string();
  return static_cast<redsum_status>(status.code());
}

const char* last_error_text() {
  return last_error.c_str();
}

}  // namespace redsum::client

extern "C" {

const char* redsum_version(void) {
  return REDSUM_VERSION;
}

const char* redsum_status_name(redsum_status status) {
  return code_name(static_cast<Code>(status)).data();
}

const char* redsum_last_error(void) {
  return client::last_error_text();
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
    client::enter(*comm, *comm->job->membership());
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
    REDSUM_RETURN_IF_ERROR(parent->job->closed(parent->id, parent->began));
    auto id = parent->job->create(comm->members);
    if (!id) return id.error();
    comm->id = *id;
    comm->began = parent->began;
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
    if (owner->world) {
      owner->job->leave(owner->next_sequence);
      stay_until_over(std::move(owner->job));
    } else
      owner->job->close_communicator(owner->id, owner->began, owner->next_sequence);
    return {};
  });
}

int32_t redsum_comm_rank(const redsum_comm* comm) {
  return static_cast<int32_t>(comm->rank);
}
int32_t redsum_comm_size(const redsum_comm* comm) {
  return static_cast<int32_t>(comm->members.size());
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
    const wire::JobSettings settings = comm->job->membership()->record.settings;
    all.bytes_sent = moved.bytes_sent;
    all.bytes_received = moved.bytes_received;
    all.send_calls = moved.send_calls;
    all.receive_calls = moved.receive_calls;
    all.chunks_sent = moved.frames_sent;
    all.chunks_received = moved.frames_received;
    const Job::Pool pool = comm->job->pool();
    all.reducers = pool.reducers;
    all.shards = pool.shards;
    all.chunk_bytes = settings.chunk_bytes;
    all.window = settings.window;
    all.small_bytes = settings.small_bytes;
    all.epoch = pool.epoch.value;
    all.nonfinite_results = comm->job->nonfinite_results();
    {
      std::lock_guard lock(comm->mutex);
      comm->forget_completed();
      all.calls_submitted = comm->next_sequence + comm->next_own;
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
