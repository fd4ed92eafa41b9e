// SPDX-License-Identifier: Apache-2.0
// A worker for the process tests, on the C interface alone. Rank and coordinator come from the environment.
//   e2e_worker loop COUNT CALLS [TENSORS]   CALLS all-reduces of COUNT fp32 in TENSORS pieces, each result checked
//   e2e_worker exchange COUNT CALLS         CALLS all_to_alls of COUNT fp32 for each rank, each result checked
//   e2e_worker idle                         one all-reduce, then waits for a line on stdin, then one more
//   e2e_worker hash COUNT                   one all-reduce whose sum depends on the order of addition; prints its hash
//   e2e_worker wait SECONDS                 a line on stdin, then one all-reduce; waits for it so long first
//   e2e_worker subgroup                     makes a communicator, uses the world; at a line of input rank 0 dies and
//                                           the others use it
// Prints "ready" after the first result and "done". Ends with 6 when the library changed a signal's handling, with 3
// and "error: CODE: TEXT" when a call fails, with 4 when a result is wrong or an input was changed by a failed call. It
// closes its communicators after a failure too, but for `wait`, which then ends as many programs do: without closing.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
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

  // Sums of numbers of very different size: another order of addition gives other bits in nearly every element.
  int hash(std::size_t count) {
    data_.resize(count);
    auto state = 12345u + static_cast<std::uint32_t>(rank_) * 2654435761u;
    for (float& value : data_) {
      state = state * 1664525u + 1013904223u;
      value = std::ldexp(static_cast<float>(static_cast<std::int32_t>(state << 5) >> 8),
                         static_cast<int>(state >> 27) - 16);
    }
    const redsum_tensor tensor{data_.data(), data_.data(), count};
    if (const int code = complete(world_, tensor)) return code;
    std::uint64_t result = 14695981039346656037u;
    for (const float value : data_) {
      std::uint32_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      result = (result ^ bits) * 1099511628211u;
    }
    std::printf("hash %016llx\n", static_cast<unsigned long long>(result));
    return 0;
  }

  // A communicator that was never used when one of its members dies.
  int subgroup() {
    std::vector<std::int32_t> ranks(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
    redsum_comm *fresh = nullptr, *later = nullptr;
    if (const redsum_status status = redsum_comm_create(world_, ranks.data(), ranks.size(), &fresh);
        status != REDSUM_OK)
      return failed(status, redsum_last_error());
    redsum_handle* handle = nullptr;
    redsum_status status = redsum_barrier(world_, nullptr, &handle);
    if (status == REDSUM_OK) status = redsum_wait(handle, -1);
    redsum_handle_free(handle);
    if (status != REDSUM_OK) return failed(status, redsum_last_error());
    say_ready();
    char line[16];
    if (!std::fgets(line, sizeof line, stdin)) return 5;
    if (rank_ == 0) ::_exit(0);
    const auto begun = std::chrono::steady_clock::now();
    float value = 1;
    const int code = complete(fresh, {&value, &value, 1});
    status = redsum_comm_create(world_, ranks.data(), ranks.size(), &later);
    std::printf("%s: %s\n", redsum_status_name(status), redsum_last_error());
    std::printf("took %.3f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    redsum_comm_close(later);
    redsum_comm_close(fresh);
    return code;
  }

  int wait(double seconds) {
    say_ready();
    char line[16];
    if (!std::fgets(line, sizeof line, stdin)) return 5;
    float value = 1;
    const redsum_tensor tensor{&value, &value, 1};
    redsum_handle* handle = nullptr;
    redsum_status status = redsum_allreduce(world_, &tensor, 1, REDSUM_FP32, REDSUM_SUM, nullptr, &handle);
    if (status != REDSUM_OK) return failed(status, redsum_last_error());
    const auto begun = std::chrono::steady_clock::now();
    status = redsum_wait(handle, static_cast<std::int64_t>(seconds * 1e9));
    std::printf("waited %.3f: %s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count(),
                redsum_status_name(status));
    std::fflush(stdout);
    status = redsum_wait(handle, -1);
    const std::string text = redsum_handle_error(handle);
    redsum_handle_free(handle);
    std::printf("ended %.3f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
    return status == REDSUM_OK ? 0 : failed(status, text.c_str());
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

  int exchange(std::size_t count, std::uint64_t calls) {
    const std::size_t total = count * static_cast<std::size_t>(size_);
    std::vector<float> in(total), out(total);
    for (std::uint64_t call = 0; call < calls; ++call) {
      for (std::size_t i = 0; i < total; ++i) in[i] = input(rank_, call, i);
      redsum_handle* handle = nullptr;
      redsum_status status = redsum_all_to_all(world_, in.data(), out.data(), count, REDSUM_FP32, nullptr, &handle);
      if (status != REDSUM_OK) return failed(status, redsum_last_error());
      status = redsum_wait(handle, -1);
      const std::string text = redsum_handle_error(handle);
      redsum_handle_free(handle);
      for (std::size_t i = 0; i < total; ++i) {
        const auto from = static_cast<int>(i / count);
        const bool right =
            status != REDSUM_OK || out[i] == input(from, call, static_cast<std::size_t>(rank_) * count + i % count);
        if (right && in[i] == input(rank_, call, i)) continue;
        std::printf("wrong: call %llu, element %zu (%s)\n", static_cast<unsigned long long>(call), i,
                    redsum_status_name(status));
        return 4;
      }
      if (status != REDSUM_OK) return failed(status, text.c_str());
      if (call == 0) say_ready();
    }
    return 0;
  }

 private:
  static int complete(redsum_comm* comm, const redsum_tensor& tensor) {
    redsum_handle* handle = nullptr;
    redsum_status status = redsum_allreduce(comm, &tensor, 1, REDSUM_FP32, REDSUM_SUM, nullptr, &handle);
    if (status != REDSUM_OK) return failed(status, redsum_last_error());
    status = redsum_wait(handle, -1);
    const std::string text = redsum_handle_error(handle);
    redsum_handle_free(handle);
    return status == REDSUM_OK ? 0 : failed(status, text.c_str());
  }

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

int run(Worker& worker, const std::string& mode, int argc, char** argv) {
  if (mode == "idle") return idle(worker);
  if (mode == "subgroup") return worker.subgroup();
  if (mode == "hash") return worker.hash(std::strtoull(argv[2], nullptr, 10));
  if (mode == "wait") return worker.wait(std::strtod(argv[2], nullptr));
  if (mode == "exchange")
    return worker.exchange(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10));
  return worker.run(std::strtoull(argv[2], nullptr, 10), std::strtoull(argv[3], nullptr, 10),
                    argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 1);
}

bool same_handling(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_handler == b.sa_handler && a.sa_flags == b.sa_flags;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int words = mode == "loop" || mode == "exchange"   ? 4
                    : mode == "hash" || mode == "wait"     ? 3
                    : mode == "idle" || mode == "subgroup" ? 2
                                                           : 99;
  if (argc < words) return 2;
  struct sigaction before {
  }, after{};
  ::sigaction(SIGPIPE, nullptr, &before);
  redsum_options options;
  redsum_options_init(&options);
  redsum_comm* world = nullptr;
  if (const redsum_status status = redsum_init(&options, &world); status != REDSUM_OK)
    return failed(status, redsum_last_error());
  Worker worker(world);
  const int code = run(worker, mode, argc, argv);
  ::sigaction(SIGPIPE, nullptr, &after);
  std::fflush(stdout);
  if (!same_handling(before, after)) return 6;
  if (code != 0 && mode == "wait") return code;
  const redsum_status status = redsum_comm_close(world);
  if (code != 0) return code;
  if (status != REDSUM_OK) return failed(status, redsum_last_error());
  std::printf("done\n");
  return 0;
}
