// SPDX-License-Identifier: Apache-2.0
// What redsumrun promises about its workers; none of these needs a pool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/tools/programs.h"

namespace {

using programs::Result;
using programs::Running;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> sh(int workers, const std::string& script, std::vector<std::string> flags = {}) {
  std::vector<std::string> arguments = {"redsumrun", "-np", std::to_string(workers), "--reducers", "0"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"/bin/sh", "-c", script});
  return arguments;
}

std::string scratch(const std::string& name) {
  const std::string path = testing::TempDir() + "redsumrun_test." + std::to_string(::getpid()) + "." + name;
  std::filesystem::remove(path);
  return path;
}

TEST(Redsumrun, GivesEveryWorkerItsRankVariables) {
  const Result result = programs::run(sh(3,
                                         "echo $RANK $LOCAL_RANK $REDSUM_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE "
                                         "$REDSUM_WORLD_SIZE $REDSUM_JOB_ID $REDSUM_CHUNK_BYTES",
                                         {"--job-id", "j7", "--chunk-bytes", "65536"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.sorted_lines(),
              ElementsAre("[0] 0 0 0 3 3 3 j7 65536", "[1] 1 1 1 3 3 3 j7 65536", "[2] 2 2 2 3 3 3 j7 65536"));
}

TEST(Redsumrun, PassesAnExternalPoolOn) {
  const Result result =
      programs::run({"redsumrun", "-np", "1", "/bin/sh", "-c", "echo $REDSUM_COORDINATOR $REDSUM_SECRET_FILE"},
                    {"REDSUM_COORDINATOR=pool:7400", "REDSUM_SECRET_FILE=/a/secret"});
  EXPECT_EQ(result.out, "[0] pool:7400 /a/secret\n");
  EXPECT_EQ(result.exit_code, 0);
}

TEST(Redsumrun, AnEmptyJobIdCountsAsNotSet) {
  const Result result = programs::run(
      {"redsumrun", "-np", "1", "--reducers", "0", "/bin/sh", "-c", "echo $REDSUM_JOB_ID"}, {"REDSUM_JOB_ID="});
  EXPECT_THAT(result.out, testing::StartsWith("[0] run-"));
}

TEST(Redsumrun, FlagsAfterTheCommandBelongToIt) {
  const Result result =
      programs::run({"redsumrun", "--reducers", "0", "-np", "1", "/bin/echo", "-np", "3", "--reducers"});
  EXPECT_EQ(result.out, "[0] -np 3 --reducers\n");
}

TEST(Redsumrun, KeepsLinesWholeAndStreamsApart) {
  // Each worker writes half lines as fast as it can; every line must come out as it was meant.
  const Result result = programs::run(sh(4,
                                         "i=0; while [ $i -lt 200 ]; do printf aaaa$RANK; printf 'bbbb%s\\n' $RANK; "
                                         "echo err$RANK >&2; i=$((i+1)); done; printf end"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> lines = result.sorted_lines();
  ASSERT_EQ(lines.size(), 4u * 201);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const std::string r = std::to_string(rank);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "[" + r + "] aaaa" + r + "bbbb" + r), 200);
    EXPECT_EQ(std::count(lines.begin(), lines.end(), "[" + r + "] end"), 1);
  }
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 800);
  EXPECT_THAT(result.out, Not(HasSubstr("err")));
}

TEST(Redsumrun, LeavesThePrefixOutOnRequest) {
  const Result result = programs::run(sh(1, "echo plain", {"--no-prefix"}));
  EXPECT_EQ(result.out, "plain\n");
}

TEST(Redsumrun, NamesTheWorkerThatFailedAndEndsTheOthers) {
  const Result result = programs::run(sh(3, "if [ $RANK = 1 ]; then echo last words; exit 7; fi; exec sleep 60"));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.out, "[1] last words\n");
  EXPECT_THAT(result.err, HasSubstr("rank 1 (pid "));
  EXPECT_THAT(result.err, HasSubstr("exited with code 7"));
  EXPECT_THAT(result.err, Not(HasSubstr("rank 0")));
}

TEST(Redsumrun, NamesTheSignal) {
  const Result result = programs::run(sh(2, "if [ $RANK = 0 ]; then kill -SEGV $$; fi; exec sleep 60"));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(result.err, HasSubstr("rank 0 (pid "));
  EXPECT_THAT(result.err, HasSubstr("signal 11 (SIGSEGV)"));
}

TEST(Redsumrun, KillsAWorkerThatIgnoresSigterm) {
  const std::string deaf = scratch("deaf");
  const Result result =
      programs::run(sh(2, "if [ $RANK = 0 ]; then while [ ! -e " + deaf + " ]; do sleep 0.01; done; exit 3; fi; " +
                              "trap '' TERM; touch " + deaf + "; while :; do sleep 60; done"));
  EXPECT_EQ(result.exit_code, 3);
  std::filesystem::remove(deaf);
}

