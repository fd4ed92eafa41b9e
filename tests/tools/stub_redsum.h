// SPDX-License-Identifier: Apache-2.0
// A library that does nothing but note what the wrapper asks of it and answer as the test wants.
#pragma once
#include <string>
#include <vector>

#include "client/redsum.h"

namespace stub {

struct State {
  // answers
  redsum_status submit_status = REDSUM_OK;  // of init and of every submission
  redsum_status call_status = REDSUM_OK;    // of a completed call
  redsum_status close_status = REDSUM_OK;
  bool complete = true;
  std::int32_t mode = REDSUM_MODE_SERVER, ring_order = REDSUM_RING_ORDER_DEFAULT;  // as the environment has them
  // what was asked
  int live_comms = 0;
  int live_handles = 0;
  int waits = 0;
  std::string coordinator;
  std::int64_t connect_timeout_ns = 0;
  std::int32_t last_mode = 0, last_ring_order = 0;
  std::vector<redsum_tensor> tensors;
  redsum_dtype dtype = REDSUM_FP64;
  redsum_op op = REDSUM_PROD;
  int root = -1;
  redsum_call_options last_call = {};
  std::string last_key;
  std::int64_t last_wait_ns = 0;
};
extern State state;

}  // namespace stub
