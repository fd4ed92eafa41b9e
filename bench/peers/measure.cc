// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/peers/peer.h"
#include "bench/times.h"

namespace peers {
namespace {

constexpr unsigned kLimitS = 600;  // no run takes so long; a rank whose others are gone then ends by itself

void flip_a_bit(float& value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits ^= 1;
  std::memcpy(&value, &bits, sizeof bits);
}

}  // namespace

Options parse(int argc, char** argv, const char* program) {
  Options options;
  options.program = program;
  CLI::App app{"One rank of a measurement: see bench/peers/peer.h"};
  app.add_option("--rank", options.rank);
  app.add_option("--ranks", options.ranks)->check(CLI::Range(1u, kMaxRanks));
  app.add_option("--bytes", options.bytes)->check(CLI::Range(std::uint64_t{4}, std::uint64_t{1} << 32));
  app.add_option("--iterations", options.iterations)->check(CLI::Range(1u, 1000000u));
  app.add_option("--warmup", options.warmup);
  app.add_option("--algorithm", options.algorithm);
  app.add_option("--store", options.store)->check(CLI::ExistingDirectory);
  app.add_option("--address", options.address);
  app.add_option("--tamper", options.tamper, "this rank changes one bit of its last result");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  if (options.rank >= options.ranks) {
    std::fprintf(stderr, "%s: --rank %u is not below --ranks %u\n", program, options.rank, options.ranks);
    std::exit(2);
  }
  alarm(kLimitS);
  return options;
}

int measure(Peer& peer, const Options& options, std::vector<float>& buffer) {
  using Clock = std::chrono::steady_clock;
  const Values values(options.rank, options.ranks);
  std::vector<double> times_us;
  std::size_t wrong = 0;
  for (std::uint32_t i = 0; i < options.warmup + options.iterations; ++i) {
    values.fill_input(buffer);
    peer.barrier();
    const Clock::time_point start = Clock::now();
    peer.allreduce();
    const double time_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    if (i >= options.warmup) times_us.push_back(time_us);
    const bool last = i + 1 == options.warmup + options.iterations;
    if (last && options.tamper == static_cast<int>(options.rank)) flip_a_bit(buffer.back());
    wrong += values.count_wrong(buffer);
  }
  peer.max_over_ranks(times_us);
  if (options.rank == 0) {
    std::printf("{\"algorithm\": \"%s\", \"ranks\": %u, \"bytes\": %zu, ", options.algorithm.c_str(), options.ranks,
                buffer.size() * sizeof(float));
    perf::print_times(std::move(times_us));
  }
  if (wrong == 0) return 0;
  std::fprintf(stderr, "%s: rank %u: %zu elements came out wrong\n", options.program.c_str(), options.rank, wrong);
  return 1;
}

}  // namespace peers
