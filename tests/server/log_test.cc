// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "tests/server/temporary_folder.h"
#include "transport/base/check.h"

namespace redsum::server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

LogLine line_of(std::string_view text, std::uint64_t suppressed = 0) {
  return {.level = log::Level::warn, .text = text, .wall_ms = 1'700'000'000'123, .suppressed = suppressed};
}

TEST(LogFormat, TextIsOneLine) {
  EXPECT_EQ(format_text(line_of("job x: rank 3 lost")), "2023-11-14T22:13:20.123Z WARN  job x: rank 3 lost");
  EXPECT_THAT(format_text(line_of("a\nb\x1b[31m\xff")), EndsWith("WARN  a\\nb\\x1b[31m?"));
  EXPECT_THAT(format_text(line_of("again", 17)), EndsWith("again (17 more like this were left out)"));
}

TEST(LogFormat, JsonIsOneEscapedObject) {
  const std::string json = format_json(line_of("say \"hi\"\\\n\t\x01 \xc3\xa9 \xff", 2));
  EXPECT_THAT(json, StartsWith("{\"time\":\"2023-11-14T22:13:20.123Z\",\"level\":\"warn\",\"pid\":"));
  EXPECT_THAT(json, EndsWith(",\"msg\":\"say \\\"hi\\\"\\\\\\n\\t\\u0001 \xc3\xa9 \\ufffd\",\"suppressed\":2}"));
}

TEST(LogFormat, UtfIsCheckedAsTheStandardSays) {
  const auto message = [](std::string_view text) {
    const std::string json = format_json(line_of(text));
    const std::size_t at = json.find("\"msg\":\"") + 7;
    return json.substr(at, json.size() - at - 2);
  };
  EXPECT_EQ(message("\xf0\x9f\x98\x80"), "\xf0\x9f\x98\x80");
  EXPECT_EQ(message("\xc0\x80"), "\\ufffd\\ufffd");             // overlong
  EXPECT_EQ(message("\xed\xa0\x80"), "\\ufffd\\ufffd\\ufffd");  // a surrogate
  EXPECT_EQ(message("\xf5\x80\x80\x80"), "\\ufffd\\ufffd\\ufffd\\ufffd");
  EXPECT_EQ(message("\xe2\x82"), "\\ufffd\\ufffd");  // cut off
}

TEST(LogFormat, LinesStayWithinFourKiB) {
  for (const char filler : {'x', '"', '\x01', '\xff'}) {
    const std::string text(10'000, filler);
    const std::string json = format_json(line_of(text, 5)), plain = format_text(line_of(text, 5));
    EXPECT_LT(json.size(), kMaxLogLineBytes);
    EXPECT_GT(json.size(), kMaxLogLineBytes - 100);
    EXPECT_THAT(json, EndsWith("...\",\"suppressed\":5}"));
    EXPECT_LT(plain.size(), kMaxLogLineBytes);
  }
}

TEST(RepeatLimit, ABurstThenOnePerInterval) {
  RepeatLimit limit;
  std::uint64_t suppressed = 0;
  int passed = 0;
  for (int i = 0; i < 600; ++i) {  // ten a second, for a minute, differing in their numbers
    const std::string text = "cannot reach 10.0.0." + std::to_string(i % 3) + ", attempt " + std::to_string(i);
    passed += limit.pass(log::Level::warn, text, i * 100 * kMillisecond, suppressed) ? 1 : 0;
  }
  EXPECT_EQ(passed, 5 + 5);
}

TEST(RepeatLimit, TellsHowManyWereLeftOut) {
  RepeatLimit limit;
  std::uint64_t suppressed = 0;
  for (int i = 0; i < 25; ++i) limit.pass(log::Level::info, "tick " + std::to_string(i), i, suppressed);
  EXPECT_TRUE(limit.pass(log::Level::info, "another line", 30, suppressed));
  EXPECT_EQ(suppressed, 0u);
  EXPECT_TRUE(limit.pass(log::Level::error, "tick 1", 30, suppressed)) << "another level is another kind";
  EXPECT_FALSE(limit.pass(log::Level::info, "tick 26", 40, suppressed));
  EXPECT_TRUE(limit.pass(log::Level::info, "tick 27", RepeatLimit::kInterval + 1, suppressed));
  EXPECT_EQ(suppressed, 21u);
  EXPECT_FALSE(limit.pass(log::Level::info, "tick 28", RepeatLimit::kInterval + 2, suppressed));
}

TEST(RepeatLimit, HoldsABoundedNumberOfKinds) {
  RepeatLimit limit;
  std::uint64_t suppressed = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text;
    for (int n = i; n > 0; n /= 26) text += static_cast<char>('a' + n % 26);
    EXPECT_TRUE(limit.pass(log::Level::info, text, i, suppressed));
  }
}

TEST(Log, TakesTheLinesOfTheBaseLogger) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("d.log");
  ASSERT_TRUE(start_log({.level = log::Level::info, .format = LogFormat::json, .file = path}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i)
        log::info(std::string("thread ") + static_cast<char>('a' + t) + static_cast<char>('A' + i));
    });
  for (std::thread& thread : threads) thread.join();
  log::trace("not at this level");
  log::error("the end");
  stop_log();
  std::istringstream lines(test::read_file(path));
  int count = 0;
  std::string last;
  for (std::string line; std::getline(lines, line); last = line) {
    ++count;
    EXPECT_THAT(line, AllOf(StartsWith("{\"time\":\""), EndsWith("}")));
  }
  EXPECT_EQ(count, 201);
  EXPECT_THAT(last, HasSubstr("\"level\":\"error\""));
  ASSERT_TRUE(start_log({.level = log::Level::warn, .format = LogFormat::text, .file = path}));
  log::warn("appended");
  log::info("too low");
  stop_log();
  EXPECT_THAT(test::read_file(path), EndsWith("WARN  appended\n"));
}

TEST(Log, AFileThatCannotBeOpenedIsAnError) {
  const Status status = start_log({.file = "/proc/no/such/folder/x.log"});
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_THAT(status.text(), HasSubstr("/proc/no/such/folder/x.log"));
}

TEST(LogDeathTest, AFailedCheckShowsTheLastLines) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const test::TemporaryFolder folder;
  EXPECT_DEATH(
      {
        (void)start_log({.level = log::Level::info, .format = LogFormat::text, .file = folder.path("x.log")});
        log::info("what happened before");
        REDSUM_CHECK(1 == 2);
      },
      "the last lines before this(.|\n)*what happened before(.|\n)*1 == 2");
}

}  // namespace
}  // namespace redsum::server
