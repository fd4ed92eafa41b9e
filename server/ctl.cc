// SPDX-License-Identifier: Apache-2.0
// redsumctl.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "server/admin_client.h"
#include "server/config_keys.h"
#include "server/ctl_status.h"

namespace {

using namespace redsum;
using namespace redsum::ctl;

constexpr const char* kDefaultAdmin = "127.0.0.1:7402";

struct Options {
  std::vector<std::string> addresses, admin;
  std::string output = "text";
  double timeout_seconds = 5;
};

std::vector<std::string> addresses_of(const Options& options) {
  std::vector<std::string> all;
  for (const auto* list : {&options.addresses, &options.admin})
    for (const std::string& text : *list)
      for (std::string& address : server::split_list(text)) all.push_back(std::move(address));
  const char* variable = std::getenv("REDSUM_ADMIN");
  if (all.empty()) all = server::split_list(variable ? variable : "");
  if (all.empty()) all = {kDefaultAdmin};
  return all;
}

int status(const Options& options) {
  std::vector<Answer> answers;
  for (const std::string& address : addresses_of(options)) {
    auto reply = http_get(address, "/status", static_cast<DurationNs>(options.timeout_seconds * 1e9));
    Answer answer{address, failure(Code::protocol_error,
                                   "it answered with HTTP status " + std::to_string(reply ? reply->status : 0))};
    if (!reply)
      answer.body = failure(reply.error());
    else if (reply->status == 200)
      answer.body = std::move(reply->body);
    answers.push_back(std::move(answer));
  }
  const Picture shown = options.output == "json" ? picture_json(answers) : picture(answers);
  std::fputs(shown.text.c_str(), stdout);
  for (const Answer& answer : answers)
    if (!answer.body) std::fprintf(stderr, "redsumctl: %s\n", answer.body.error().to_string().c_str());
  return shown.exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("redsumctl: looks at redsum daemons through their admin port", "redsumctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", "redsumctl " REDSUM_VERSION);
  Options options;
  CLI::App* status_command = app.add_subcommand("status",
                                                "Show daemons, reducers and jobs. Exit code: 0 fine, 1 not ready or "
                                                "stuck, 2 not reachable or a bad command line.");
  status_command->add_option("address", options.addresses,
                             "Admin addresses, host:port [REDSUM_ADMIN, else 127.0.0.1:7402]");
  status_command->add_option("--admin", options.admin, "The same as a flag; may be repeated, or a list by commas");
  status_command->add_option("-o,--output", options.output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  status_command->add_option("--timeout", options.timeout_seconds, "Seconds to wait for each daemon")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUnreachable;
  }
  return status(options);
}
