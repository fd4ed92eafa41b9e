// SPDX-License-Identifier: Apache-2.0
// redsumctl's picture and its exit code.
#include "server/ctl_status.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "server/ctl_box.h"
#include "tests/server/example_status.h"

namespace redsum::ctl {
namespace {

using test::example_status;
using testing::AllOf;
using testing::HasSubstr;

Answer answer_of(const server::DaemonStatus& status, const std::string& address = "127.0.0.1:7402") {
  return {address, server::status_json(status)};
}

void expect_rectangle(const std::string& box) {
  std::istringstream lines(box);
  std::string first;
  std::getline(lines, first);
  for (std::string line; std::getline(lines, line);) EXPECT_EQ(line.size(), first.size()) << line;
}

TEST(StatusPicture, ShowsDaemonsReducersAndJobs) {
  const Picture shown = picture({answer_of(example_status())});
  EXPECT_EQ(shown.exit_code, kFine);
  EXPECT_THAT(shown.text, AllOf(HasSubstr("1 daemon, 1 reducer, 1 job"), HasSubstr("coordinator+reducer"),
                                HasSubstr("256 MiB / 1.0 GiB"), HasSubstr("registered"), HasSubstr("3 (0.750 s)")));
  EXPECT_THAT(shown.text, AllOf(HasSubstr("forming"), HasSubstr("3/4"), HasSubstr("1 m 40 s")));
  expect_rectangle(shown.text);
}

TEST(StatusPicture, AddsTheSameJobUpOverReducers) {
  server::DaemonStatus one = example_status(), other = example_status();
  other.coordinator.reset();
  other.reducer->name = "r1";
  const Picture shown = picture({answer_of(one), answer_of(other, "127.0.0.1:7502")});
  EXPECT_THAT(shown.text, AllOf(HasSubstr("2 daemons, 2 reducers, 1 job"), HasSubstr("512 MiB")));
  expect_rectangle(shown.text);
}

TEST(StatusPicture, TheWorstDaemonMakesTheExitCode) {
  server::DaemonStatus degraded = example_status(), stuck = example_status();
  degraded.reducer->registered = false;
  stuck.reducer->stuck = true;
  const Answer fine = answer_of(example_status()),
               gone{"10.0.0.9:7402", failure(Code::peer_lost, "Connection refused")};
  EXPECT_EQ(picture({fine, answer_of(degraded)}).exit_code, kDegraded);
  EXPECT_THAT(picture({answer_of(stuck)}).text, HasSubstr("STUCK"));
  EXPECT_EQ(picture({answer_of(stuck)}).exit_code, kDegraded);
  EXPECT_EQ(picture({gone, answer_of(degraded)}).exit_code, kUnreachable);
  EXPECT_THAT(picture({gone, fine}).text, AllOf(HasSubstr("10.0.0.9:7402"), HasSubstr("Connection refused")));
}

TEST(StatusPicture, OtherVersionsAndStrangersDoNotBreakIt) {
  for (const char* body : {"", "[]", "{", "null", "3", "<html>"})
    EXPECT_EQ(picture({{"a:1", std::string(body)}}).exit_code, kUnreachable) << body;
  for (const char* body :
       {"{}", R"({"reducer":3,"coordinator":[]})", R"({"ready":"yes","reducer":{"shards":{"a":1},"jobs":[1,{}]}})",
        R"({"coordinator":{"jobs":[{"epoch":1,"seconds":"x"}]},"reducer":{"jobs":[{"slowest":[{}]}]}})",
        R"({"reducer":{"name":7,"shards":[{"bytes_sent":-1},{"bytes_sent":1e300}],"budget_bytes":-5.5}})"}) {
    const Picture shown = picture({{"a:1", std::string(body)}});
    EXPECT_EQ(shown.exit_code, kDegraded) << body;
    expect_rectangle(shown.text);
  }
}

TEST(StatusPicture, AsJson) {
  const Answer gone{"10.0.0.9:7402", failure(Code::peer_lost, "Connection refused")};
  const Picture shown = picture_json({answer_of(example_status()), gone});
  EXPECT_EQ(shown.exit_code, kUnreachable);
  const auto json = nlohmann::json::parse(shown.text);
  EXPECT_EQ(json["exit_code"], kUnreachable);
  EXPECT_EQ(json["daemons"][0]["status"]["reducer"]["name"], "r0");
  EXPECT_THAT(json["daemons"][1]["error"].get<std::string>(), HasSubstr("refused"));
}

TEST(Box, StaysARectangleWhateverIsInIt) {
  const std::string box = draw_box(
      "head", {{{"A", ">Number"}, {{"x", "1"}, {std::string(200, 'y'), "12345"}, {"\x1b[31mred\n", ""}, {"short"}}},
               {{"Without rows"}, {}}});
  expect_rectangle(box);
  EXPECT_THAT(box, AllOf(HasSubstr("..."), HasSubstr("?[31mred?"), HasSubstr("|  12345 |")));
  EXPECT_EQ(box.find("Without rows"), std::string::npos);
  EXPECT_EQ(draw_box("only this", {}), "+-----------+\n| only this |\n+-----------+\n");
}

}  // namespace
}  // namespace redsum::ctl
