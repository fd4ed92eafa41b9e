// SPDX-License-Identifier: Apache-2.0
// echo_bench: see echo.h. Starts its servers and workers itself, on loopback, and prints one JSON object with the time
// of each iteration (the slowest worker's). bench/echo.py runs it in turn with redsum-perf.
#include "bench/echo.h"

#include <getopt.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "bench/times.h"

namespace {

constexpr unsigned kLimitS = 300;  // no run takes so long; whoever is left then ends by itself

struct Shared {  // of the workers; followed by workers x iterations times in us
  pthread_barrier_t barrier;
  double* times() { return reinterpret_cast<double*>(this + 1); }
};

struct Listener {
  int fd = -1;
  sockaddr_in address{};
};

Listener listen_on_loopback() {
  Listener listener;
  listener.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  listener.address.sin_family = AF_INET;
  listener.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof listener.address;
  auto* generic = reinterpret_cast<sockaddr*>(&listener.address);
  if (listener.fd < 0 || bind(listener.fd, generic, size) != 0 || listen(listener.fd, 1024) != 0 ||
      getsockname(listener.fd, generic, &size) != 0) {
    echo::die("listen on loopback");
  }
  return listener;
}

void run_worker(const echo::Config& config, std::uint32_t rank, const std::vector<Listener>& servers, Shared& shared) {
  std::vector<int> lanes;
  for (const Listener& server : servers) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&server.address), sizeof server.address) != 0) {
      echo::die("connect");
    }
    echo::make_nonblocking(fd, config);
    lanes.push_back(fd);
  }
  echo::Worker worker(config, rank, std::move(lanes));
  for (std::uint32_t i = 0; i < config.warmup + config.iterations; ++i) {
    if (i + 1 == config.warmup + config.iterations) worker.poison();
    pthread_barrier_wait(&shared.barrier);
    const auto start = std::chrono::steady_clock::now();
    worker.run();
    const auto time = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    if (i >= config.warmup) shared.times()[rank * config.iterations + i - config.warmup] = time;
  }
  if (!worker.verify()) {
    std::fprintf(stderr, "echo_bench: worker %u got other bytes back than it sent\n", rank);
    std::exit(1);
  }
}

template <typename Body>
pid_t start_child(Body body) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) echo::die("fork");
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::exit(1);
  alarm(kLimitS);
  body();
  std::exit(0);
}

void parse(int argc, char** argv, echo::Config& config) {
  const option options[] = {
      {"workers", 1, nullptr, 'n'}, {"servers", 1, nullptr, 's'},       {"bytes", 1, nullptr, 'b'},
      {"chunk", 1, nullptr, 'c'},   {"window", 1, nullptr, 'W'},        {"iterations", 1, nullptr, 'i'},
      {"warmup", 1, nullptr, 'w'},  {"socket-buffer", 1, nullptr, 'B'}, {nullptr, 0, nullptr, 0}};
  for (int letter; (letter = getopt_long(argc, argv, "", options, nullptr)) != -1;) {
    const std::uint64_t value = letter == '?' ? 0 : std::strtoull(optarg, nullptr, 10);
    const auto small = static_cast<std::uint32_t>(value);
    if (letter == 'n')
      config.workers = small;
    else if (letter == 's')
      config.servers = small;
    else if (letter == 'b')
      config.bytes = value;
    else if (letter == 'c')
      config.chunk_bytes = small;
    else if (letter == 'W')
      config.window = small;
    else if (letter == 'i')
      config.iterations = small;
    else if (letter == 'w')
      config.warmup = small;
    else if (letter == 'B')
      config.socket_buffer_bytes = small;
    else
      std::exit(2);
  }
  if (config.workers == 0 || config.servers == 0 || config.servers > 64 || config.bytes == 0 ||
      config.chunk_bytes == 0 || config.window == 0 || config.window > 256 || config.iterations == 0) {
    std::fprintf(stderr,
                 "echo_bench: workers, bytes, chunk, iterations must be at least 1, servers 1..64, window 1..256\n");
    std::exit(2);
  }
}

void print(const echo::Config& config, Shared& shared) {
  std::vector<double> slowest(config.iterations);
  for (std::uint32_t i = 0; i < config.workers * config.iterations; ++i) {
    slowest[i % config.iterations] = std::max(slowest[i % config.iterations], shared.times()[i]);
  }
  std::printf("{\"workers\": %u, \"servers\": %u, \"bytes\": %llu, \"chunk_bytes\": %u, \"window\": %u, ",
              config.workers, config.servers, static_cast<unsigned long long>(config.bytes), config.chunk_bytes,
              config.window);
  perf::print_times(std::move(slowest));
}

}  // namespace

int main(int argc, char** argv) {
  echo::Config config;
  parse(argc, argv, config);
  const std::size_t shared_bytes = sizeof(Shared) + sizeof(double) * config.workers * config.iterations;
  void* memory = mmap(nullptr, shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) echo::die("mmap");
  Shared& shared = *static_cast<Shared*>(memory);
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared.barrier, &attributes, config.workers);

  std::vector<Listener> servers;
  for (std::uint32_t i = 0; i < config.servers; ++i) servers.push_back(listen_on_loopback());
  std::vector<pid_t> children;
  for (std::uint32_t i = 0; i < config.servers; ++i) {
    children.push_back(start_child([&] { echo::serve(config, i, servers[i].fd); }));
  }
  for (std::uint32_t i = 0; i < config.workers; ++i) {
    children.push_back(start_child([&] { run_worker(config, i, servers, shared); }));
  }
  bool failed = false;
  for (std::size_t left = children.size(); left > 0 && !failed; --left) {
    int status = 0;
    failed = waitpid(-1, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  if (failed) {
    std::fprintf(stderr, "echo_bench: a process failed\n");
    return 1;  // the others get SIGKILL by their parent's death
  }
  print(config, shared);
  return 0;
}
