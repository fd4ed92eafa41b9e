// SPDX-License-Identifier: Apache-2.0
// all_to_all, gather, scatter, send and receive through the C interface, in every mode: what arrives, what is refused,
// what differs, and that they mix with the collectives.
#include <chrono>
#include <cstring>
#include <numeric>

#include "tests/client/pool.h"

namespace redsum::test {
namespace {

using Counts = std::vector<std::uint64_t>;
using Values = std::vector<std::uint32_t>;

struct Outcome {
  redsum_status status = REDSUM_OK;
  std::string text;
};

// Submits, waits and frees.
template <typename Function, typename... Arguments>
Outcome call(Function function, Arguments... arguments) {
  redsum_handle* handle = nullptr;
  Outcome outcome;
  outcome.status = function(arguments..., &handle);
  outcome.text = redsum_last_error();
  if (outcome.status != REDSUM_OK) return outcome;
  outcome.status = redsum_wait(handle, -1);
  outcome.text = redsum_handle_error(handle);
  redsum_handle_free(handle);
  return outcome;
}
template <typename Function, typename... Arguments>
redsum_handle* start(Function function, Arguments... arguments) {
  redsum_handle* handle = nullptr;
  EXPECT_EQ(function(arguments..., nullptr, &handle), REDSUM_OK) << redsum_last_error();
  return handle;
}
Outcome finish(redsum_handle* handle) {
  Outcome outcome;
  outcome.status = redsum_wait(handle, -1);
  outcome.text = redsum_handle_error(handle);
  redsum_handle_free(handle);
  return outcome;
}

// The i-th element that rank `from` has for rank `to`.
std::uint32_t value(int from, int to, std::uint64_t i) {
  return static_cast<std::uint32_t>(from) << 24 ^ static_cast<std::uint32_t>(to) << 16 ^
         static_cast<std::uint32_t>(i * 7);
}

void ring(redsum_options& options) {
  options.mode = REDSUM_MODE_RING;
}

constexpr std::uint64_t kSizes[] = {0, 1, 3, 1000, 31744, 31745, 300'000};

void exchange_everything(redsum_comm* comm, int rank, int world) {
  const auto n = static_cast<std::uint64_t>(world);
  for (const std::uint64_t count : kSizes) {
    Values in(n * count), out(n * count), part(count), whole(n * count);
    for (int to = 0; to < world; ++to)
      for (std::uint64_t i = 0; i < count; ++i) in[static_cast<std::uint64_t>(to) * count + i] = value(rank, to, i);
    ASSERT_EQ(call(redsum_all_to_all, comm, in.data(), out.data(), count, REDSUM_UINT32, nullptr).text, "");
    for (int from = 0; from < world; ++from)
      for (std::uint64_t i = 0; i < count; ++i)
        ASSERT_EQ(out[static_cast<std::uint64_t>(from) * count + i], value(from, rank, i)) << count;
    for (const int root : {0, world - 1}) {
      const bool is_root = rank == root;
      ASSERT_EQ(
          call(redsum_scatter, comm, is_root ? in.data() : nullptr, part.data(), count, REDSUM_UINT32, root, nullptr)
              .text,
          "");
      for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(part[i], value(root, rank, i)) << count;
      ASSERT_EQ(
          call(redsum_gather, comm, part.data(), is_root ? whole.data() : nullptr, count, REDSUM_UINT32, root, nullptr)
              .text,
          "");
      if (is_root) {
        EXPECT_EQ(whole, in) << count;
      }
    }
  }
}

TEST(ApiExchange, everything_arrives_in_server_mode) {
  const Pool pool({2, 1});
  for (const int world : {1, 2, 3, 5, 8})
    run_ranks(pool, world, [&](redsum_comm* comm, int rank) { exchange_everything(comm, rank, world); });
}

TEST(ApiExchange, everything_arrives_in_the_other_modes) {
  const Pool pool(no_reducers());
  for (const int world : {2, 3, 8}) {
    run_ranks(
        pool, world, [&](redsum_comm* comm, int rank) { exchange_everything(comm, rank, world); }, ring);
    run_ranks(
        pool, world, [&](redsum_comm* comm, int rank) { exchange_everything(comm, rank, world); }, direct);
  }
}

TEST(ApiExchange, counts_of_an_all_to_all_v_belong_to_the_pairs) {
  const Pool pool({1, 1});
  const auto count = [](int from, int to) {
    return static_cast<std::uint64_t>((from * 31 + to * 17) % 4 == 0 ? 0 : (from * 7919 + to * 104729) % 70'000);
  };
  for (const int world : {2, 3, 5})
    run_ranks(pool, world, [&](redsum_comm* comm, int rank) {
      Counts out_counts, in_counts;
      Values in;
      for (int peer = 0; peer < world; ++peer) {
        out_counts.push_back(count(rank, peer));
        in_counts.push_back(count(peer, rank));
        for (std::uint64_t i = 0; i < out_counts.back(); ++i) in.push_back(value(rank, peer, i));
      }
      const Values before = in;
      Values out(std::accumulate(in_counts.begin(), in_counts.end(), std::uint64_t{0}));
      ASSERT_EQ(call(redsum_all_to_all_v, comm, in.data(), out_counts.data(), out.data(), in_counts.data(),
                     REDSUM_UINT32, nullptr)
                    .text,
                "");
      std::size_t at = 0;
      for (int peer = 0; peer < world; ++peer)
        for (std::uint64_t i = 0; i < in_counts[static_cast<std::size_t>(peer)]; ++i)
          ASSERT_EQ(out[at++], value(peer, rank, i)) << "of rank " << peer;
      EXPECT_EQ(in, before);
    });
}

TEST(ApiExchange, the_root_gathers_and_scatters_in_place) {
  const Pool pool({1, 1});
  constexpr std::uint64_t kCount = 40'000;
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    constexpr int kRoot = 1;
    Values part(kCount), whole(3 * kCount, 7);
    std::uint32_t* own = rank == kRoot ? whole.data() + kRoot * kCount : part.data();
    for (std::uint64_t i = 0; i < kCount; ++i) own[i] = value(rank, kRoot, i);
    ASSERT_EQ(call(redsum_gather, comm, own, whole.data(), kCount, REDSUM_UINT32, kRoot, nullptr).text, "");
    for (int from = 0; rank == kRoot && from < 3; ++from)
      for (std::uint64_t i = 0; i < kCount; ++i)
        ASSERT_EQ(whole[static_cast<std::uint64_t>(from) * kCount + i], value(from, kRoot, i));
    std::fill(part.begin(), part.end(), 0u);
    ASSERT_EQ(call(redsum_scatter, comm, whole.data(), own, kCount, REDSUM_UINT32, kRoot, nullptr).text, "");
    for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(own[i], value(rank, kRoot, i));
  });
}

TEST(ApiExchange, sends_match_receives_that_are_submitted_later_in_order) {
  const Pool pool({1, 1});
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    constexpr std::uint64_t kCounts[] = {5, 0, 100'000, 1, 700'000, 31744};
    std::vector<Values> memory;
    std::vector<redsum_handle*> handles;
    // Every send is submitted before the first receive: the barrier says so, and waits for none of them.
    if (rank == 1) {
      EXPECT_EQ(call(redsum_barrier, comm, nullptr).text, "");
    }
    int number = 0;
    for (const std::uint64_t count : kCounts) {
      Values& values = memory.emplace_back(count);
      if (rank == 0)
        for (std::uint64_t i = 0; i < count; ++i) values[i] = value(number, 1, i);
      ++number;
      handles.push_back(rank == 0 ? start(redsum_send, comm, values.data(), count, REDSUM_UINT32, 1)
                                  : start(redsum_recv, comm, values.data(), count, REDSUM_UINT32, 0));
      EXPECT_EQ(redsum_handle_sequence(handles.back()), static_cast<std::uint64_t>(number - 1));
    }
    if (rank == 0) {
      EXPECT_EQ(call(redsum_barrier, comm, nullptr).text, "");
    }
    for (redsum_handle* handle : handles) EXPECT_EQ(finish(handle).text, "");
    for (std::size_t at = 0; rank == 1 && at < memory.size(); ++at)
      for (std::uint64_t i = 0; i < memory[at].size(); ++i) ASSERT_EQ(memory[at][i], value(static_cast<int>(at), 1, i));
  });
}

