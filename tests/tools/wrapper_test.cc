// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "client/redsum.hpp"
#include "tests/tools/stub_redsum.h"

namespace {

using namespace std::chrono_literals;

class Wrapper : public testing::Test {
 protected:
  void SetUp() override { stub::state = {}; }
  void TearDown() override {
    EXPECT_EQ(stub::state.live_comms, 0);
    EXPECT_EQ(stub::state.live_handles, 0);
  }
};

static_assert(redsum::dtype_of<float>() == REDSUM_FP32 && redsum::dtype_of<double>() == REDSUM_FP64);
static_assert(redsum::dtype_of<const std::int8_t>() == REDSUM_INT8 && redsum::dtype_of<std::uint8_t>() == REDSUM_UINT8);
static_assert(redsum::dtype_of<std::int16_t>() == REDSUM_INT16 && redsum::dtype_of<std::uint16_t>() == REDSUM_UINT16);
static_assert(redsum::dtype_of<int>() == REDSUM_INT32 && redsum::dtype_of<unsigned>() == REDSUM_UINT32);
static_assert(redsum::dtype_of<long>() == REDSUM_INT64 && redsum::dtype_of<unsigned long long>() == REDSUM_UINT64);
static_assert(redsum::dtype_of<bool>() == REDSUM_BOOL && redsum::dtype_of<std::complex<double>>() == REDSUM_COMPLEX128);
static_assert(!std::is_copy_constructible_v<redsum::Communicator> &&
              std::is_nothrow_move_constructible_v<redsum::Communicator>);
static_assert(!std::is_copy_constructible_v<redsum::Handle> && std::is_nothrow_move_assignable_v<redsum::Handle>);

TEST_F(Wrapper, OptionsStartFromTheEnvironmentAndReachTheLibrary) {
  redsum::Options options;
  EXPECT_EQ(options.rank, 2);
  EXPECT_EQ(options.world_size, 5);
  EXPECT_EQ(options.connect_timeout, 60s);
  EXPECT_EQ(options.job_id, "");
  options.coordinator = "elsewhere:1";
  options.connect_timeout = 250ms;
  const redsum::Communicator world(options);
  EXPECT_EQ(stub::state.coordinator, "elsewhere:1");
  EXPECT_EQ(stub::state.connect_timeout_ns, 250'000'000);
  EXPECT_EQ(world.size(), 5);
  EXPECT_EQ(world.stats().reducers, 7u);
}

// What a wrong variable gives is no value of the enumerations; it is for redsum_init to refuse (with UBSan: not
// before).
TEST_F(Wrapper, AModeThatTheEnvironmentHasWrongReachesTheLibraryAsItIs) {
  stub::state.mode = stub::state.ring_order = -1;
  stub::state.submit_status = REDSUM_INVALID_ARGUMENT;
  EXPECT_THROW(redsum::Communicator(redsum::Options()), redsum::Error);
  EXPECT_EQ(stub::state.last_mode, -1);
  EXPECT_EQ(stub::state.last_ring_order, -1);
}

TEST_F(Wrapper, OwnsCommunicatorsOnce) {
  redsum::Communicator world = redsum::Communicator::init();
  {
    redsum::Communicator pair = world.create({0, 2});
    EXPECT_EQ(pair.size(), 2);
    EXPECT_EQ(stub::state.live_comms, 2);
    redsum::Communicator moved = std::move(pair);
    moved = world.create({2});
    EXPECT_EQ(moved.size(), 1);
    EXPECT_EQ(stub::state.live_comms, 2);
  }
  EXPECT_EQ(stub::state.live_comms, 1);
  world.close();
  EXPECT_EQ(stub::state.live_comms, 0);
}

TEST_F(Wrapper, CloseReportsWhatTheDestructorDrops) {
  redsum::Communicator world;
  stub::state.close_status = REDSUM_TIMEOUT;
  EXPECT_THROW(world.close(), redsum::Error);
  { const redsum::Communicator other; }
}

TEST_F(Wrapper, EveryFormOfAllreduceSaysTheSameToTheLibrary) {
  redsum::Communicator world;
  std::vector<float> values(12);
  world.allreduce(values).wait();
  EXPECT_EQ(stub::state.dtype, REDSUM_FP32);
  EXPECT_EQ(stub::state.op, REDSUM_SUM);
  ASSERT_EQ(stub::state.tensors.size(), 1u);
  EXPECT_EQ(stub::state.tensors[0].input, values.data());
  EXPECT_EQ(stub::state.tensors[0].output, values.data());
  EXPECT_EQ(stub::state.tensors[0].count, 12u);

  const std::array<std::uint64_t, 3> input = {1, 2, 3};
  std::array<std::uint64_t, 3> output = {};
  world.allreduce(input.data(), output.data(), 3, REDSUM_MAX).wait();
  EXPECT_EQ(stub::state.dtype, REDSUM_UINT64);
  EXPECT_EQ(stub::state.op, REDSUM_MAX);
  EXPECT_EQ(stub::state.tensors[0].input, input.data());
  EXPECT_EQ(stub::state.tensors[0].output, output.data());

  double one = 1;
  world.allreduce(&one, 1, REDSUM_AVG).wait();
  EXPECT_EQ(stub::state.dtype, REDSUM_FP64);

  const std::vector<redsum_tensor> list = {{values.data(), values.data(), 4},
                                           {values.data() + 4, values.data() + 4, 8}};
  world.allreduce(list, REDSUM_BF16, REDSUM_MIN).wait();
  EXPECT_EQ(stub::state.dtype, REDSUM_BF16);
  EXPECT_EQ(stub::state.tensors.size(), 2u);

  world.broadcast(values, 3).wait();
  EXPECT_EQ(stub::state.root, 3);
  world.barrier();
}

TEST_F(Wrapper, CallOptionsAreTranslated) {
  redsum::Communicator world;
  std::vector<float> values(2);
  world.allreduce(values).wait();
  EXPECT_EQ(stub::state.last_call.wire_dtype, -1);
  EXPECT_EQ(stub::state.last_call.prescale, 1.0);
  EXPECT_EQ(stub::state.last_call.key, nullptr);
  EXPECT_EQ(stub::state.last_call.no_rollback, 0);
  redsum::CallOptions options;
  options.wire_dtype = REDSUM_BF16;
  options.postscale = 0.5;
  options.timeout = 2s;
  options.key = "layer1";
  options.rollback = false;
  world.allreduce(values, REDSUM_SUM, options).wait();
  EXPECT_EQ(stub::state.last_call.wire_dtype, REDSUM_BF16);
  EXPECT_EQ(stub::state.last_call.postscale, 0.5);
  EXPECT_EQ(stub::state.last_call.timeout_ns, 2'000'000'000);
  EXPECT_EQ(stub::state.last_key, "layer1");
  EXPECT_EQ(stub::state.last_call.no_rollback, 1);
}

TEST_F(Wrapper, RefusedSubmissionsThrowTheLastError) {
  redsum::Communicator world;
  std::vector<float> values(2);
  stub::state.submit_status = REDSUM_MISMATCH;
  try {
    world.allreduce(values).wait();
    FAIL() << "no exception";
  } catch (const redsum::Error& error) {
    EXPECT_EQ(error.status(), REDSUM_MISMATCH);
    EXPECT_EQ(error.text(), "text of the last error");
    EXPECT_STREQ(error.what(), "mismatch: text of the last error");
  }
  EXPECT_THROW(redsum::Communicator::init(), redsum::Error);
}

TEST_F(Wrapper, FailedCallsThrowTheHandlesText) {
  redsum::Communicator world;
  std::vector<float> values(2);
  redsum::Handle handle = world.allreduce(values);
  stub::state.call_status = REDSUM_TIMEOUT;  // of the call itself, which is complete
  try {
    (void)handle.wait_for(1s);
    FAIL() << "no exception";
  } catch (const redsum::Error& error) {
    EXPECT_EQ(error.status(), REDSUM_TIMEOUT);
    EXPECT_EQ(error.text(), "text of the handle");
  }
  EXPECT_THROW(handle.wait(), redsum::Error);
}

TEST_F(Wrapper, WaitForTellsPendingFromComplete) {
  redsum::Communicator world;
  std::vector<float> values(2);
  redsum::Handle handle = world.allreduce(values);
  stub::state.complete = false;
  EXPECT_FALSE(handle.done());
  EXPECT_FALSE(handle.wait_for(5ms));
  EXPECT_EQ(stub::state.last_wait_ns, 5'000'000);
  stub::state.complete = true;
  EXPECT_TRUE(handle.done());
  EXPECT_TRUE(handle.wait_for(0ns));
  EXPECT_EQ(handle.sequence(), 41u);
  EXPECT_EQ(handle.contributors(), 5u);
}

TEST_F(Wrapper, LIF_12_ADroppedHandleWaitsForItsBuffersAndADetachedOneDoesNot) {
  redsum::Communicator world;
  std::vector<float> values(2);
  { const redsum::Handle dropped = world.allreduce(values); }
  EXPECT_EQ(stub::state.waits, 1);
  EXPECT_EQ(stub::state.last_wait_ns, -1);
  world.allreduce(values).detach();
  EXPECT_EQ(stub::state.waits, 1);
  redsum::Handle first = world.allreduce(values);
  first = world.allreduce(values);  // the one that is overwritten is waited for, too
  EXPECT_EQ(stub::state.waits, 2);
}

TEST_F(Wrapper, CallbacksRunOnceAndAreFreed) {
  redsum::Communicator world;
  std::vector<float> values(2);
  redsum::Handle handle = world.allreduce(values);
  const auto token = std::make_shared<int>(0);
  handle.on_complete([token](redsum_status status) { *token += status == REDSUM_OK ? 1 : 100; });
  EXPECT_EQ(*token, 1);
  EXPECT_EQ(token.use_count(), 1);
  stub::state.submit_status = REDSUM_MISMATCH;
  EXPECT_THROW(handle.on_complete([token](redsum_status) {}), redsum::Error);
  EXPECT_EQ(token.use_count(), 1);
}

}  // namespace
