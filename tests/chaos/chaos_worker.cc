// SPDX-License-Identifier: Apache-2.0
// A worker of a chaos run (scripts/chaos), on the C interface alone. Who and where: from the environment.
//   chaos_worker [flip|sleep|exit STEPS]   works until a line comes on stdin; then all ranks end after the same step
// The words prove the checks: after so many steps a bit of each contribution is flipped, no call comes any more, or the
// process ends.
//
// Prints one line for each thing that happens; times are CLOCK_MONOTONIC in ns:
//   met TIME SEQUENCE RANK SIZE                     a membership begins, with that call
//   step TIME SEQUENCE CHECKED EPOCH REDUCERS SIZE  all calls before SEQUENCE are done; so many results were compared
//   lost TIME TEXT                                  a worker is gone; the others go on without it
//   wrong TEXT | error CODE TEXT                    and the end, with 4 or 3
//   done
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "client/redsum.h"
#include "tests/chaos/chaos_data.h"

namespace redsum::chaos {
namespace {

constexpr std::size_t kCalls = std::size(kShapes) + 1;  // of a step; the last one asks whether anybody wants to end
constexpr std::uint64_t kAdmitSteps = 8;

long long now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000ll + time.tv_nsec;
}

bool asked_to_end() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

// How a call, a step, or the whole job ended. `text` is of the first error.
struct Outcome {
  redsum_status status = REDSUM_OK;
  std::string text;
  bool wrong = false;

  bool good() const { return status == REDSUM_OK && !wrong; }
};

// One call in flight, and its memory, which is used again in the next step.
struct Call {
  std::vector<std::byte> input, output;
  redsum_handle* handle = nullptr;
  std::uint64_t sequence = 0;

  Outcome wait() {
    Outcome outcome{redsum_wait(handle, -1), {}};
    outcome.text = redsum_handle_error(handle);
    redsum_handle_free(handle);
    return outcome;
  }
};

class Worker {
 public:
  Worker(redsum_comm* world, std::string sabotage, long sabotage_step)
      : world_(world), sabotage_(std::move(sabotage)), sabotage_step_(sabotage_step), calls_(std::size(kShapes)) {
    for (const Shape& shape : kShapes) patterns_.push_back(make_pattern(shape.dtype));
  }

  Outcome run() {
    Outcome outcome = begin(redsum_comm_membership(world_, &membership_));
    while (outcome.good() && !end_) {
      outcome = step();
      // Those who wait come in at the same step everywhere; what is left of a step that was broken off counts as one.
      if (outcome.good() && !end_ && sequence_ % (kCalls * kAdmitSteps) == 0)
        outcome = begin(redsum_admit(world_, &membership_));
      if (outcome.status == REDSUM_PEER_LOST && !outcome.wrong) outcome = go_on(outcome.text);
    }
    return outcome;
  }

 private:
  Outcome go_on(const std::string& lost) {
    std::printf("lost %lld %s\n", now_ns(), lost.c_str());
    return begin(redsum_resume(world_, &membership_));
  }

  // The calls of a membership are numbered by all alike. Some may have to make again what they have completed.
  Outcome begin(redsum_status status) {
    if (status != REDSUM_OK) return {status, redsum_last_error()};
    if (membership_.epoch == epoch_) return {};
    epoch_ = membership_.epoch, sequence_ = membership_.sequence;
    rank_ = membership_.rank, size_ = membership_.world_size;
    std::printf("met %lld %llu %d %d\n", now_ns(), static_cast<unsigned long long>(sequence_), rank_, size_);
    return {};
  }

  // What is left of the step that sequence_ lies in.
  Outcome step() {
    if (sabotage_ == "sleep" && steps_ == sabotage_step_) ::pause();
    if (sabotage_ == "exit" && steps_ == sabotage_step_) ::_exit(0);
    const std::size_t first = sequence_ % kCalls;
    Outcome outcome;
    std::size_t submitted = first;
    while (submitted < std::size(kShapes) && outcome.good()) {
      outcome = submit(submitted);
      if (outcome.good()) ++submitted;
    }
    std::int64_t end = asked_to_end() ? 1 : 0;
    redsum_handle* handle = nullptr;
    if (outcome.good()) {
      const redsum_tensor flag{&end, &end, 1};
      const redsum_status status = redsum_allreduce(world_, &flag, 1, REDSUM_INT64, REDSUM_MAX, nullptr, &handle);
      if (status != REDSUM_OK) outcome = {status, redsum_last_error()};
    }
    // Every call is waited for, whatever became of those before it: its memory is used again.
    for (std::size_t slot = first; slot < submitted; ++slot) {
      const Outcome one = finish(slot);
      if (outcome.good() || (one.wrong && !outcome.wrong)) outcome = one;
    }
    if (handle) {
      const Outcome last = Call{{}, {}, handle, 0}.wait();
      if (outcome.good()) outcome = last;
    }
    if (outcome.good()) tell(submitted - first, end == 1);
    return outcome;
  }

