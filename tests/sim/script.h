// SPDX-License-Identifier: Apache-2.0
// What the workers of a simulated job do: a list of collectives drawn from the seed, the data of every rank, and the
// bits that must come out.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/base/prng.h"
#include "transport/wire/call.h"
#include "transport/wire/control.h"

namespace redsum::sim {

struct PlannedCall {
  std::size_t group = 0;  // 0: the world; 1: the second communicator
  wire::CallDescription call;
  bool in_place = true;
  bool wait_for_it = false;           // the next call is submitted only after this one ended
  std::vector<std::uint64_t> pieces;  // element counts of the tensors
  std::uint64_t data_seed = 0;
  std::vector<std::uint64_t> pairs;  // of an exchange: how many elements rank f has for rank t, at f x members + t
  bool takes_part(std::uint32_t rank, std::uint32_t members) const;  // sends are two ranks' business
};

std::vector<PlannedCall> draw_script(Prng& random, std::size_t calls, std::size_t world, std::size_t groups,
                                     std::size_t sub_members, std::uint32_t chunk_bytes);

// What `rank` (of the call's communicator) contributes; of an all_gather only its own part counts. Of an exchange: what
// it has for all ranks, one after another.
std::vector<std::byte> input_of(const PlannedCall& planned, std::uint32_t rank);
// The bytes of a rank's part: first and end. The whole, where the call has no parts.
struct PartBytes {
  std::size_t first = 0, end = 0;
};
PartBytes part_of(const PlannedCall& planned, std::uint32_t members, std::uint32_t rank);
// What must be in its output: of an exchange, what all ranks have for it, one after another; otherwise the left fold in
// rank order of the whole call at once, without chunks; of a call that goes round the ring in order `ring`, chunk by
// chunk, from the rank where the fold of that chunk begins. Of a reduce_scatter only the rank's part is looked at.
std::vector<std::byte> expected_of(const PlannedCall& planned, std::uint32_t members, std::uint32_t rank,
                                   const wire::JobSettings& settings);

}  // namespace redsum::sim
