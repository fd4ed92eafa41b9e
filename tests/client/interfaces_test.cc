// SPDX-License-Identifier: Apache-2.0
// NET-02: the interface setting of a worker, from the outside.
#include <gmock/gmock.h>
#include <net/if.h>

#include "client/direct/listen_address.h"
#include "tests/client/pool.h"

namespace redsum::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Adjust with(const char* interfaces, redsum_mode mode = REDSUM_MODE_SERVER, const char* address = nullptr) {
  return [=](redsum_options& options) {
    options.interfaces = interfaces;
    options.mode = mode;
    options.data_address = address;
  };
}

std::string refusal(const Pool& pool, const Adjust& adjust) {
  redsum_comm* comm = nullptr;
  EXPECT_EQ(join(pool, next_job(), 0, 2, adjust, &comm), REDSUM_INVALID_ARGUMENT);
  EXPECT_EQ(comm, nullptr);
  return redsum_last_error();
}

void sum(redsum_comm* comm, int) {
  std::vector<float> data(50'000, 1.0f);
  ASSERT_EQ(allreduce(comm, data.data(), data.data(), data.size(), REDSUM_FP32, REDSUM_SUM), REDSUM_OK)
      << redsum_last_error();
  EXPECT_EQ(data[49'999], static_cast<float>(redsum_comm_size(comm)));
}

TEST(Interfaces, NET_02_what_does_not_match_is_refused_with_what_is_present) {
  const Pool pool;
  for (const redsum_mode mode : {REDSUM_MODE_SERVER, REDSUM_MODE_DIRECT, REDSUM_MODE_RING}) {
    const std::string text = refusal(pool, with("nosuch0", mode));
    EXPECT_THAT(text, AllOf(HasSubstr("'nosuch0'"), HasSubstr("REDSUM_INTERFACES"), HasSubstr("127.0.0.1")));
    struct if_nameindex* const all = ::if_nameindex();
    ASSERT_NE(all, nullptr);
    for (auto* at = all; at->if_name; ++at) EXPECT_THAT(text, HasSubstr(at->if_name));
    ::if_freenameindex(all);
  }
  EXPECT_THAT(refusal(pool, with("10.0.0.0/33")), AllOf(HasSubstr("'10.0.0.0/33'"), HasSubstr("lo 127.0.0.1")));
  EXPECT_THAT(refusal(pool, with("lo", REDSUM_MODE_RING, "203.0.113.9")),
              AllOf(HasSubstr("'lo'"), HasSubstr("data_address '203.0.113.9'")));
  EXPECT_TRUE(pool.snapshot().jobs.empty()) << "nobody was asked";
}

TEST(Interfaces, NET_02_loopback_serves_a_job_of_one_host_in_every_mode) {
  const Pool pool;
  for (const char* interfaces : {"lo", "nosuch0,127.0.0.0/8", "lo*"})
    for (const redsum_mode mode : {REDSUM_MODE_SERVER, REDSUM_MODE_DIRECT, REDSUM_MODE_RING})
      run_ranks(pool, 2, sum, with(interfaces, mode));
}

TEST(Interfaces, NET_02_an_exclusion_as_other_libraries_write_it) {
  const auto card = tcp::local_interface("^lo,docker", "");
  if (!card) GTEST_SKIP() << "this host has no card: " << card.error().text();
  const Pool pool;
  run_ranks(pool, 2, sum, with("^lo,docker"));
  // Listening there is for those who hold a secret, as with any other address.
  redsum_comm* comm = nullptr;
  for (const redsum_mode mode : {REDSUM_MODE_DIRECT, REDSUM_MODE_RING}) {
    EXPECT_EQ(join(pool, next_job(), 0, 2, with("^lo,docker", mode), &comm), REDSUM_AUTH_FAILED);
    EXPECT_THAT(redsum_last_error(), HasSubstr(card->host()));
  }
}

TEST(Interfaces, NET_02_loopback_in_a_job_of_several_hosts_is_refused) {
  const auto local = [](const char* host) { return tcp::LocalInterface{"lo", {*tcp::numeric_endpoint({host, 0})}}; };
  for (const char* coordinator : {"203.0.113.9:7400", "[2001:db8::9]:7400"})
    for (const char* host : {"127.0.0.1", "::1"}) {
      const Status refused = client::check_reach(local(host), "lo", coordinator);
      EXPECT_EQ(refused.code(), Code::invalid_argument);
      EXPECT_THAT(refused.text(), AllOf(HasSubstr("'lo'"), HasSubstr(host), HasSubstr(coordinator), HasSubstr("'^lo'"),
                                        HasSubstr("present: ")));
    }
  for (const char* coordinator : {"127.0.0.1:7400", "127.8.8.8:7400", "[::1]:7400"}) {
    EXPECT_TRUE(client::check_reach(local("127.0.0.1"), "lo", coordinator)) << coordinator;
    EXPECT_TRUE(client::check_reach(local("203.0.113.7"), "eth0", coordinator)) << coordinator;
  }
  EXPECT_TRUE(client::check_reach(local("203.0.113.7"), "eth0", "203.0.113.9:7400"));
  EXPECT_TRUE(client::check_reach({}, "", "203.0.113.9:7400")) << "nothing was chosen";
}

}  // namespace
}  // namespace redsum::test
