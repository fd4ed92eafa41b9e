// SPDX-License-Identifier: Apache-2.0
// A worker that goes on when others are lost, and takes new ones in; on the C interface alone. Rank and coordinator
// come from the environment.
//   elastic_worker COUNT CALLS   all-reduces of COUNT fp32 up to number CALLS, each result checked
// Prints "member RANK of SIZE, epoch E, sequence S, stayed T" for every membership, "ready" after its first result in
// it, "lost: CODE: TEXT" when a call fails, "done". Ends with 4 when a result is wrong or a failed call has changed its
// input, with 3 and "error: CODE: TEXT" when it cannot go on.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "client/redsum.h"

namespace {

// Small whole numbers, so that every sum is exact in fp32 whatever its order.
float input(std::int32_t rank, std::uint64_t call, std::size_t i) {
  return static_cast<float>((i + call + 3 * static_cast<std::size_t>(rank)) % 64);
}

float expected(std::int32_t size, std::uint64_t call, std::size_t i) {
  float sum = 0;
  for (std::int32_t rank = 0; rank < size; ++rank) sum += input(rank, call, i);
  return sum;
}

class Worker {
 public:
  Worker(redsum_comm* world, std::size_t count) : world_(world), data_(count + 1) {
    now_.struct_bytes = sizeof now_;
    redsum_comm_membership(world, &now_);
    begin();
  }

  int run(std::uint64_t calls) {
    while (call_ < calls) {
      const redsum_status status = once();
      if (wrong_) return 4;
      if (status != REDSUM_OK) {
        say("lost: %s\n", text_.c_str());
        if (!next(redsum_resume(world_, &now_))) return 3;
        continue;
      }
      if (!ready_) say("ready%s\n", "");
      ready_ = true;
      ++call_;
      // All have seen the same sum of the last element, so all admit after the same call.
      if (data_.back() != 0 && !next(redsum_admit(world_, &now_))) return 3;
    }
    return 0;
  }

 private:
  // Unbuffered, because the process may be killed next.
  template <typename... T>
  static void say(const char* format, T... values) {
    std::printf(format, values...);
    std::fflush(stdout);
  }

  void begin() {
    call_ = now_.sequence;
    ready_ = false;
    say("member %d of %d, epoch %llu, sequence %llu, stayed %d\n", now_.rank, now_.world_size,
        static_cast<unsigned long long>(now_.epoch), static_cast<unsigned long long>(now_.sequence), now_.stayed);
  }

  // After redsum_resume() or redsum_admit(). A loss that comes in between is found by the next call.
  bool next(redsum_status status) {
    if (status == REDSUM_PEER_LOST) return true;
    if (status != REDSUM_OK) {
      say("error: %s\n", redsum_last_error());
      return false;
    }
    if (now_.epoch != epoch_) begin();
    epoch_ = now_.epoch;
    return true;
  }

  redsum_status once() {
    const std::size_t count = data_.size() - 1;
    redsum_comm_membership(world_, &now_);
    const bool wait = now_.waiting != 0;
    for (std::size_t i = 0; i < count; ++i) data_[i] = input(now_.rank, call_, i);
    data_[count] = wait ? 1 : 0;
    const redsum_tensor tensor{data_.data(), data_.data(), data_.size()};
    redsum_handle* handle = nullptr;
    redsum_status status = redsum_allreduce(world_, &tensor, 1, REDSUM_FP32, REDSUM_SUM, nullptr, &handle);
    if (status != REDSUM_OK) {
      text_ = redsum_last_error();
      return status;
    }
    status = redsum_wait(handle, -1);
    text_ = redsum_last_error();
    if (status == REDSUM_OK) {
      check(redsum_handle_sequence(handle) == call_, "sequence", 0);
      check(redsum_handle_contributors(handle) == static_cast<std::uint32_t>(now_.world_size), "contributors", 0);
    } else {
      check(data_[count] == (wait ? 1.0f : 0.0f), status, count);
    }
    redsum_handle_free(handle);
    for (std::size_t i = 0; i < count; ++i)
      check(data_[i] == (status == REDSUM_OK ? expected(now_.world_size, call_, i) : input(now_.rank, call_, i)),
            status, i);
    return status;
  }

  void check(bool right, redsum_status status, std::size_t i) { check(right, redsum_status_name(status), i); }
  void check(bool right, const char* what, std::size_t i) {
    if (right || wrong_) return;
    wrong_ = true;
    say("wrong: call %llu, element %zu is %g (%s)\n", static_cast<unsigned long long>(call_), i,
        static_cast<double>(data_[i]), what);
  }

  redsum_comm* world_;
  std::vector<float> data_;
  redsum_membership now_{};
  std::uint64_t call_ = 0, epoch_ = 0;
  bool ready_ = false, wrong_ = false;
  std::string text_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  redsum_options options;
  redsum_options_init(&options);
  redsum_comm* world = nullptr;
  if (redsum_init(&options, &world) != REDSUM_OK) {
    std::printf("error: %s\n", redsum_last_error());
    return 3;
  }
  Worker worker(world, std::strtoull(argv[1], nullptr, 10));
  const int code = worker.run(std::strtoull(argv[2], nullptr, 10));
  redsum_comm_close(world);
  if (code == 0) std::printf("done\n");
  return code;
}
