// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/address.h"

#include <gtest/gtest.h>

namespace redsum::tcp {
namespace {

TEST(Address, NET_04_HostAndPortAsPeopleTypeThem) {
  const auto at = [](const char* text) { return parse_host_port(text).value(); };
  EXPECT_EQ(at("node7:7401").host, "node7");
  EXPECT_EQ(at("node7:7401").port, 7401);
  EXPECT_EQ(at("10.0.0.1:65535").port, 65535);
  EXPECT_EQ(at("[::1]:1").host, "::1");
  EXPECT_EQ(at("[fe80::1%lo]:7400").host, "fe80::1%lo");
  EXPECT_EQ(parse_host_port("localhost:0", true).value().port, 0);
  for (const char* text : {"node7:7401", "10.0.0.1:7401", "[::1]:7401", "[fe80::1%lo]:7400"}) {
    EXPECT_EQ(format_host_port(at(text).host, at(text).port), text);
  }
}

TEST(Address, ErrorsNameTheText) {
  const std::string longest(300, 'a');
  for (const std::string& text :
       {std::string(), std::string("node7"), std::string("node7:"), std::string(":7401"), std::string("node7:0"),
        std::string("node7:65536"), std::string("node7:-1"), std::string("node7: 1"), std::string("node7:1x"),
        std::string("::1:7401"), std::string("[::1]"), std::string("[::1]7401"), std::string("[::1:7401"),
        std::string("[]:1"), std::string("[node7]:1"), std::string("a b:1"),
        std::string("node7:99999999999999999999")}) {
    const auto at = parse_host_port(text);
    ASSERT_FALSE(at.has_value()) << text;
    EXPECT_EQ(at.error().code(), Code::invalid_argument);
    EXPECT_NE(at.error().text().find("\"" + text + "\""), std::string::npos) << at.error().text();
  }
  EXPECT_FALSE(parse_host_port(longest + ":1").has_value());
  EXPECT_EQ(parse_host_port("a\x1b:1").error().text().find('\x1b'), std::string::npos);
}

TEST(Address, NET_04_NumericEndpointsNeedNoNameService) {
  EXPECT_EQ(numeric_endpoint({"127.0.0.1", 7401})->to_string(), "127.0.0.1:7401");
  EXPECT_EQ(numeric_endpoint({"::1", 7401})->to_string(), "[::1]:7401");
  EXPECT_EQ(numeric_endpoint({"fe80::1%lo", 7401})->to_string(), "[fe80::1%lo]:7401");
  EXPECT_FALSE(numeric_endpoint({"localhost", 7401}).has_value());
  EXPECT_TRUE(numeric_endpoint({"127.1.2.3", 1})->is_loopback());
  EXPECT_TRUE(numeric_endpoint({"::1", 1})->is_loopback());
  EXPECT_TRUE(numeric_endpoint({"::ffff:127.0.0.1", 1})->is_loopback());
  EXPECT_FALSE(numeric_endpoint({"0.0.0.0", 1})->is_loopback());
  EXPECT_FALSE(numeric_endpoint({"::", 1})->is_loopback());
  EXPECT_FALSE(numeric_endpoint({"10.0.0.1", 1})->is_loopback());
}

}  // namespace
}  // namespace redsum::tcp
