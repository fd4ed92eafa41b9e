// SPDX-License-Identifier: Apache-2.0
#include "client/options.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace redsum::client {
namespace {

class OptionsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"REDSUM_COORDINATOR", "REDSUM_JOB_ID", "REDSUM_SECRET_FILE", "REDSUM_RANK", "REDSUM_WORLD_SIZE", "RANK",
          "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "REDSUM_CHUNK_BYTES", "REDSUM_WINDOW",
          "REDSUM_CONNECT_TIMEOUT", "REDSUM_OPERATION_TIMEOUT", "REDSUM_HEARTBEAT_TIMEOUT", "REDSUM_MODE",
          "REDSUM_RING_ORDER", "REDSUM_FALLBACK", "REDSUM_DATA_ADDRESS", "REDSUM_INTERFACES"})
      ::unsetenv(name);
    redsum_options_init_for_test();
  }
  void redsum_options_init_for_test() {
    options_ = redsum_options{};
    options_.struct_bytes = sizeof options_;
    options_from_environment(options_);
  }
  // The error of the options as they are, which must name `field`.
  void expect_refused(const char* field) {
    const auto checked = check_options(options_);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code(), Code::invalid_argument);
    EXPECT_EQ(checked.error().text().rfind(field, 0), 0u) << checked.error().text();
  }
  redsum_options options_{};
};

TEST_F(OptionsTest, defaults_are_one_rank_at_the_local_coordinator) {
  const auto checked = check_options(options_);
  ASSERT_TRUE(checked) << checked.error().to_string();
  EXPECT_EQ(checked->coordinators, std::vector<std::string>{"127.0.0.1:7400"});
  EXPECT_EQ(checked->rank, 0u);
  EXPECT_EQ(checked->world_size, 1u);
  EXPECT_EQ(checked->operation_timeout, 300 * kSecond);
}

TEST_F(OptionsTest, our_variables_come_before_the_launchers) {
  ::setenv("RANK", "3", 1);
  ::setenv("WORLD_SIZE", "8", 1);
  ::setenv("OMPI_COMM_WORLD_RANK", "7", 1);
  redsum_options_init_for_test();
  EXPECT_EQ(options_.rank, 3);
  EXPECT_EQ(options_.world_size, 8);
  ::setenv("REDSUM_RANK", "5", 1);
  ::setenv("REDSUM_OPERATION_TIMEOUT", "1.5", 1);
  redsum_options_init_for_test();
  EXPECT_EQ(options_.rank, 5);
  EXPECT_EQ(options_.operation_timeout_ns, 1'500'000'000);
}

TEST_F(OptionsTest, the_mode_is_one_of_three_words) {
  EXPECT_EQ(check_options(options_)->mode, wire::Mode::server);
  ::setenv("REDSUM_MODE", "direct", 1);
  ::setenv("REDSUM_DATA_ADDRESS", "10.0.0.7", 1);
  redsum_options_init_for_test();
  EXPECT_EQ(check_options(options_)->mode, wire::Mode::direct);
  EXPECT_EQ(check_options(options_)->data_address, "10.0.0.7");
  ::setenv("REDSUM_MODE", "ring", 1);
  ::setenv("REDSUM_RING_ORDER", "rank", 1);
  redsum_options_init_for_test();
  EXPECT_EQ(check_options(options_)->mode, wire::Mode::ring);
  EXPECT_EQ(check_options(options_)->ring_order, wire::RingOrder::rank);
  EXPECT_EQ(check_options(options_)->fallback, wire::Fallback::unset);
  ::setenv("REDSUM_FALLBACK", "none", 1);
  redsum_options_init_for_test();
  EXPECT_EQ(check_options(options_)->fallback, wire::Fallback::none);
  ::setenv("REDSUM_FALLBACK", "ring", 1);
  redsum_options_init_for_test();
  expect_refused("fallback is none of");
  ::unsetenv("REDSUM_FALLBACK");
  ::setenv("REDSUM_MODE", "star", 1);
  redsum_options_init_for_test();
  expect_refused("mode is none of");
  ::setenv("REDSUM_MODE", "ring", 1);
  ::setenv("REDSUM_RING_ORDER", "reverse", 1);
  redsum_options_init_for_test();
  expect_refused("ring_order is none of");
}

TEST_F(OptionsTest, NET_02_the_card_gives_the_address) {
  EXPECT_EQ(check_options(options_)->local.host(), "");
  ::setenv("REDSUM_INTERFACES", "nosuch0,127.0.0.0/8", 1);
  redsum_options_init_for_test();
  EXPECT_EQ(check_options(options_)->local.host(), "127.0.0.1");
  EXPECT_EQ(check_options(options_)->data_address, "127.0.0.1");
  for (const auto& [given, used] : std::initializer_list<std::pair<const char*, const char*>>{
           {"0.0.0.0:7499", "127.0.0.1:7499"}, {"127.0.0.1:7499", "127.0.0.1:7499"}, {"localhost", "localhost"}}) {
    options_.data_address = given;
    const auto checked = check_options(options_);
    ASSERT_TRUE(checked) << checked.error().to_string();
    EXPECT_EQ(checked->data_address, used);
    EXPECT_EQ(checked->local.host(), "127.0.0.1");
  }
  options_.data_address = "203.0.113.9:7499";
  expect_refused("interfaces is 'nosuch0,127.0.0.0/8' and data_address '203.0.113.9:7499'");
  options_.data_address = nullptr;
  options_.interfaces = "10.0.0.0/33";
  expect_refused("interfaces is '10.0.0.0/33'");
  options_.interfaces = "";
  EXPECT_TRUE(check_options(options_)->local.addresses.empty());
}

TEST_F(OptionsTest, LIF_04_what_cannot_be_is_refused_by_name) {
  options_.world_size = 0;
  expect_refused("world_size is '0'");
  options_.world_size = 4;
  options_.rank = 4;
  expect_refused("rank is '4'");
  options_.rank = -1;
  expect_refused("rank is '-1'");
  options_.rank = 0;
  options_.job_id = "../x";
  expect_refused("job_id");
  options_.job_id = "ok";
  options_.chunk_bytes = 5000;
  expect_refused("chunk_bytes is '5000'");
  options_.chunk_bytes = 0;
  options_.window = 65;
  expect_refused("window");
  options_.window = 0;
  options_.coordinator = ",";
  expect_refused("coordinator");
  options_.coordinator = "a:1,b:2";
  EXPECT_EQ(check_options(options_)->coordinators.size(), 2u);
  options_.secret_file = "/nonexistent/secret";
  expect_refused("secret_file");
}

TEST_F(OptionsTest, a_variable_that_is_no_number_is_named) {
  ::setenv("RANK", "two", 1);
  ::setenv("WORLD_SIZE", "4", 1);
  redsum_options_init_for_test();
  expect_refused("rank is 'not a number'");
  ::setenv("RANK", "0", 1);
  ::setenv("REDSUM_CONNECT_TIMEOUT", "soon", 1);
  redsum_options_init_for_test();
  expect_refused("a timeout");
}

TEST_F(OptionsTest, the_secrets_trailing_newline_does_not_count) {
  const std::string path = testing::TempDir() + "secret";
  std::ofstream(path) << "correct horse\n";
  options_.secret_file = path.c_str();
  EXPECT_EQ(check_options(options_)->pool_key, wire::key_from_secret("correct horse"));
  std::ofstream(path, std::ios::trunc) << "\n";
  expect_refused("secret_file");
}

}  // namespace
}  // namespace redsum::client
