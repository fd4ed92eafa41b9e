// SPDX-License-Identifier: Apache-2.0
// The TOML file: every error names the line.
#include <gmock/gmock.h>

#include "server/config.h"
#include "tests/server/temporary_folder.h"

namespace redsum::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string read(const std::string& text, Settings* settings = nullptr) {
  const test::TemporaryFolder folder;
  Settings scratch;
  const Status status = read_config_file(folder.write("redsumd.toml", text), settings ? *settings : scratch);
  return status ? "" : status.text();
}

TEST(ConfigFile, TakesEveryTypeAsOneWritesIt) {
  Settings settings;
  ASSERT_EQ(read("role = 'reducer'\none_shot = true\n[control]\ncoordinators = ['a:1', '[::1]:2']\nheartbeat_timeout = "
                 "'250ms'\n"
                 "[coordinator]\nformation_timeout = 90\nmin_reducers = 3\n[reducer]\nmemory_budget = 1073741824\n"
                 "idle_release = 1.5\n[job]\nchunk_bytes = '64KiB'\nwindow = 'auto'\n[admin]\naddress = 'off'\n",
                 &settings),
            "");
  EXPECT_EQ(settings.at("role").text, "reducer");
  EXPECT_EQ(settings.at("one_shot").text, "true");
  EXPECT_EQ(settings.at("control.coordinators").text, "a:1,[::1]:2");
  EXPECT_EQ(*parse_duration(settings.at("coordinator.formation_timeout").text), 90 * kSecond);
  EXPECT_EQ(*parse_duration(settings.at("reducer.idle_release").text), 1500 * kMillisecond);
  EXPECT_EQ(settings.at("reducer.memory_budget").text, "1073741824");
  EXPECT_EQ(settings.at("admin.address").text, "off");
}

TEST(ConfigFile, UnknownKeysAreErrorsWithTheNearest) {
  EXPECT_THAT(
      read("role = 'both'\n\n[reducer]\nshard = 2\n"),
      AllOf(HasSubstr("redsumd.toml:4:"), HasSubstr("'reducer.shard'"), HasSubstr("did you mean 'reducer.shards'?")));
  EXPECT_THAT(read("[reducr]\nshards = 2\n"),
              AllOf(HasSubstr("redsumd.toml:1:"), HasSubstr("did you mean 'reducer'?")));
  EXPECT_THAT(read("shards = 2\n"), AllOf(HasSubstr(":1:"), HasSubstr("did you mean 'reducer.shards'?")));
  EXPECT_THAT(read("[log.level]\nx = 1\n"), AllOf(HasSubstr(":1:"), HasSubstr("log.level")));
  EXPECT_THAT(read("[control.nested]\nx = 1\n"), HasSubstr("control.nested"));
}

TEST(ConfigFile, WrongTypesAndLimitsAreErrorsWithLineValueAndLimit) {
  EXPECT_THAT(read("[reducer]\n\nshards = 'two'\n"),
              AllOf(HasSubstr(":3:"), HasSubstr("string"), HasSubstr("an integer from 0 to 1024")));
  EXPECT_THAT(read("[reducer]\nshards = 5000\n"),
              AllOf(HasSubstr(":2:"), HasSubstr("'5000'"), HasSubstr("from 0 to 1024")));
  EXPECT_THAT(read("[reducer]\nshards = 1.5\n"), AllOf(HasSubstr(":2:"), HasSubstr("an integer")));
  EXPECT_THAT(read("one_shot = 1\n"), AllOf(HasSubstr(":1:"), HasSubstr("true or false")));
  EXPECT_THAT(read("[job]\nchunk_bytes = '2MiB'\n"),
              AllOf(HasSubstr(":2:"), HasSubstr("'2MiB'"), HasSubstr("4KiB to 1MiB")));
  EXPECT_THAT(read("[job]\nchunk_bytes = '64M'\n"), AllOf(HasSubstr(":2:"), HasSubstr("KiB")));
  EXPECT_THAT(read("[control]\naddress = '127.0.0.1'\n"), AllOf(HasSubstr(":2:"), HasSubstr("port")));
  EXPECT_THAT(read("[control]\ncoordinators = [1]\n"), AllOf(HasSubstr(":2:"), HasSubstr("list of host:port")));
  EXPECT_THAT(read("[control]\nheartbeat_timeout = '3 weeks'\n"), HasSubstr(":2:"));
  EXPECT_THAT(read("[reducer]\nname = 'a b\"c'\n"), HasSubstr("letters, digits"));
}

TEST(ConfigFile, AllErrorsAreToldAtOnce) {
  const std::string errors = read("[reducer]\nshards = -1\nshars = 2\n[log]\nlevel = 'loud'\n");
  EXPECT_THAT(errors, AllOf(HasSubstr(":2:"), HasSubstr(":3:"), HasSubstr(":5:")));
}

TEST(ConfigFile, BrokenTomlNamesTheLine) {
  EXPECT_THAT(read("role = 'both'\n[reducer\n"), HasSubstr("redsumd.toml:2:"));
  EXPECT_THAT(read("role = 'both'\nrole = 'reducer'\n"), HasSubstr("redsumd.toml:2:"));
  EXPECT_NE(read(std::string("role = '\xff\xfe'\n")), "");
  Settings settings;
  EXPECT_THAT(read_config_file("/no/such/file.toml", settings).text(), HasSubstr("/no/such/file.toml"));
  const test::TemporaryFolder folder;
  EXPECT_FALSE(read_config_file(folder.path(), settings).ok());
}

TEST(Values, SizesTimesAndAddresses) {
  EXPECT_EQ(*parse_bytes("4096"), 4096);
  EXPECT_EQ(*parse_bytes("1.5GiB"), 3ll << 29);
  EXPECT_EQ(*parse_bytes(" 64 KiB "), 65536);
  EXPECT_FALSE(parse_bytes("9999999999TiB"));
  EXPECT_FALSE(parse_bytes("99999999999999999999999"));
  EXPECT_FALSE(parse_bytes("-1"));
  EXPECT_FALSE(parse_bytes("KiB"));
  EXPECT_FALSE(parse_bytes("1.2.3KiB"));
  EXPECT_EQ(*parse_duration("2"), 2 * kSecond);
  EXPECT_EQ(*parse_duration("0.5s"), 500 * kMillisecond);
  EXPECT_EQ(*parse_duration("250us"), 250 * kMicrosecond);
  EXPECT_EQ(bytes_text(3ll << 29), "1536MiB");
  EXPECT_EQ(bytes_text(100), "100");
  EXPECT_EQ(duration_text(1500 * kMillisecond), "1500ms");
  EXPECT_EQ(duration_text(0), "0s");
  const auto v6 = parse_address("[fe80::1%lo]:9000");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "fe80::1%lo");
  EXPECT_EQ(address_text(*v6), "[fe80::1%lo]:9000");
  for (const char* wrong :
       {"", ":1", "host", "host:", "host:65536", "host:-1", "::1:80", "[host]:1", "a b:1", "h:1x", "http://h:1"})
    EXPECT_FALSE(parse_address(wrong)) << wrong;
  EXPECT_TRUE(is_loopback("127.0.0.1") && is_loopback("localhost") && is_loopback("::1"));
  EXPECT_FALSE(is_loopback("127.evil.example") || is_loopback("0.0.0.0") || is_loopback("1270.0.0.1"));
}

}  // namespace
}  // namespace redsum::server
