// SPDX-License-Identifier: Apache-2.0
// Which instruction set the kernels run on. Chosen at first use: the best one that the processor has and that gives the
// bits of the plain scalar code in a self-test. REDSUM_ISA=scalar|baseline|avx2|avx512|neon asks for another; a name
// that is unknown or not usable here is reported on stderr and ignored.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace redsum::kernels {

// Name of the instruction set in use.
std::string_view active_isa();

// Those that work on this machine, best first; the last is always "scalar".
std::vector<std::string_view> available_isas();

// Switches to another one for the whole process, for tests and benchmarks. False: not available, nothing changed.
bool force_isa(std::string_view name);

// What an instruction set has done for the calling thread: the proof that it ran. `elements` are those of its own loops
// (parts of complex numbers count singly); rests too short for a register are left to the scalar code.
struct IsaWork {
  std::uint64_t calls = 0;
  std::uint64_t elements = 0;
};
IsaWork isa_work(std::string_view name);

}  // namespace redsum::kernels
