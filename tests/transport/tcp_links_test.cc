// SPDX-License-Identifier: Apache-2.0
// Dialing, listening and strangers, over loopback.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/log.h"
#include "transport/tcp/address.h"
#include "transport/tcp/listen.h"
#include "transport/tcp/tcp.h"

namespace redsum::tcp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using transport::Link;

const wire::Key kKey = wire::key_from_secret("secret");
constexpr std::uint64_t kInstance = 42;

wire::Hello lane_hello(std::uint64_t target = 0) {
  wire::Hello hello;
  hello.job = "job";
  hello.rank = 5;
  hello.incarnation = 7;
  hello.target_instance = target;
  return hello;
}

class Links : public ::testing::Test {
 protected:
  Links() {
    log::set_sink(
        [](void* self, log::Level, std::string_view line) { static_cast<Links*>(self)->lines_.emplace_back(line); },
        this);
  }
  ~Links() override { log::set_sink(nullptr, nullptr); }

  void listen_at(const std::string& address, DurationNs limit_ns = kHandshakeLimitNs) {
    ListenSpec spec;
    spec.address = address;
    spec.instance = kInstance;
    spec.handshake_limit_ns = limit_ns;
    spec.key_for = [this](const wire::Hello&) -> Result<wire::Key> {
      ++keys_asked_;
      if (!refusal_) return failure(refusal_);
      return kKey;
    };
    spec.on_connected = [this](Connected connected) { accepted_.push_back(make_link(std::move(connected))); };
    auto made = listen(loop_, std::move(spec));
    ASSERT_TRUE(made.has_value()) << made.error().to_string();
    listening_ = std::move(*made);
  }
  // The outcome of one dial of `address`.
  Result<std::unique_ptr<Link>> dial(const std::string& address, const wire::Hello& hello, const wire::Key& key,
                                     DurationNs limit_ns = 20 * kSecond, std::vector<Endpoint> local = {}) {
    const auto dialer = make_dialer(loop_, std::move(local));
    std::unique_ptr<Result<std::unique_ptr<Link>>> outcome;
    dialer->dial(address, hello, key, monotonic_now() + limit_ns, [&](Result<std::unique_ptr<Link>> result) {
      EXPECT_EQ(outcome, nullptr);
      outcome = std::make_unique<Result<std::unique_ptr<Link>>>(std::move(result));
    });
    EXPECT_EQ(outcome, nullptr) << "called later, from the loop";
    while (!outcome) loop_.wait_until(kNever);
    return std::move(*outcome);
  }
  std::uint16_t port() const { return parse_host_port(listening_->address())->port; }
  int raw_connect() const {
    const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port());
    EXPECT_EQ(::connect(s, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    return s;
  }
  // Runs the loop until the other end of `s` has closed; returns the bytes that came before.
  std::size_t until_closed(int s) {
    std::size_t got = 0;
    char buffer[4096];
    for (;;) {
      const ssize_t n = ::recv(s, buffer, sizeof buffer, MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) break;
      if (n > 0) got += static_cast<std::size_t>(n);
      loop_.wait_until(monotonic_now() + kMillisecond);
    }
    ::close(s);
    return got;
  }
  void send_all(int s, ConstBytes bytes) { ::send(s, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  Loop loop_;
  std::vector<std::string> lines_;
  Status refusal_;
  int keys_asked_ = 0;
  std::vector<std::unique_ptr<Link>> accepted_;
  std::unique_ptr<Listening> listening_;
};

TEST_F(Links, AHandshakeBindsTheHelloToBothEnds) {
  for (const char* address : {"127.0.0.1:0", "[::1]:0", "localhost:0"}) {
    accepted_.clear();
    listen_at(address);
    const auto link = dial(listening_->address(), lane_hello(kInstance), kKey);
    ASSERT_TRUE(link.has_value()) << link.error().to_string();
    while (accepted_.empty()) loop_.wait_until(kNever);
    EXPECT_EQ(accepted_[0]->hello().job, "job");
    EXPECT_EQ(accepted_[0]->hello().rank, 5u);
    EXPECT_EQ(accepted_[0]->hello().nonce, (*link)->hello().nonce);
    EXPECT_EQ((*link)->peer_address(), listening_->address());
  }
  // By name, whichever family the name has here.
  listen_at("localhost:0");
  EXPECT_TRUE(dial("localhost:" + std::to_string(port()), lane_hello(), kKey).has_value());
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Links, AWrongKeyAnotherInstanceAndARefusalEndADialAtOnce) {
  listen_at("127.0.0.1:0");
  const auto wrong_key = dial(listening_->address(), lane_hello(), wire::key_from_secret("other"));
  EXPECT_EQ(wrong_key.error().code(), Code::auth_failed);
  EXPECT_NE(wrong_key.error().text().find(listening_->address()), std::string::npos) << wrong_key.error().text();
  const auto other = dial(listening_->address(), lane_hello(kInstance + 1), kKey);
  EXPECT_EQ(other.error().code(), Code::auth_failed);
  EXPECT_NE(other.error().text().find("another process answers at " + listening_->address()), std::string::npos)
      << other.error().text();
  refusal_ = {Code::resource_exhausted, "no room for job"};
  EXPECT_EQ(dial(listening_->address(), lane_hello(), kKey).error().code(), Code::resource_exhausted);
  EXPECT_TRUE(accepted_.empty());
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Links, OPS_03_AnotherMajorVersionIsNamed) {
  listen_at("127.0.0.1:0");
  wire::Hello hello = lane_hello();
  hello.major = wire::kProtocolMajor + 1;
  const auto link = dial(listening_->address(), hello, kKey);
  EXPECT_EQ(link.error().code(), Code::version_mismatch);
  EXPECT_NE(link.error().text().find("2.0"), std::string::npos);
  EXPECT_NE(link.error().text().find("1.0"), std::string::npos);
  EXPECT_EQ(keys_asked_, 0);
}

TEST_F(Links, BadAddressesAreInvalidArguments) {
  EXPECT_EQ(dial("nowhere", lane_hello(), kKey).error().code(), Code::invalid_argument);
  EXPECT_EQ(dial("127.0.0.1:0", lane_hello(), kKey).error().code(), Code::invalid_argument);
}

TEST_F(Links, NET_07_ADialWaitsForAListenerThatComesLater) {
  listen_at("127.0.0.1:0");
  const std::string address = listening_->address();
  listening_.reset();
  Timer later(loop_);
  later.at(monotonic_now() + 150 * kMillisecond, [&] { listen_at(address); });
  const auto link = dial(address, lane_hello(), kKey);
  EXPECT_TRUE(link.has_value()) << link.error().to_string();
}

TEST_F(Links, NET_07_ADialWithoutAListenerEndsAtItsDeadlineAndSaysWhy) {
  listen_at("127.0.0.1:0");
  const std::string address = listening_->address();
  listening_.reset();
  const auto link = dial(address, lane_hello(), kKey, 300 * kMillisecond);
  ASSERT_FALSE(link.has_value());
  EXPECT_EQ(link.error().code(), Code::timeout);
  for (const std::string& part : {address, std::string("attempts"), std::string("Connection refused (111)")}) {
    EXPECT_NE(link.error().text().find(part), std::string::npos) << link.error().text();
  }
}

TEST_F(Links, NET_02_ALaneComesFromTheAddressThatWasChosen) {
  const auto from = [&](const char* host) {
    accepted_.clear();
    const auto link = dial(listening_->address(), lane_hello(), kKey, 20 * kSecond, {*numeric_endpoint({host, 0})});
    if (!link) return link.error().to_string();
    while (accepted_.empty()) loop_.wait_until(kNever);
    return parse_host_port(accepted_[0]->peer_address())->host;
  };
  listen_at("127.0.0.1:0");
  EXPECT_EQ(from("127.0.0.2"), "127.0.0.2");
  EXPECT_EQ(from("127.0.0.3"), "127.0.0.3");
  // Whatever the card: loopback is reached over loopback.
  EXPECT_EQ(from("192.0.2.77"), "127.0.0.1");
  EXPECT_EQ(from("::1"), "127.0.0.1");
}

TEST_F(Links, NET_02_ACardThatIsGoneOrOfTheOtherFamilyIsNamed) {
  const auto error = [&](const char* address, const char* local) {
    const auto link = dial(address, lane_hello(), kKey, 100 * kMillisecond, {*numeric_endpoint({local, 0})});
    return link ? "no error" : link.error().to_string();
  };
  // TEST-NET addresses: no host has them, and nothing is sent since the bind fails.
  EXPECT_THAT(error("198.51.100.1:7401", "203.0.113.9"),
              AllOf(HasSubstr("timeout"), HasSubstr("from the local address 203.0.113.9"), HasSubstr("(99)")));
  EXPECT_THAT(error("198.51.100.1:7401", "2001:db8::1"),
              AllOf(HasSubstr("timeout"), HasSubstr("198.51.100.1:7401"), HasSubstr("[2001:db8::1]")));
}

TEST_F(Links, ACancelledDialIsSilent) {
  listen_at("127.0.0.1:0");
  const auto dialer = make_dialer(loop_);
  const auto dial_and_cancel = [&](const std::string& address, int turns) {
    dialer->dial(address, lane_hello(), kKey, kNever, [](auto) { FAIL(); });
    for (int i = 0; i < turns; ++i) loop_.wait_until(monotonic_now() + kMillisecond);
    dialer->cancel();
  };
  dial_and_cancel(listening_->address(), 0);                  // not begun
  dial_and_cancel("localhost:" + std::to_string(port()), 1);  // in the name's resolution
  const std::string address = listening_->address();
  listening_.reset();
  dial_and_cancel(address, 5);  // refused, in a pause
  listen_at(address);
  for (int i = 0; i < 50; ++i) loop_.wait_until(monotonic_now() + kMillisecond);
  EXPECT_TRUE(accepted_.empty());
}

TEST_F(Links, AnAddressInUseIsNamedAndFreeAgainAtOnce) {
  listen_at("127.0.0.1:0");
  const std::string address = listening_->address();
  const auto second = make_listener(
      loop_, address, 0, [](const auto&) -> Result<wire::Key> { return kKey; }, [](auto) {});
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), Code::resource_exhausted);
  EXPECT_NE(second.error().text().find(address), std::string::npos);
  const auto link = dial(address, lane_hello(), kKey);
  listening_.reset();
  accepted_.clear();  // this side closes first: its end of the connection lingers in TIME_WAIT on the port
  loop_.poll();
  listen_at(address);
}

TEST_F(Links, StrangersAreClosedWithoutEffect) {
  listen_at("127.0.0.1:0");
  const std::string pickle(
      "\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85\x94R"
      "\x94.",
      37);
  std::string garbage(4096, '\xFF');
  for (std::string text : {garbage, std::string("GET / HTTP/1.1\r\n\r\n") + garbage, pickle + garbage}) {
    const int s = raw_connect();
    send_all(s, std::as_bytes(std::span(text)));
    EXPECT_EQ(until_closed(s), 0u) << "who does not speak the protocol gets no answer";
  }
  // The right hello, then a guessed proof: a challenge and a verdict come back, no link is made.
  const int s = raw_connect();
  send_all(s, wire::encode_hello(lane_hello()));
  const std::vector<std::byte> guess(wire::kProofBytes);
  send_all(s, guess);
  EXPECT_EQ(until_closed(s), wire::kChallengeBytes + wire::kVerdictBytes);
  EXPECT_EQ(keys_asked_, 1);
  EXPECT_TRUE(accepted_.empty());
  EXPECT_TRUE(lines_.empty()) << lines_[0];
  EXPECT_TRUE(dial(listening_->address(), lane_hello(), kKey).has_value());
}

TEST_F(Links, WhoIsSilentOrHalfDoneIsClosedAtTheLimit) {
  listen_at("127.0.0.1:0", 200 * kMillisecond);
  const int silent = raw_connect(), half = raw_connect();
  const auto hello = wire::encode_hello(lane_hello());
  send_all(half, ConstBytes(hello).first(100));
  EXPECT_EQ(until_closed(silent), 0u);
  EXPECT_EQ(until_closed(half), 0u);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Links, AHundredBareConnectsLeaveNoLine) {
  listen_at("127.0.0.1:0");
  for (int i = 0; i < 100; ++i) {
    ::close(raw_connect());
    loop_.poll();
  }
  EXPECT_TRUE(dial(listening_->address(), lane_hello(), kKey).has_value());
  EXPECT_TRUE(lines_.empty());
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(Links, SEC_02_GiantLengthsCostNoMemoryAndEndInTime) {
  listen_at("127.0.0.1:0");  // with the real limit of 5 s
  const std::size_t before = resident_bytes();
  const std::vector<std::byte> giant(200, std::byte{0xFF});
  std::vector<int> sockets;
  const TimeNs started = monotonic_now();
  for (int i = 0; i < 100; ++i) {
    sockets.push_back(raw_connect());
    send_all(sockets.back(), giant);
    loop_.poll();
  }
  const std::size_t during = resident_bytes();
  for (const int s : sockets) EXPECT_EQ(until_closed(s), 0u);
  EXPECT_LT(monotonic_now() - started, 15 * kSecond) << "5 s, and room for a busy machine";
  EXPECT_LT(during - std::min(before, during), 16u << 20);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(Links, AcceptingSurvivesAShortageOfDescriptors) {
  listen_at("127.0.0.1:0");
  rlimit limit{}, small{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int s = raw_connect();
  const int probe = ::dup(0);
  ::close(probe);
  small = limit;
  small.rlim_cur = static_cast<rlim_t>(probe);  // no descriptor is left
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  int turns = 0;
  const TimeNs end = monotonic_now() + 350 * kMillisecond;
  while (monotonic_now() < end) {
    loop_.wait_until(end);
    ++turns;
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_LE(turns, 20) << "pauses, does not spin";
  EXPECT_EQ(lines_.size(), 1u) << "one warning";
  send_all(s, std::vector<std::byte>(wire::kHelloBytes));
  EXPECT_EQ(until_closed(s), 0u) << "taken and refused once there is room";
}

TEST_F(Links, NET_11_SignalsOfTheProcessAreNotTouched) {
  struct sigaction before {
  }, after{};
  ::sigaction(SIGPIPE, nullptr, &before);
  listen_at("127.0.0.1:0");
  EXPECT_TRUE(dial(listening_->address(), lane_hello(), kKey).has_value());
  ::sigaction(SIGPIPE, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
  EXPECT_EQ(before.sa_flags, after.sa_flags);
}

}  // namespace
}  // namespace redsum::tcp
