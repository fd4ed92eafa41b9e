// SPDX-License-Identifier: Apache-2.0
// A worker for the process tests, on the C interface alone. Rank and coordinator come from the environment.
//   e2e_worker loop COUNT CALLS [TENSORS]   CALLS all-reduces of COUNT fp32 in TENSORS pieces, each result checked
//   e2e_worker idle                         one all-reduce, then waits for a line on stdin, then one more
// Prints "ready" after the first result and "done". Ends with 3 and "error: CODE: TEXT" when a call fails, with 4 when
// a result is wrong or an input was changed by a failed call.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "client/redsum.h"

namespace {

int failed(redsum_status status, const char* text) {
  std::printf("error: %s: %s\n", redsum_status_name(status), text);
  return 3;
}

// Small whole numbers, so that every sum is exact in fp32 whatever its order.
float input(int rank, std::uint64_t call, std::size_t i) {
  return static_cast<float>((i + call + 3 * static_cast<std::size_t>(rank)) % 64);
}

float expected(int world_size, std::uint64_t call, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < world_size; ++rank) sum += input(rank, call, i);
  return sum;
}

class Worker {
 public:
  explicit Worker(redsum_comm* world) : world_(world), rank_(redsum_comm_rank(world)), size_(redsum_comm_size(world)) {}

  int run(std::size_t count, std::uint64_t calls, std::size_t pieces) {
    for (std::uint64_t call = 0; call < calls; ++call) {
      if (const int code = once(count, call, pieces)) return code;
      if (call == 0) say_ready();
    }
    return 0;
  }

  // Progress for the test that watches; unbuffered, because the process may be killed next.
  void say_ready() const {
    std::printf("ready\n");
    std::fflush(stdout);
  }

  int once(std::size_t count, std::uint64_t call, std::size_t pieces) {
    data_.resize(count);
    for (std::size_t i = 0; i < count; ++i) data_[i] = input(rank_, call, i);
    std::vector<redsum_tensor> tensors;
    for (std::size_t piece = 0; piece < pieces; ++piece) {
      const std::size_t from = count * piece / pieces, to = count * (piece + 1) / pieces;
      tensors.push_back({data_.data() + from, data_.data() + from, to - from});
    }
    redsum_handle* handle = nullptr;
    redsum_status status =
        redsum_allreduce(world_, tensors.data(), tensors.size(), REDSUM_FP32, REDSUM_SUM, nullptr, &handle);
    if (status != REDSUM_OK) return failed(status, redsum_last_error());
    status = redsum_wait(handle, -1);
    const std::string text = redsum_handle_error(handle);
    redsum_handle_free(handle);
    for (std::size_t i = 0; i < count; ++i) {
      const float want = status == REDSUM_OK ? expected(size_, call, i) : input(rank_, call, i);
      if (data_[i] == want) continue;
      std::printf("wrong: call %llu, element %zu is %g, not %g (%s)\n", static_cast<unsigned long long>(call), i,
                  static_cast<double>(data_[i]), static_cast<double>(want), redsum_status_name(status));
      return 4;
    }
    return status == REDSUM_OK ? 0 : failed(status, text.c_str());
  }

 private:
  redsum_comm* world_;
  int rank_, size_;
  std::vector<float> data_;
};

int idle(Worker& worker) {
  if (const int code = worker.once(1000, 0, 1)) return code;
  worker.say_ready();
  char line[16];
  if (!std::fgets(line, sizeof line, stdin)) return 5;
  return worker.once(1000, 1, 1);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode != "idle" && (mode != "loop" || argc < 4)) return 2;
  redsum_options options;
  redsum_options_init(&options);
  redsum_comm* world = nullptr;
  if (const redsum_status status = redsum_init(&options, &world); status != REDSUM_OK)
    return failed(status, redsum_last_error());
  Worker worker(world);
  const int code = mode == "idle" ? idle(worker)
                                  : worker.run(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10),
                                               argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1);
  std::fflush(stdout);
  if (code != 0) return code;
  if (const redsum_status status = redsum_comm_close(world); status != REDSUM_OK)
    return failed(status, redsum_last_error());
  std::printf("done\n");
  return 0;
}
