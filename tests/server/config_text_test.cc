// SPDX-License-Identifier: Apache-2.0
// The texts made from the table, and the files in the tree that must be the same.
#include <gmock/gmock.h>

#include "server/config.h"
#include "tests/server/temporary_folder.h"

namespace redsum::server {
namespace {

using testing::HasSubstr;

TEST(ConfigTexts, TheExampleFileIsWhatTheTableSays) {
  EXPECT_EQ(test::read_file(REDSUM_SOURCE_DIR "/configs/redsumd.toml"), print_example())
      << "run: redsumd --print-example > configs/redsumd.toml";
}

TEST(ConfigTexts, TheReferencePageIsWhatTheTableSays) {
  EXPECT_EQ(test::read_file(REDSUM_SOURCE_DIR "/docs/reference/configuration.md"), print_reference())
      << "run: redsumd --print-reference > docs/reference/configuration.md";
}

TEST(ConfigTexts, TheExampleWithEveryLineSwitchedOnIsTheDefaults) {
  std::istringstream lines(print_example());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find(" = ");
    const bool setting = line.substr(0, 2) == "# " && equals != std::string::npos && line.find(' ', 2) == equals;
    text += (setting ? line.substr(2) : line) + "\n";
  }
  const test::TemporaryFolder folder;
  Settings settings;
  const Status read = read_config_file(folder.write("all.toml", text), settings);
  ASSERT_TRUE(read) << read.text();
  for (const Key& key : keys()) {
    EXPECT_EQ(settings.at(key.name).text, key.default_text) << key.name;
    EXPECT_EQ(settings.at(key.name).source, Source::file) << key.name;
  }
}

TEST(ConfigTexts, PrintedSettingsReadBackTheSame) {
  Settings settings;
  ASSERT_TRUE(settings.set(*find_key("control.coordinators"), {"a:1,[::1]:2", Source::flag, "--coordinators"}));
  ASSERT_TRUE(
      settings.set(*find_key("log.file"), {"/tmp/we\"ird\\\n\x01path", Source::environment, "REDSUM_LOG_FILE"}));
  ASSERT_TRUE(settings.set(*find_key("reducer.memory_budget"), {"1.5GiB", Source::flag, "--memory-budget"}));
  ASSERT_TRUE(settings.set(*find_key("control.insecure"), {"yes", Source::flag, "--insecure"}));
  const std::string printed = print_config(settings);
  EXPECT_THAT(printed, HasSubstr("coordinators = [\"a:1\", \"[::1]:2\"]  # flag --coordinators"));
  EXPECT_THAT(printed, HasSubstr("shards = 0  # default"));
  EXPECT_THAT(printed, HasSubstr("# environment REDSUM_LOG_FILE"));
  const test::TemporaryFolder folder;
  Settings again;
  const Status read = read_config_file(folder.write("printed.toml", printed), again);
  ASSERT_TRUE(read) << read.text();
  for (const Key& key : keys()) {
    const std::string wanted = key.name == "control.insecure" ? "true" : settings.at(key.name).text;
    EXPECT_EQ(again.at(key.name).text, wanted) << key.name;
  }
}

TEST(ConfigTexts, EveryKeyFitsItsOwnLimits) {
  for (const Key& key : keys()) {
    EXPECT_TRUE(key.default_text.empty() || check_value(key, key.default_text)) << key.name;
    EXPECT_FALSE(key.description.empty()) << key.name;
    EXPECT_LE(key.min, key.max) << key.name;
  }
}

}  // namespace
}  // namespace redsum::server