// The numbers of collectives stay the same on every rank, and a barrier waits for exchanges that all take part in.
TEST(ApiExchange, they_mix_with_collectives) {
  const Pool pool({2, 1});
  for (const bool in_ring : {false, true})
    run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
      redsum_call_options options;
      redsum_call_options_init(&options);
      options.ring = in_ring;
      for (int round = 0; round < 20; ++round) {
        std::vector<float> sum(50'000, static_cast<float>(rank + 1));
        Values in(3 * 20'000, static_cast<std::uint32_t>(rank)), out(3 * 20'000), token(1, 9);
        redsum_handle* one = nullptr;
        const redsum_tensor tensor{sum.data(), sum.data(), sum.size()};
        // Rank 0 alone sends, rank 2 alone receives: later than its barrier.
        redsum_handle* lonely = nullptr;
        if (rank == 0) lonely = start(redsum_send, comm, token.data(), std::uint64_t{1}, REDSUM_UINT32, 2);
        ASSERT_EQ(redsum_allreduce(comm, &tensor, 1, REDSUM_FP32, REDSUM_SUM, &options, &one), REDSUM_OK);
        redsum_handle* two =
            start(redsum_all_to_all, comm, in.data(), out.data(), std::uint64_t{20'000}, REDSUM_UINT32);
        redsum_handle* three = nullptr;
        ASSERT_EQ(redsum_barrier(comm, &options, &three), REDSUM_OK);
        EXPECT_EQ(redsum_handle_sequence(three), static_cast<std::uint64_t>(3 * round + 2));
        EXPECT_EQ(finish(three).text, "");
        EXPECT_EQ(redsum_test(two), 1) << "a barrier overtook an exchange";
        EXPECT_EQ(finish(one).text, "");
        EXPECT_EQ(redsum_handle_contributors(two), 3u);
        EXPECT_EQ(finish(two).text, "");
        if (rank == 2) lonely = start(redsum_recv, comm, token.data(), std::uint64_t{1}, REDSUM_UINT32, 0);
        if (lonely) {
          EXPECT_EQ(finish(lonely).text, "");
        }
        ASSERT_EQ(sum[49'999], 6.0f);
        for (std::uint32_t from = 0; from < 3; ++from) ASSERT_EQ(out[from * 20'000 + 19'999], from);
      }
    });
}

TEST(ApiExchange, what_does_not_match_is_named_on_every_rank) {
  const Pool pool({1, 1});
  // 0: count, 1: dtype, 2: kind, 3: root of a gather
  for (const int what : {0, 1, 2, 3})
    run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
      std::vector<std::uint64_t> in(100), out(100);
      Outcome outcome;
      if (what == 3)
        outcome = call(redsum_gather, comm, in.data(), out.data(), std::uint64_t{4}, REDSUM_INT32, rank, nullptr);
      else if (rank == 0)
        outcome = call(redsum_send, comm, in.data(), std::uint64_t{5}, REDSUM_INT32, 1, nullptr);
      else if (what == 2)
        outcome = call(redsum_scatter, comm, in.data(), out.data(), std::uint64_t{5}, REDSUM_INT32, 0, nullptr);
      else
        outcome = call(redsum_recv, comm, out.data(), std::uint64_t{what == 0 ? 7u : 5u},
                       what == 1 ? REDSUM_FP32 : REDSUM_INT32, 0, nullptr);
      // A send is complete as soon as its data is away: the sender hears of it with its next call.
      if (what != 3 && rank == 0) outcome = call(redsum_barrier, comm, nullptr);
      EXPECT_EQ(outcome.status, REDSUM_MISMATCH) << what << " " << outcome.text;
      const char* expected[] = {"expects 'send of 7 int32' from rank 0, which has 'send of 5 int32' for it",
                                "expects 'send of 5 fp32' from rank 0, which has 'send of 5 int32' for it",
                                "rank 0 has barrier, rank 1 has scatter", "root"};
      EXPECT_NE(outcome.text.find(expected[what]), std::string::npos) << outcome.text;
    });
}

TEST(ApiExchange, wrong_arguments_are_refused_at_once) {
  const Pool pool({1, 1});
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    Values data(100);
    const Counts two{3, 2}, other{2, 3};
    const auto refused = [&](const Outcome& outcome, const std::string& text,
                             redsum_status status = REDSUM_INVALID_ARGUMENT) {
      EXPECT_EQ(outcome.status, status) << outcome.text;
      EXPECT_NE(outcome.text.find(text), std::string::npos) << outcome.text << " has no '" << text << "'";
    };
    refused(call(redsum_send, comm, data.data(), std::uint64_t{1}, REDSUM_INT32, rank, nullptr), "this rank itself");
    refused(call(redsum_recv, comm, data.data(), std::uint64_t{1}, REDSUM_INT32, 2, nullptr),
            "from is 2; expected 0 to 1");
    refused(call(redsum_send, comm, nullptr, std::uint64_t{1}, REDSUM_INT32, 1 - rank, nullptr), "input is NULL");
    refused(call(redsum_gather, comm, data.data(), data.data(), std::uint64_t{1}, REDSUM_INT32, -1, nullptr),
            "root is -1");
    refused(call(redsum_all_to_all, comm, data.data(), data.data(), std::uint64_t{3}, REDSUM_INT32, nullptr),
            "overlap");
    refused(call(redsum_all_to_all_v, comm, data.data(), (rank ? other : two).data(), data.data() + 50,
                 (rank ? two : other).data(), REDSUM_INT32, nullptr),
            "has " + std::to_string(3) + " elements for itself and expects 2");
    refused(call(redsum_scatter, comm, data.data(), data.data() + 1, std::uint64_t{3}, REDSUM_INT32, rank, nullptr),
            "bytes behind the beginning");
    refused(call(redsum_send, comm, reinterpret_cast<char*>(data.data()) + 1, std::uint64_t{1}, REDSUM_INT32, 1 - rank,
                 nullptr),
            "multiple of 4");
    refused(call(redsum_send, comm, data.data(), std::uint64_t{1} << 62, REDSUM_INT32, 1 - rank, nullptr), "2^62");
    redsum_call_options options;
    redsum_call_options_init(&options);
    options.wire_dtype = REDSUM_BF16;
    refused(call(redsum_send, comm, data.data(), std::uint64_t{1}, REDSUM_FP32, 1 - rank, &options), "wire dtype",
            REDSUM_UNSUPPORTED);
    options.wire_dtype = -1;
    options.prescale = 2;
    refused(call(redsum_send, comm, data.data(), std::uint64_t{1}, REDSUM_FP32, 1 - rank, &options), "scale",
            REDSUM_UNSUPPORTED);
    EXPECT_EQ(call(redsum_barrier, comm, nullptr).text, "");
  });
}