TEST(Redsumrun, EndsAfterItsTimeLimit) {
  const Result result = programs::run(sh(2, "if [ $RANK = 0 ]; then exit 0; fi; exec sleep 60", {"--timeout", "0.3"}));
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_THAT(result.err, HasSubstr("still running: rank 1"));
}

TEST(Redsumrun, SaysWhichFlagIsWrong) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "redsumrun");
    const Result result = programs::run(std::move(arguments));
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({"-np", "0", "true"}), HasSubstr("--np"));
  EXPECT_THAT(error({"-np", "x", "true"}), HasSubstr("--np"));
  EXPECT_THAT(error({"true"}), HasSubstr("--np"));
  EXPECT_THAT(error({"-np", "2", "--reducers", "-1", "true"}), HasSubstr("--reducers"));
  EXPECT_THAT(error({"-np", "2", "--no-such-flag", "true"}), HasSubstr("--no-such-flag"));
  EXPECT_THAT(error({"-np", "2", "--secret-file", "/no/such/file", "true"}), HasSubstr("--secret-file"));
  EXPECT_THAT(error({"-np", "2"}), HasSubstr("CMD"));
}

TEST(Redsumrun, TheModeOfTheEnvironmentIsCheckedAsThatOfTheFlag) {
  const auto error = [](std::vector<std::string> flags, const std::string& variable) {
    flags.insert(flags.begin(), {"redsumrun", "-np", "2"});
    flags.push_back("true");
    const Result result = programs::run(std::move(flags), {variable});
    EXPECT_EQ(result.exit_code, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(error({}, "REDSUM_MODE=star"), HasSubstr("REDSUM_MODE=star"));
  EXPECT_THAT(error({"--reducers", "2"}, "REDSUM_MODE=ring"), HasSubstr("REDSUM_MODE=ring has no reducers"));
  EXPECT_THAT(error({"--reducers", "2", "--mode", "direct"}, "REDSUM_MODE=server"),
              HasSubstr("--mode direct has no reducers"));
  // The flag wins, and an empty variable says nothing.
  const Result flag = programs::run(sh(1, "echo $REDSUM_MODE", {"--mode", "server"}), {"REDSUM_MODE=star"});
  EXPECT_EQ(flag.out, "[0] server\n") << flag.err;
  const Result empty = programs::run(sh(1, "echo mode $REDSUM_MODE"), {"REDSUM_MODE="});
  EXPECT_EQ(empty.out, "[0] mode\n") << empty.err;
}

TEST(Redsumrun, SaysWhichProgramItCannotStart) {
  const Result result = programs::run({"redsumrun", "-np", "2", "--reducers", "0", "/no/such/program"});
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_THAT(result.err, HasSubstr("/no/such/program"));
}

// The workers tell the pid of a background child of theirs, too.
void expect_no_orphans(int signal, const std::string& script) {
  Running run(sh(2, script));
  std::vector<pid_t> pids;
  for (int i = 0; i < 2; ++i) {
    const std::string line = run.read_line();
    int worker = 0;
    int child = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "[%*d] %d %d", &worker, &child), 2) << line;
    pids.insert(pids.end(), {worker, child});
  }
  for (const pid_t pid : pids) ASSERT_TRUE(programs::process_runs(pid));
  ::kill(run.pid(), signal);
  const Result result = run.finish();
  EXPECT_EQ(result.exit_code, 128 + signal) << result.err;
  for (const pid_t pid : pids) EXPECT_FALSE(programs::process_runs(pid)) << pid;
}

TEST(Redsumrun, CtrlCLeavesNoOrphan) {
  expect_no_orphans(SIGINT, "sleep 60 & echo $$ $!; wait");
}

TEST(Redsumrun, SigtermLeavesNoOrphanEvenWhenEverybodyIgnoresIt) {
  expect_no_orphans(SIGTERM, "trap '' TERM; sleep 60 & echo $$ $!; while :; do wait; done");
}

TEST(Redsumrun, ACommandThatLeftItsProcessGroupIsEndedToo) {
  expect_no_orphans(SIGTERM, "setsid sleep 60 & echo $$ $!; wait");
}

TEST(Redsumrun, WhatAFinishedWorkerLeftBehindIsEnded) {
  const std::string file = scratch("pid");
  const Result result = programs::run(sh(1, "sleep 60 & echo $! > " + file));
  EXPECT_EQ(result.exit_code, 0);
  std::ifstream stream(file);
  pid_t pid = 0;
  ASSERT_TRUE(stream >> pid);
  EXPECT_FALSE(programs::process_runs(pid));
  std::filesystem::remove(file);
}

}  // namespace
