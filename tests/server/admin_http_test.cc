// SPDX-License-Identifier: Apache-2.0
// The admin port over real sockets on loopback: good requests, bad ones, and too many.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "server/admin.h"
#include "server/admin_client.h"
#include "server/config_keys.h"
#include "tests/server/example_status.h"

namespace redsum::server {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kLimitSeconds = 30;  // of a test that hangs

// A client that sends what no HTTP library would.
class RawClient {
 public:
  explicit RawClient(const std::string& address) {
    const auto target = parse_address(address);
    EXPECT_TRUE(target);
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval limit{kLimitSeconds, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in peer{};
    peer.sin_family = AF_INET;
    peer.sin_port = htons(target->port);
    ::inet_pton(AF_INET, target->host.c_str(), &peer.sin_addr);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&peer), sizeof peer), 0);
  }
  ~RawClient() { ::close(fd_); }
  RawClient(const RawClient&) = delete;

  RawClient& send(const std::string& text) {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    return *this;
  }
  // All bytes until the server closes.
  std::string until_closed() {
    std::string all;
    char piece[4096];
    for (;;) {
      const ssize_t n = ::recv(fd_, piece, sizeof piece, 0);
      if (n < 0 && errno == EAGAIN) ADD_FAILURE() << "the server did not close";
      if (n <= 0) return all;
      all.append(piece, static_cast<std::size_t>(n));
    }
  }
  // Bytes until `text` has been seen.
  std::string until(const std::string& text) {
    std::string all;
    char byte;
    while (all.find(text) == std::string::npos && ::recv(fd_, &byte, 1, 0) == 1) all += byte;
    return all;
  }

 private:
  int fd_ = -1;
};

std::unique_ptr<AdminServer> started(AdminConfig config = {}) {
  config.address = "127.0.0.1:0";
  auto server = start_admin(config, test::example_status);
  EXPECT_TRUE(server) << server.error().text();
  return std::move(*server);
}

std::string ask(const AdminServer& server, const std::string& request) {
  return RawClient(server.address()).send(request).until_closed();
}

TEST(AdminPort, AnswersEveryPath) {
  const auto server = started();
  for (const char* path : {"/", "/status", "/metrics", "/livez", "/readyz", "/version", "/status?pretty=1"}) {
    const auto reply = ctl::http_get(server->address(), path, kLimitSeconds * kSecond);
    ASSERT_TRUE(reply) << path << ": " << reply.error().text();
    EXPECT_EQ(reply->status, 200) << path;
    EXPECT_FALSE(reply->body.empty()) << path;
  }
  EXPECT_EQ(ctl::http_get(server->address(), "/nothing", kLimitSeconds * kSecond)->status, 404);
}

TEST(AdminPort, HeadHasTheHeaderOfGetAndNoBody) {
  const auto server = started();
  const std::string head = ask(*server, "HEAD /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("Content-Length: 3\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(head, HasSubstr("Cache-Control: no-store"));
}

TEST(AdminPort, KeepsAConnectionAndTakesRequestsInARow) {
  const auto server = started();
  RawClient client(server->address());
  const std::string request = "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n";
  client.send(request + request);  // two at once
  client.until("\r\n\r\nok\n");
  client.until("\r\n\r\nok\n");
  client.send("GET /readyz HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.until_closed(), AllOf(HasSubstr("200"), EndsWith("\r\n\r\nok\n")));
}

TEST(AdminPort, RefusesWhatIsNoRequestOfItsKind) {
  const auto server = started();
  EXPECT_THAT(ask(*server, "nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(*server, "GET / HTTP/9.9\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(*server, "\x16\x03\x01\x02\x01\x03\x03" + std::string(200, '\x7f')), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(*server, "POST /status HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"), StartsWith("HTTP/1.1 4"));
  EXPECT_THAT(ask(*server, "DELETE / HTTP/1.1\r\nConnection: close\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD\r\n")));
  EXPECT_THAT(ask(*server, "GET / HTTP/1.1\r\nX: " + std::string(kMaxAdminHeaderBytes, 'x') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(ask(*server, "GET /" + std::string(3 * kMaxAdminHeaderBytes, 'x')), StartsWith("HTTP/1.1 4"));
  EXPECT_EQ(ctl::http_get(server->address(), "/livez", kLimitSeconds * kSecond)->status, 200) << "it lives on";
}

TEST(AdminPort, AHalfSentRequestIsClosedInTime) {
  AdminConfig config;
  config.request_timeout = 50 * kMillisecond;
  const auto server = started(config);
  EXPECT_EQ(ask(*server, "GET / HTTP/1.1\r\nX: slow"), "");
  EXPECT_EQ(ask(*server, ""), "") << "and so is one that says nothing";
}

TEST(AdminPort, ManyIdleConnectionsDoNotKeepAProbeOut) {
  AdminConfig config;
  config.max_connections = 8;
  config.request_timeout = kLimitSeconds * kSecond;  // it is not time that frees them
  const auto server = started(config);
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(std::make_unique<RawClient>(server->address()));
  const auto reply = ctl::http_get(server->address(), "/livez", kLimitSeconds * kSecond);
  ASSERT_TRUE(reply) << reply.error().text();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(idle.front()->until_closed(), "") << "the one that was idle for longest made room";
}

TEST(AdminPort, ManyClientsAtOnce) {
  const auto server = started();
  std::atomic<int> fine{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        const auto reply = ctl::http_get(server->address(), "/metrics", kLimitSeconds * kSecond);
        fine += reply && reply->status == 200 ? 1 : 0;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fine, 100);
}

TEST(AdminPort, ASecondServerOnThePortIsRefusedAndANextOneIsNot) {
  auto first = started();
  AdminConfig config;
  config.address = first->address();
  const auto second = start_admin(config, test::example_status);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::resource_exhausted);
  EXPECT_THAT(second.error().text(), HasSubstr(config.address));
  RawClient open(config.address);  // a connection that the close will leave behind
  open.send("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").until("ok\n");
  first.reset();
  const auto third = start_admin(config, test::example_status);
  EXPECT_TRUE(third) << third.error().text();
}

TEST(AdminPort, BadAddressesAreErrors) {
  for (const char* address : {"192.0.2.1:7402", "no-port", "256.1.1.1:1"}) {
    AdminConfig config;
    config.address = address;
    const auto server = start_admin(config, test::example_status);
    ASSERT_FALSE(server) << address;
    EXPECT_EQ(server.error().code(), Code::invalid_argument) << address;
    EXPECT_THAT(server.error().text(), HasSubstr(address));
  }
}

TEST(AdminClient, SaysWhatIsWrongAndWhere) {
  const auto nobody = ctl::http_get("127.0.0.1:1", "/", kLimitSeconds * kSecond);
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().code(), Code::peer_lost);
  EXPECT_THAT(nobody.error().text(), HasSubstr("127.0.0.1:1"));
  EXPECT_EQ(ctl::http_get("nowhere", "/", kSecond).error().code(), Code::invalid_argument);

  const int silent = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof own;
  ASSERT_EQ(::bind(silent, reinterpret_cast<const sockaddr*>(&own), size), 0);
  ASSERT_EQ(::listen(silent, 1), 0);
  ASSERT_EQ(::getsockname(silent, reinterpret_cast<sockaddr*>(&own), &size), 0);
  const auto late = ctl::http_get("127.0.0.1:" + std::to_string(ntohs(own.sin_port)), "/", 50 * kMillisecond);
  ::close(silent);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code(), Code::timeout);
  EXPECT_THAT(late.error().text(), HasSubstr("50ms"));
}

}  // namespace
}  // namespace redsum::server