TEST(ApiExchange, a_limit_names_whom_it_waited_for) {
  const Pool pool({1, 1});
  run_ranks(pool, 3, [&](redsum_comm* comm, int rank) {
    Values data(10), whole(30);
    redsum_call_options options;
    redsum_call_options_init(&options);
    options.timeout_ns = 500'000'000;
    if (rank == 1) {  // takes no part
      const Outcome outcome = call(redsum_recv, comm, data.data(), std::uint64_t{10}, REDSUM_INT32, 2, nullptr);
      EXPECT_EQ(outcome.status, REDSUM_TIMEOUT) << outcome.text;
      return;
    }
    const Outcome outcome =
        call(redsum_gather, comm, data.data(), whole.data(), std::uint64_t{10}, REDSUM_INT32, 0, &options);
    if (rank == 2) {  // its part is away at once
      EXPECT_EQ(outcome.text, "");
      EXPECT_EQ(call(redsum_recv, comm, data.data(), std::uint64_t{10}, REDSUM_INT32, 1, nullptr).status,
                REDSUM_TIMEOUT);
      return;
    }
    EXPECT_EQ(outcome.status, REDSUM_TIMEOUT);
    EXPECT_NE(outcome.text.find("nothing more has come from ranks: 1"), std::string::npos) << outcome.text;
  });
}

