// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "client/run_output.h"

namespace {

using redsum::run::LineReader;
using redsum::run::OutputQueue;

struct Pipe {
  int fds[2] = {-1, -1};
  Pipe() { EXPECT_EQ(::pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0); }
  void write(std::string_view text) const {
    EXPECT_EQ(::write(fds[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
};

struct Lines {
  std::vector<std::string> seen;
  LineReader reader(int fd) {
    return {fd, [this](std::string_view line) { seen.emplace_back(line); }};
  }
};

TEST(LineReader, WaitsForTheEndOfALine) {
  const Pipe pipe;
  Lines lines;
  LineReader reader = lines.reader(pipe.fds[0]);
  pipe.write("one\ntw");
  reader.read_some();
  EXPECT_EQ(lines.seen, (std::vector<std::string>{"one"}));
  pipe.write("o\n\nthree");
  reader.read_some();
  EXPECT_EQ(lines.seen, (std::vector<std::string>{"one", "two", ""}));
  ::close(pipe.fds[1]);
  reader.read_some();
  EXPECT_EQ(lines.seen.back(), "three");
  EXPECT_EQ(reader.fd(), -1);
}

TEST(LineReader, DrainTakesWhatIsThereAndNoMore) {
  const Pipe pipe;  // stays open, as when a grandchild holds it
  Lines lines;
  LineReader reader = lines.reader(pipe.fds[0]);
  pipe.write("a\nrest");
  reader.drain();
  EXPECT_EQ(lines.seen, (std::vector<std::string>{"a", "rest"}));
  EXPECT_GE(reader.fd(), 0);
  ::close(pipe.fds[1]);
}

TEST(LineReader, CutsALineWithoutEnd) {
  const Pipe pipe;
  Lines lines;
  LineReader reader = lines.reader(pipe.fds[0]);
  const std::string block(4096, 'x');
  for (int i = 0; i < 300 && lines.seen.empty(); ++i) {
    pipe.write(block);
    reader.read_some();
  }
  ASSERT_EQ(lines.seen.size(), 1u);
  EXPECT_GT(lines.seen[0].size(), 1u << 20);
  ::close(pipe.fds[1]);
}

// The queue knows stdout and stderr; a test may not write to its own, so both are pipes here.
class Output : public testing::Test {
 protected:
  void SetUp() override {
    ::fflush(nullptr);
    saved_ = ::dup(STDOUT_FILENO);
    ::dup2(pipe_.fds[1], STDOUT_FILENO);
    ::signal(SIGPIPE, SIG_IGN);
  }
  void TearDown() override {
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
    ::close(pipe_.fds[1]);
  }
  std::string read_all() const {
    std::string text(1 << 20, '\0');
    const ssize_t got = ::read(pipe_.fds[0], text.data(), text.size());
    text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return text;
  }
  Pipe pipe_;
  int saved_ = -1;
};

TEST_F(Output, WritesWholeLinesInOrderByPieces) {
  OutputQueue queue;
  const std::string first = std::string(10'000, 'a') + "\n";
  queue.push(STDOUT_FILENO, first);
  queue.push(STDOUT_FILENO, "b\n");
  int pieces = 0;
  for (; !queue.empty(); ++pieces) ASSERT_TRUE(queue.write_some());
  EXPECT_EQ(pieces, 4);
  EXPECT_EQ(read_all(), first + "b\n");
  EXPECT_EQ(queue.blocked_fd(), -1);
}

TEST_F(Output, SaysWhenItIsFullAndWhenThereIsRoomAgain) {
  OutputQueue queue;
  while (!queue.full()) queue.push(STDOUT_FILENO, std::string(65'535, 'c') + "\n");
  std::size_t drained = 0;
  while (queue.full()) {
    ASSERT_TRUE(queue.write_some());
    drained += read_all().size();
  }
  EXPECT_GT(drained, 0u);
}

TEST_F(Output, DropsWhatNobodyReads) {
  OutputQueue queue;
  queue.push(STDOUT_FILENO, "a\n");
  queue.push(STDERR_FILENO, "kept\n");
  ::close(pipe_.fds[0]);
  EXPECT_FALSE(queue.write_some());
  EXPECT_EQ(queue.blocked_fd(), STDERR_FILENO);
  queue.push(STDOUT_FILENO, "never\n");
  EXPECT_EQ(queue.blocked_fd(), STDERR_FILENO);
}

}  // namespace
