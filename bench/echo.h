// SPDX-License-Identifier: Apache-2.0
// The ceiling for server mode on given sockets: the bytes of an all-reduce sent to echo servers and back, in the same
// frames, over as many lanes, with the same window; no staging, no sum, no waiting for other workers. Plain POSIX.
#pragma once
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace echo {

struct Config {
  std::uint32_t workers = 4;
  std::uint32_t servers = 2;  // shards: one process with one thread each
  std::uint64_t bytes = 16u << 20;
  std::uint32_t chunk_bytes = 64u << 10;
  std::uint32_t window = 4;  // frames in flight per lane
  std::uint32_t iterations = 10;
  std::uint32_t warmup = 2;
  std::uint32_t socket_buffer_bytes = 0;  // 0: what the system gives
};

struct Header {  // as many bytes as redsum's
  std::uint64_t chunk;
  std::uint64_t payload_bytes;
  std::uint64_t filler[6];
};
static_assert(sizeof(Header) == 64);

// Chunk number k of lane `lane` is chunk k x servers + lane of the message.
inline std::uint64_t chunks_of_lane(const Config& config, std::uint32_t lane) {
  const std::uint64_t chunks = (config.bytes + config.chunk_bytes - 1) / config.chunk_bytes;
  return chunks / config.servers + (lane < chunks % config.servers ? 1 : 0);
}
inline std::uint64_t chunk_offset(const Config& config, std::uint32_t lane, std::uint64_t k) {
  return (k * config.servers + lane) * config.chunk_bytes;
}
inline std::uint64_t payload_bytes(const Config& config, std::uint32_t lane, std::uint64_t k) {
  const std::uint64_t left = config.bytes - chunk_offset(config, lane, k);
  return left < config.chunk_bytes ? left : config.chunk_bytes;
}

// Moves `done` bytes into a list of frames of (64 + payload) bytes: whole frames are counted, the rest is `partial`.
struct Progress {
  std::uint64_t frame = 0;    // whole frames done, over all iterations
  std::uint64_t partial = 0;  // bytes of the next one
};

void make_nonblocking(int fd, const Config& config);  // also without Nagle's delay
[[noreturn]] void die(const char* what);              // prints what and errno, exits with 1

// Serves `config.workers` lanes that come in on `listener`; returns when all are closed.
void serve(const Config& config, std::uint32_t lane, int listener);

// One worker's side. `lanes` are connected, one per server.
class Worker {
 public:
  Worker(const Config& config, std::uint32_t rank, std::vector<int> lanes);
  void run();           // one message there and back
  bool verify() const;  // what came back is what was sent
  void poison();        // overwrites the receive buffer

 private:
  struct Lane {
    int fd = -1;
    std::uint32_t index = 0;
    std::uint64_t chunks = 0;
    Progress sent, received;
    bool wants_write = false;
  };
  std::size_t frames_to_iovec(Lane& lane, const Progress& from, std::uint64_t until, std::byte* memory,
                              std::vector<Header>& headers, iovec* vector);
  void advance(const Lane& lane, Progress& progress, std::uint64_t bytes) const;
  void send_some(Lane& lane);
  void receive_some(Lane& lane);
  void watch(Lane& lane, bool write);

  const Config& config_;
  std::uint32_t rank_;
  int epoll_ = -1;
  std::vector<Lane> lanes_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  std::vector<Header> send_headers_, receive_headers_;
  std::vector<iovec> iovecs_;
};

}  // namespace echo
