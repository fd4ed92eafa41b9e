// SPDX-License-Identifier: Apache-2.0
// Copies of inputs that results will overwrite: put back when a call fails, and contributed again in a new epoch.
#include <algorithm>
#include <utility>

#include "client/progress_agent.h"
#include "transport/base/mutant.h"

namespace redsum::client {

Status ProgressAgent::no_backup(Sequence sequence) {
  return {Code::resource_exhausted, "no memory for the copy that call " + std::to_string(sequence) +
                                        " keeps of its input; set no_rollback or use other memory for the output"};
}

// Whether the payload of this contribution is the input as it lies in memory.
bool ProgressAgent::as_on_wire(const Call& call, const wire::Header& header) {
  return call.description.wire_dtype == call.description.dtype && !header.has(wire::kFlagScaled);
}

// What of a chunk's input is copied aside when it goes out. Of a call's last chunks the copy that keep() wants is made
// here already: now other chunks are under way, at the call's end everybody waits.
ProgressAgent::Backup ProgressAgent::backup_of(const Communicator& communicator, const Call& call,
                                               const ChunkSend& send) {
  const bool keeps = communicator.core->keeps();
  const std::uint64_t offset = send.header.element_offset;
  if ((call.rollback || keeps) && overwrites_input(call, offset, send.result_elements))
    return {offset, send.result_elements};
  const bool stays = send.stays && call.description.kind != wire::Kind::broadcast && as_on_wire(call, send.header);
  return {offset, stays ? send.elements : 0};
}

// Copies the chunk's input aside; true when that is done.
bool ProgressAgent::keep_backup(Call& call, std::uint32_t chunk, const Backup& backup) {
  if (call.backups.empty()) {
    call.backup_bytes =
        std::min(call.layout.most_elements(), call.description.count) * dtype_bytes(call.description.dtype);
    call.backups.resize(call.layout.chunks());
  }
  std::byte*& block = call.backups[chunk];
  if (block) return true;  // it is sent again
  block = blocks_.take(call.backup_bytes);
  if (!block) return false;
  if (call.description.kind == wire::Kind::broadcast)
    save_in_place(call, backup.offset, backup.elements, block);
  else
    gather(call, backup.offset, backup.elements, call.description.dtype, block);
  return true;
}

void ProgressAgent::roll_back(Call& call) {
  for (std::uint32_t chunk = 0; chunk < call.backups.size(); ++chunk) {
    if (!call.backups[chunk] || !call.rollback || mutant("no_rollback")) continue;
    const ChunkPiece piece = call.layout.at(chunk);
    put_back(call, piece.offset, piece.elements, call.backups[chunk]);
  }
  drop_backups(call);
}

void ProgressAgent::drop_backups(Call& call) {
  for (std::byte* block : call.backups)
    if (block) blocks_.give(block, call.backup_bytes);
  call.backups.clear();
}

}  // namespace redsum::client
