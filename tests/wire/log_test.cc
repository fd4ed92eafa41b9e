// SPDX-License-Identifier: Apache-2.0
// The library's logger: levels, the callback, the line's limit.
#include "transport/base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace redsum::log {
namespace {

struct Lines {
  std::vector<std::pair<Level, std::string>> all;
  Lines() {
    set_sink([](void* user, Level at, std::string_view line) { static_cast<Lines*>(user)->all.emplace_back(at, line); },
             this);
  }
  ~Lines() {
    set_sink(nullptr, nullptr);
    set_level(Level::warn);
  }
};

TEST(Log, only_what_the_level_asks_for_reaches_the_callback) {
  Lines lines;
  set_level(Level::info);
  error("e");
  warn("w");
  info("i");
  trace("t");
  ASSERT_EQ(lines.all.size(), 3u);
  EXPECT_EQ(lines.all[0], (std::pair<Level, std::string>(Level::error, "e")));
  EXPECT_EQ(lines.all[2], (std::pair<Level, std::string>(Level::info, "i")));
  EXPECT_TRUE(enabled(Level::info));
  EXPECT_FALSE(enabled(Level::trace));
  set_level(Level::trace);
  trace("t");
  EXPECT_EQ(lines.all.size(), 4u);
}

TEST(Log, a_line_is_at_most_4_kib) {
  Lines lines;
  error(std::string(100'000, 'x'));
  ASSERT_EQ(lines.all.size(), 1u);
  EXPECT_LE(lines.all[0].second.size(), 4096u);
  EXPECT_GE(lines.all[0].second.size(), 4000u);
}

TEST(Log, without_a_callback_goes_to_stderr) {
  testing::internal::CaptureStderr();
  warn("reducer r1 is slow");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("WARN reducer r1 is slow\n"), std::string::npos) << text;
  EXPECT_NE(text.find("redsum["), std::string::npos);
}

}  // namespace
}  // namespace redsum::log
