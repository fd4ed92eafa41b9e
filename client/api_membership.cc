// SPDX-License-Identifier: Apache-2.0
// The C interface: the workers of a job change.
#include "client/api.h"
#include "client/call_arguments.h"
#include "transport/base/time.h"

using namespace redsum;
using client::CallPtr;
using client::guarded;
using client::invalid;
using client::Membership;

namespace redsum::client {

void enter(redsum_comm& world, const Membership& membership) {
  const wire::EpochRecord& record = membership.record;
  std::lock_guard lock(world.mutex);
  world.forget_completed();
  world.began = record.epoch;
  world.rank = membership.rank;
  world.members.clear();
  for (const wire::WorkerInfo& worker : record.workers) world.members.push_back(worker.rank);
  world.next_sequence = record.sequence;
  world.next_own = 0;
  world.first_failed.reset();
}

}  // namespace redsum::client

namespace {

Status check(const redsum_comm* world, const redsum_membership* membership) {
  if (!world) return invalid("world is NULL");
  if (!world->world) return invalid("the communicator is not the one that redsum_init returned; only that one changes");
  if (membership && (membership->struct_bytes < sizeof(size_t) || membership->struct_bytes > 65536))
    return invalid("struct_bytes is " + std::to_string(membership->struct_bytes) +
                   "; set it to sizeof(redsum_membership)");
  return {};
}

void write(redsum_membership* to, const Membership& from, std::uint32_t waiting) {
  if (!to) return;
  redsum_membership all{};
  all.epoch = from.record.epoch.value;
  all.rank = static_cast<int32_t>(from.rank);
  all.world_size = static_cast<int32_t>(from.record.workers.size());
  all.stayed = static_cast<int32_t>(from.record.stayed);
  all.sequence = from.record.sequence;
  all.waiting = static_cast<int32_t>(waiting);
  client::write_sized(to, all, to->struct_bytes);
}

redsum_status next(redsum_comm* world, redsum_membership* membership, bool admit) {
  return guarded([&]() -> Status {
    REDSUM_RETURN_IF_ERROR(check(world, membership));
    if (admit) REDSUM_RETURN_IF_ERROR(world->job->closed(world->id, world->began));
    std::vector<CallPtr> pending;
    {
      std::lock_guard lock(world->mutex);
      pending.assign(world->pending.begin(), world->pending.end());
    }
    for (const CallPtr& call : pending) call->wait_until(call->deadline + kSecond);
    Sequence complete;
    {
      std::lock_guard lock(world->mutex);
      world->forget_completed();
      complete = world->first_failed.value_or(world->next_sequence);
    }
    const auto entered = world->job->resume(complete, admit);
    if (!entered) return entered.error();
    if ((*entered)->record.epoch != world->began) client::enter(*world, **entered);
    write(membership, **entered, world->job->waiting());
    return {};
  });
}

}  // namespace

extern "C" {

redsum_status redsum_resume(redsum_comm* world, redsum_membership* membership) {
  return next(world, membership, false);
}

redsum_status redsum_admit(redsum_comm* world, redsum_membership* membership) {
  return next(world, membership, true);
}

redsum_status redsum_comm_membership(const redsum_comm* world, redsum_membership* membership) {
  return guarded([&]() -> Status {
    if (!membership) return invalid("membership is NULL");
    REDSUM_RETURN_IF_ERROR(check(world, membership));
    write(membership, *world->job->membership(), world->job->waiting());
    return {};
  });
}

redsum_status redsum_on_membership_change(redsum_comm* world, redsum_membership_callback callback, void* user) {
  return guarded([&]() -> Status {
    REDSUM_RETURN_IF_ERROR(check(world, nullptr));
    if (!callback) return world->job->on_change(nullptr), Status();
    world->job->on_change([callback, user](redsum_membership_event event, const std::string& text) {
      callback(user, event, text.c_str());
    });
    return {};
  });
}

}  // extern "C"
