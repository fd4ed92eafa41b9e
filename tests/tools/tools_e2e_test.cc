// SPDX-License-Identifier: Apache-2.0
// redsumrun with a pool of its own, and the programs that run in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/tools/programs.h"

namespace {

using programs::Result;
using programs::Running;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A TMPDIR that is empty before and must be empty after.
class ToolsWithPool : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "tools_e2e.XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_)) << folder_;
    std::filesystem::remove_all(folder_);
  }
  std::vector<std::string> launch(int workers, int reducers, std::vector<std::string> command) const {
    std::vector<std::string> arguments = {"redsumrun", "-np", std::to_string(workers), "--reducers",
                                          std::to_string(reducers)};
    arguments.insert(arguments.end(), command.begin(), command.end());
    return arguments;
  }
  std::vector<std::string> environment() const { return {"TMPDIR=" + folder_}; }
  Result run(int workers, int reducers, std::vector<std::string> command) const {
    return programs::run(launch(workers, reducers, std::move(command)), environment());
  }
  std::string folder_;
};

TEST_F(ToolsWithPool, TheFirstProgramOfTheReadmeIsShortAndRuns) {
  std::ifstream file(programs::source("examples/first_allreduce.cc"));
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_GT(lines, 5);
  EXPECT_LT(lines, 25);
  const Result result = run(3, 2, {"first_allreduce"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.sorted_lines(),
              ElementsAre("[0] rank 0 of 3: average 2", "[1] rank 1 of 3: average 2", "[2] rank 2 of 3: average 2"));
}

TEST_F(ToolsWithPool, TheSecretIsPrivateAndFresh) {
  const std::string script = "stat -c %a $REDSUM_SECRET_FILE $(dirname $REDSUM_SECRET_FILE); cat $REDSUM_SECRET_FILE";
  std::vector<std::string> secrets;
  for (int i = 0; i < 2; ++i) {
    Running running(launch(1, 1, {"/bin/sh", "-c", script}), environment());
    EXPECT_EQ(running.read_line(), "[0] 600");
    EXPECT_EQ(running.read_line(), "[0] 700");
    secrets.push_back(running.read_line());
    EXPECT_EQ(secrets.back().size(), 4u + 64);
    EXPECT_EQ(running.finish().exit_code, 0);
  }
  EXPECT_NE(secrets[0], secrets[1]);
}

TEST_F(ToolsWithPool, PerfFindsEveryDtypeAndOpExact) {
  const Result result =
      run(3, 2, {"redsum-perf", "-b", "16", "-e", "70000", "-f", "66", "-d", "all", "-o", "all", "-n", "2", "-w", "0"});
  EXPECT_EQ(result.exit_code, 0) << result.err << result.out;
  EXPECT_THAT(result.out, HasSubstr("# Out of bounds values : 0 OK"));
  EXPECT_THAT(result.out, HasSubstr("skipped: complex64 prod"));
  // 17 dtypes x 5 ops without prod, min, max of 2 complex types, at 16, 1056 and 69696 bytes; rank 0 alone prints.
  const std::vector<std::string> lines = result.sorted_lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) { return line.find("#") == std::string::npos; }),
            (17 * 5 - 6) * 3);
  for (const std::string& line : lines) EXPECT_EQ(line.substr(0, 4), "[0] ");
}

TEST_F(ToolsWithPool, PerfTakesEveryVariant) {
  const std::vector<std::vector<std::string>> variants = {
      {"-I", "1", "-u", "3"},   {"-I", "1", "--no-rollback"},          {"-z", "0"},
      {"--wire-dtype", "bf16"}, {"--wire-dtype", "fp16", "-o", "avg"}, {"-a", "0", "-o", "max"}};
  for (const std::vector<std::string>& variant : variants) {
    std::vector<std::string> command = {"redsum-perf", "-b", "0", "-e", "300001", "-i", "150000", "-n", "3"};
    command.insert(command.end(), variant.begin(), variant.end());
    const Result result = run(2, 1, command);
    EXPECT_EQ(result.exit_code, 0) << variant[0] << " " << variant[1] << result.err << result.out;
    EXPECT_THAT(result.out, HasSubstr("# Out of bounds values : 0 OK")) << variant[0] << " " << variant[1];
  }
}