// It leaves while another one waits for what it will never send.
TEST(ApiExchange, a_receive_from_a_rank_that_has_left_ends) {
  const Pool pool({1, 1});
  run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
    Values data(10);
    if (rank == 1) return;
    const auto begun = std::chrono::steady_clock::now();
    const Outcome outcome = call(redsum_recv, comm, data.data(), std::uint64_t{10}, REDSUM_INT32, 1, nullptr);
    EXPECT_EQ(outcome.status, REDSUM_PEER_LOST);
    EXPECT_NE(outcome.text.find("rank 1"), std::string::npos) << outcome.text;
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
  });
}

// Its last frames arrive although it has gone.
TEST(ApiExchange, who_has_sent_may_leave_at_once) {
  const Pool pool({1, 1});
  for (int round = 0; round < 10; ++round)
    run_ranks(pool, 2, [&](redsum_comm* comm, int rank) {
      Values data(100'000, 5);
      if (rank == 1) {
        EXPECT_EQ(call(redsum_send, comm, data.data(), std::uint64_t{100'000}, REDSUM_UINT32, 0, nullptr).text, "");
        return;
      }
      std::fill(data.begin(), data.end(), 0u);
      EXPECT_EQ(call(redsum_recv, comm, data.data(), std::uint64_t{100'000}, REDSUM_UINT32, 1, nullptr).text, "");
      EXPECT_EQ(data, Values(100'000, 5));
    });
}

}  // namespace
}  // namespace redsum::test
