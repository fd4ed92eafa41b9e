// SPDX-License-Identifier: Apache-2.0
// What the programs that measure another library's all-reduce share: flags, values, the timed loop. Each is one rank;
// bench/peers.py starts them all, in turn with redsum-perf.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace peers {

inline constexpr std::uint32_t kMaxRanks = 16;  // so that every sum is exact, see Values

// Whole numbers from 1 to 2^20, other ones for every rank and element. Up to 16 of them add up without rounding, in any
// order and grouping, so one exact result holds for every algorithm; a contribution that is missing, counted twice or
// added at another place changes it.
float contribution(std::uint32_t rank, std::size_t index);

// What one rank contributes, and the sum of all.
class Values {
 public:
  Values(std::uint32_t rank, std::uint32_t ranks);
  void fill_input(std::vector<float>& buffer) const;
  // How many elements are not the exact sum.
  std::size_t count_wrong(const std::vector<float>& result) const;

 private:
  std::vector<std::byte> input_;  // both: one period
  std::vector<std::byte> sum_;
};

struct Options {
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint64_t bytes = 16u << 20;
  std::uint32_t iterations = 10;
  std::uint32_t warmup = 2;
  std::string algorithm;              // of the library, where it has several to choose from
  std::string store;                  // folder for the rendezvous, where the library needs one
  std::string address = "127.0.0.1";  // where this rank listens, where the library does not find that out itself
  int tamper = -1;                    // this rank changes one bit of its last result, to show that it is noticed
  std::string program;                // for messages
};
// Reads the flags; ends the process with 2 when they are wrong.
Options parse(int argc, char** argv, const char* program);

class Peer {
 public:
  virtual ~Peer() = default;
  virtual void barrier() = 0;
  virtual void allreduce() = 0;                           // fp32 sum, in place, of the buffer that it was made for
  virtual void max_over_ranks(std::vector<double>&) = 0;  // element by element
};

// Times every call and checks every element of every result. Rank 0 prints one JSON object with the time of each timed
// call, the slowest rank's. Returns the exit code: 1 when an element of this rank came out wrong.
int measure(Peer& peer, const Options& options, std::vector<float>& buffer);

}  // namespace peers