TEST_F(ToolsWithPool, PerfReplaysAModel) {
  const Result result = run(2, 1,
                            {"redsum-perf", "--workload", programs::source("configs/workloads/resnet50.json"),
                             "--steps", "1", "-w", "0", "-o", "avg", "-d", "bf16", "--in-flight", "40M"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("workload resnet50: 48.7 MiB of bf16 gradients in 3 buckets"));
  EXPECT_THAT(result.out, HasSubstr("#wrong 0"));
}

TEST_F(ToolsWithPool, AReducerThatDiesIsReportedWithItsLastLines) {
  // The worker kills the reducer (a child of the launcher, as the worker is), waits until it has ended with all its
  // threads, and is content with the consequences.
  const std::string script =
      "for p in $(cat /proc/$PPID/task/$PPID/children); do "
      "if tr '\\0' ' ' < /proc/$p/cmdline | grep -q -- '--role [r]educer'; then kill -9 $p; "
      "while ! grep -q '^State:.Z' /proc/$p/status || ! grep -q '^Threads:.1$' /proc/$p/status; do sleep 0.01; done; "
      "fi; done; echo survived";
  const Result result = run(1, 1, {"/bin/sh", "-c", script});
  EXPECT_EQ(result.out, "[0] survived\n");
  EXPECT_THAT(result.err, HasSubstr("reducer 0 (pid "));
  EXPECT_THAT(result.err, HasSubstr("signal 9 (SIGKILL) during the run; its last lines:"));
  EXPECT_THAT(result.err, HasSubstr("[reducer 0] "));
}

TEST_F(ToolsWithPool, APoolThatCannotStartIsReported) {
  const Result result = programs::run(
      {"redsumrun", "-np", "1", "--reducers", "1", "--redsumd-arg=--no-such-option", "/bin/true"}, environment());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("coordinator (pid "));
  EXPECT_THAT(result.err, HasSubstr("no-such-option"));
}

TEST_F(ToolsWithPool, CtrlCEndsThePoolToo) {
  Running running(launch(2, 2, {"/bin/sh", "-c", "echo; exec sleep 60"}), environment());
  for (int i = 0; i < 2; ++i) (void)running.read_line();
  std::vector<pid_t> children;
  const std::string pid = std::to_string(running.pid());
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  for (pid_t child = 0; file >> child;) children.push_back(child);
  EXPECT_EQ(children.size(), 5u);  // a coordinator, 2 reducers, 2 workers
  ::kill(running.pid(), SIGINT);
  const Result result = running.finish();
  EXPECT_EQ(result.exit_code, 128 + SIGINT);
  for (const pid_t child : children) EXPECT_FALSE(programs::process_runs(child));
  EXPECT_THAT(result.err, Not(HasSubstr("killed")));
}

TEST_F(ToolsWithPool, EchoBenchSendsEverythingThereAndBack) {
  const Result result =
      programs::run({"echo_bench", "--workers", "3", "--servers", "2", "--bytes", "1000003", "--iterations", "2"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("\"median_us\""));
}

// The demo's program needs the digits, which ./dev demo fetches; see scripts/run.sh.
class Digits : public ToolsWithPool {
 protected:
  void SetUp() override {
    ToolsWithPool::SetUp();
    const char* path = std::getenv("REDSUM_TEST_DIGITS");
    data_ = path != nullptr ? path : programs::source(".cache/digits.csv.gz");
    if (!std::filesystem::exists(data_)) GTEST_SKIP() << "no digits.csv.gz: run ./dev demo once, it fetches it";
  }
  std::string data_;
};

TEST_F(Digits, TrainsAndProves) {
  for (const bool bf16 : {false, true}) {
    std::vector<std::string> command = {"train_digits", "--data", data_};
    if (bf16) command.emplace_back("--bf16-wire");
    const Result result = run(4, 2, command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("[0] epoch 30 "));
    EXPECT_THAT(result.out, HasSubstr("proof 2"));
    EXPECT_THAT(result.out, HasSubstr("proof 3"));
  }
}

TEST_F(Digits, NoticesAFlippedBit) {
  const Result result = run(3, 1, {"train_digits", "--data", data_, "--epochs", "2", "--tamper", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("the ranks' weights differ"));
  EXPECT_THAT(result.out, Not(HasSubstr("proof")));
}

}  // namespace