  Outcome submit(std::size_t slot) {
    const Shape& shape = kShapes[slot];
    Call& call = calls_[slot];
    call.sequence = sequence_;
    patterns_[slot]->fill(call.input, shape.count, call.sequence, rank_);
    if (!shape.in_place) call.output.resize(call.input.size());  // and what the last step left in it
    if (sabotage_ == "flip" && steps_ == sabotage_step_) call.input[call.input.size() / 2] ^= std::byte{1};
    const redsum_tensor tensor{call.input.data(), shape.in_place ? call.input.data() : call.output.data(), shape.count};
    const redsum_status status = redsum_allreduce(world_, &tensor, 1, shape.dtype, shape.op, nullptr, &call.handle);
    if (status != REDSUM_OK) return {status, redsum_last_error()};
    if (redsum_handle_sequence(call.handle) == sequence_) return ++sequence_, Outcome{};
    return {REDSUM_INTERNAL, "call " + std::to_string(sequence_) + " has another sequence"};
  }

  // The result, bit for bit; after an error an input that is as it was.
  Outcome finish(std::size_t slot) {
    const Shape& shape = kShapes[slot];
    Call& call = calls_[slot];
    const Pattern& pattern = *patterns_[slot];
    Outcome outcome = call.wait();
    const bool fine = outcome.good();
    const std::vector<std::byte>& result = shape.in_place ? call.input : call.output;
    std::optional<std::string> what;
    if (fine) what = pattern.wrong(result, shape.count, call.sequence, size_, shape.op);
    if (!what && !(fine && shape.in_place)) what = pattern.changed(call.input, shape.count, call.sequence, rank_);
    if (what)
      return {outcome.status,
              "call " + std::to_string(call.sequence) + " (" + (fine ? "complete" : outcome.text) + "), shape " +
                  std::to_string(slot) + ": " + *what,
              true};
    return outcome;
  }

  void tell(std::size_t checked, bool end) {
    ++sequence_, ++steps_;
    end_ = end;
    redsum_statistics statistics{};
    statistics.struct_bytes = sizeof statistics;
    redsum_stats(world_, &statistics);
    std::printf("step %lld %llu %zu %u %u %d\n", now_ns(), static_cast<unsigned long long>(sequence_), checked,
                statistics.epoch, statistics.reducers, size_);
  }

  redsum_comm* world_;
  std::string sabotage_;
  long sabotage_step_, steps_ = 0;
  std::vector<Call> calls_;
  std::vector<std::unique_ptr<Pattern>> patterns_;
  redsum_membership membership_{sizeof(redsum_membership), 0, 0, 0, 0, 0, 0};
  std::uint64_t epoch_ = 0, sequence_ = 0;
  int rank_ = 0, size_ = 0;
  bool end_ = false;
};

int report(const Outcome& outcome) {
  if (outcome.wrong) return std::printf("wrong %s\n", outcome.text.c_str()), 4;
  if (outcome.good()) return 0;
  return std::printf("error %s %s\n", redsum_status_name(outcome.status), outcome.text.c_str()), 3;
}

int main_of(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  redsum_options options;
  redsum_options_init(&options);
  redsum_comm* world = nullptr;
  if (const redsum_status status = redsum_init(&options, &world); status != REDSUM_OK)
    return report({status, redsum_last_error()});
  Worker worker(world, argc > 2 ? argv[1] : "", argc > 2 ? std::strtol(argv[2], nullptr, 10) : 0);
  if (const int code = report(worker.run())) return code;
  if (const redsum_status status = redsum_comm_close(world); status != REDSUM_OK)
    return report({status, redsum_last_error()});
  std::printf("done\n");
  return 0;
}

}  // namespace
}  // namespace redsum::chaos

int main(int argc, char** argv) {
  return redsum::chaos::main_of(argc, argv);
}
