// SPDX-License-Identifier: Apache-2.0
// A pool inside the test process (coordinator, reducers, real sockets on loopback), and ranks as threads that use the C
// interface.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/redsum.h"
#include "server/coordinator.h"
#include "server/reducer.h"

namespace redsum::test {

struct PoolShape {
  std::uint32_t reducers = 1, shards = 1;
  std::uint64_t budget_bytes = 1ull << 30;
  DurationNs heartbeat_timeout = 3 * kSecond;
};

class Pool {
 public:
  explicit Pool(const PoolShape& shape = {}) {
    const wire::Key key = wire::key_from_secret("");
    server::CoordinatorConfig config;
    config.address = "127.0.0.1:0";
    config.pool_key = key;
    config.min_reducers = std::max(shape.reducers, 1u);
    config.heartbeat_timeout = shape.heartbeat_timeout;
    coordinator_ = server::start_coordinator(config).value();
    address_ = coordinator_->address();
    for (std::uint32_t i = 0; i < shape.reducers; ++i) {
      server::ReducerConfig reducer;
      reducer.name = "r" + std::to_string(i);
      reducer.data_address = "127.0.0.1:0";
      reducer.shards = shape.shards;
      reducer.budget_bytes = shape.budget_bytes;
      reducer.coordinators = {address_};
      reducer.pool_key = key;
      reducer.heartbeat_timeout = shape.heartbeat_timeout;
      reducers_.push_back(server::start_reducer(reducer).value());
    }
  }

  const std::string& address() const { return address_; }
  server::Reducer& reducer(std::size_t i) { return *reducers_[i]; }
  void stop_reducer(std::size_t i) { reducers_[i].reset(); }
  void stop_coordinator() { coordinator_.reset(); }
  server::CoordinatorSnapshot snapshot() const { return coordinator_->snapshot(); }

 private:
  std::string address_;
  std::unique_ptr<server::Coordinator> coordinator_;
  std::vector<std::unique_ptr<server::Reducer>> reducers_;
};

inline std::string next_job() {
  static std::atomic<int> count{0};
  return "job" + std::to_string(count++);
}

// For direct mode: a coordinator alone.
inline PoolShape no_reducers() {
  PoolShape shape;
  shape.reducers = 0;
  return shape;
}
inline void direct(redsum_options& options) {
  options.mode = REDSUM_MODE_DIRECT;
}

// Values whose sum depends on the order in which they are added.
inline std::vector<float> touchy(std::size_t count, int rank) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((rank % 2 ? -1e7 : 1e7) + static_cast<double>(i % 97) * 0.37 + rank);
  return values;
}

// Options of one rank; change them in `adjust` before redsum_init.
using Adjust = std::function<void(redsum_options&)>;
using RankBody = std::function<void(redsum_comm* world, int rank)>;

inline redsum_status join(const Pool& pool, const std::string& job, int rank, int world, const Adjust& adjust,
                          redsum_comm** comm) {
  redsum_options options;
  redsum_options_init(&options);
  const std::string address = pool.address();
  options.coordinator = address.c_str();
  options.job_id = job.c_str();
  options.rank = rank;
  options.world_size = world;
  options.connect_timeout_ns = 20'000'000'000;
  options.operation_timeout_ns = 60'000'000'000;
  if (adjust) adjust(options);
  return redsum_init(&options, comm);
}

// Runs one job: every rank joins, runs its body, leaves.
inline void run_ranks(const Pool& pool, int world, const RankBody& body, const Adjust& adjust = {}) {
  const std::string job = next_job();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      redsum_comm* comm = nullptr;
      ASSERT_EQ(join(pool, job, rank, world, adjust, &comm), REDSUM_OK) << redsum_last_error();
      body(comm, rank);
      EXPECT_EQ(redsum_comm_close(comm), REDSUM_OK) << redsum_last_error();
    });
  for (std::thread& thread : threads) thread.join();
}

inline redsum_status allreduce(redsum_comm* comm, const void* input, void* output, std::size_t count,
                               redsum_dtype dtype, redsum_op op, const redsum_call_options* options = nullptr,
                               std::string* error = nullptr) {
  const redsum_tensor tensor{input, output, count};
  redsum_handle* handle = nullptr;
  redsum_status status = redsum_allreduce(comm, &tensor, 1, dtype, op, options, &handle);
  if (status != REDSUM_OK) {
    if (error) *error = redsum_last_error();
    return status;
  }
  status = redsum_wait(handle, -1);
  if (error) *error = redsum_handle_error(handle);
  redsum_handle_free(handle);
  return status;
}

}  // namespace redsum::test
