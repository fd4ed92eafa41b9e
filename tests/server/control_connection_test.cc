// SPDX-License-Identifier: Apache-2.0
// Control connections over loopback: what arrives, what ends a connection, what a stranger achieves.
#include "transport/control/connection.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "transport/tcp/address.h"
#include "transport/tcp/dial.h"

namespace redsum::control {
namespace {

constexpr DurationNs kPatience = 20 * kSecond;  // of a test for what must happen; never the measure of anything

// One end with what came to it.
struct End {
  std::shared_ptr<Connection> connection;
  std::vector<wire::Message> messages;
  std::optional<Status> lost;

  void start() {
    connection->start([this](wire::Message message) { messages.push_back(std::move(message)); },
                      [this](const Status& why) { lost = why; });
  }
  template <typename T>
  const T* last() const {
    return messages.empty() ? nullptr : std::get_if<T>(&messages.back());
  }
};

class ControlConnection : public testing::Test {
 protected:
  void SetUp() override { listen("127.0.0.1:0"); }

  void listen(const std::string& address) {
    auto made = control::listen(loop_, address, key_, [this](std::shared_ptr<Connection> connection) {
      accepted_.emplace_back().connection = std::move(connection);
    });
    ASSERT_TRUE(made) << made.error().to_string();
    acceptor_ = std::move(*made);
  }
  bool until(const std::function<bool()>& holds) {
    const TimeNs end = monotonic_now() + kPatience;
    while (!holds() && monotonic_now() < end) loop_.wait_until(std::min(end, monotonic_now() + 10 * kMillisecond));
    return holds();
  }
  wire::Hello hello() const {
    wire::Hello hello;
    hello.purpose = wire::Purpose::control_worker;
    hello.job = "train";
    hello.rank = 3;
    hello.incarnation = 77;
    return hello;
  }
  Result<std::shared_ptr<Connection>> dial(const wire::Hello& hello, const wire::Key& key) {
    std::optional<Result<std::shared_ptr<Connection>>> result;
    DialSpec spec{{acceptor_->address()}, hello, key, monotonic_now() + kPatience / 2};
    const auto dialing = control::dial(loop_, spec, [&](auto dialed) { result = std::move(dialed); });
    until([&] { return result.has_value(); });
    return result ? std::move(*result) : failure(Code::timeout, "the test's patience is over");
  }
  // A pair of ends that have both started.
  void connect() {
    auto dialed = dial(hello(), key_);
    ASSERT_TRUE(dialed) << dialed.error().to_string();
    client_.connection = std::move(*dialed);
    ASSERT_TRUE(until([&] { return !accepted_.empty(); }));
    client_.start();
    accepted_.front().start();
  }
  // A socket that has proven the key and now sends what it likes.
  tcp::Socket connect_raw() {
    std::optional<tcp::Socket> socket;
    const auto dialing =
        tcp::dial(loop_, {{acceptor_->address()}, hello(), key_, monotonic_now() + kPatience}, [&](auto connected) {
          ASSERT_TRUE(connected) << connected.error().to_string();
          socket = std::move(connected->socket);
        });
    EXPECT_TRUE(until([&] { return socket.has_value() && !accepted_.empty(); }));
    accepted_.front().start();
    return std::move(*socket);
  }
  static void write_raw(const tcp::Socket& socket, std::string_view bytes) {
    ASSERT_EQ(::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // What the socket is told until the other side ends.
  std::string read_to_end(const tcp::Socket& socket) {
    std::string all;
    bool ended = false;
    EXPECT_TRUE(until([&] {
      char bytes[4096];
      const ssize_t n = ::recv(socket.descriptor(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (n > 0) all.append(bytes, static_cast<std::size_t>(n));
      ended = ended || n == 0;
      return ended;
    }));
    return all;
  }
  static std::string frame(std::string_view text, std::optional<std::uint32_t> length = {}) {
    const std::uint32_t bytes = length.value_or(static_cast<std::uint32_t>(text.size()));
    std::string frame;
    for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(bytes >> shift & 0xFF);
    return frame + std::string(text);
  }

  Loop loop_;
  wire::Key key_ = wire::key_from_secret("a pool's secret");
  std::unique_ptr<Acceptor> acceptor_;
  std::deque<End> accepted_;  // references stay valid
  End client_;
};

TEST_F(ControlConnection, CarriesMessagesBothWaysInOrder) {
  connect();
  End& server = accepted_.front();
  EXPECT_EQ(server.connection->hello().job, "train");
  EXPECT_EQ(server.connection->hello().rank, 3u);
  EXPECT_EQ(server.connection->hello().incarnation, 77u);
  EXPECT_EQ(server.connection->peer_address(), client_.connection->local_address());
  EXPECT_EQ(client_.connection->peer_address(), acceptor_->address());
  for (std::uint64_t i = 0; i < 1000; ++i) {
    client_.connection->send(wire::Heartbeat{i});
    if (i % 2 == 0) server.connection->send(wire::Describe{0, i});
  }
  ASSERT_TRUE(until([&] { return server.messages.size() == 1000 && client_.messages.size() == 500; }));
  for (std::uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(std::get<wire::Heartbeat>(server.messages[i]).count, i);
  for (std::uint64_t i = 0; i < 500; ++i) EXPECT_EQ(std::get<wire::Describe>(client_.messages[i]).sequence, 2 * i);
}

TEST_F(ControlConnection, KeepsWhatArrivesBeforeItIsStarted) {
  auto dialed = dial(hello(), key_);
  ASSERT_TRUE(dialed);
  (*dialed)->send(wire::Heartbeat{1});
  (*dialed)->close();
  ASSERT_TRUE(until([&] { return !accepted_.empty(); }));
  for (int i = 0; i < 20; ++i) loop_.poll();
  End& server = accepted_.front();
  EXPECT_TRUE(server.messages.empty());
  server.start();
  ASSERT_TRUE(until([&] { return server.lost.has_value(); }));
  ASSERT_EQ(server.messages.size(), 1u);
  EXPECT_EQ(server.lost->code(), Code::peer_lost);
}

TEST_F(ControlConnection, CarriesARecordOfThousandsOfWorkers) {
  connect();
  wire::Joined joined;
  joined.record.settings = {65536, 4, 4, 16384};
  for (std::uint32_t rank = 0; rank < 8192; ++rank)
    joined.record.workers.push_back({rank, rank + 1ull, "node" + std::to_string(rank) + ".cluster:12345"});
  const auto text = std::make_shared<const std::string>(wire::encode(joined));
  EXPECT_GT(text->size(), 400'000u);
  accepted_.front().connection->send_encoded(text);
  accepted_.front().connection->send(wire::Heartbeat{9});
  ASSERT_TRUE(until([&] { return client_.messages.size() == 2; }));
  EXPECT_EQ(std::get<wire::Joined>(client_.messages[0]).record, joined.record);
}

TEST_F(ControlConnection, ASlowPeersFrameIsPutTogetherFromItsBytes) {
  const tcp::Socket socket = connect_raw();
  End& server = accepted_.front();
  const std::string bytes = frame(wire::encode(wire::Heartbeat{5})) + frame(wire::encode(wire::Heartbeat{6}));
  for (const char byte : bytes) {
    write_raw(socket, std::string_view(&byte, 1));
    loop_.poll();
  }
  ASSERT_TRUE(until([&] { return server.messages.size() == 2; }));
  EXPECT_EQ(std::get<wire::Heartbeat>(server.messages[1]).count, 6u);
  EXPECT_FALSE(server.lost.has_value());
}

TEST_F(ControlConnection, BytesThatAreNoMessageEndItAndTheSenderIsTold) {
  const std::string bad[] = {
      frame("", static_cast<std::uint32_t>(wire::kMaxControlBytes + 1)),
      frame("", 0xFFFFFFFF),
      frame(""),
      frame("not json"),
      frame("[1,2]"),
      frame(R"({"type":"surprise"})"),
      frame(R"({"type":"heartbeat"})"),
      frame(R"({"type":"heartbeat","count":-1})"),
      frame(std::string(20000, '[')),
      frame(std::string("\x00\xFF\xFE", 3)),
  };
  for (const std::string& bytes : bad) {
    accepted_.clear();
    const tcp::Socket socket = connect_raw();
    End& server = accepted_.front();
    write_raw(socket, frame(wire::encode(wire::Heartbeat{5})) + bytes + frame(wire::encode(wire::Heartbeat{6})));
    ASSERT_TRUE(until([&] { return server.lost.has_value(); })) << bytes.substr(4, 40);
    EXPECT_EQ(server.lost->code(), Code::protocol_error) << server.lost->to_string();
    EXPECT_EQ(server.messages.size(), 1u) << "what came before counts, what comes after does not";
    const std::string told = read_to_end(socket);
    ASSERT_GT(told.size(), 4u);
    const auto message = wire::decode(told.substr(4));
    ASSERT_TRUE(message) << message.error().to_string();
    EXPECT_EQ(std::get<wire::Fail>(*message).code, Code::protocol_error);
  }
}

TEST_F(ControlConnection, AFrameCutShortIsNoMessage) {
  tcp::Socket socket = connect_raw();
  End& server = accepted_.front();
  const std::string whole = frame(wire::encode(wire::Heartbeat{5}));
  write_raw(socket, whole.substr(0, whole.size() - 1));
  ::shutdown(socket.descriptor(), SHUT_WR);
  ASSERT_TRUE(until([&] { return server.lost.has_value(); }));
  EXPECT_TRUE(server.messages.empty());
  EXPECT_EQ(server.lost->code(), Code::peer_lost);
}

TEST_F(ControlConnection, CloseSendsWhatIsQueuedThoughThePeerKeepsTalking) {
  connect();
  End& server = accepted_.front();
  wire::Fail fail{wire::kEveryCommunicator, Code::peer_lost, std::string(4000, 'x'), {}};
  for (int i = 0; i < 200; ++i) client_.connection->send(wire::Heartbeat{1});  // unread when the other closes
  for (int i = 0; i < 100; ++i) server.connection->send(fail);
  server.connection->close();
  server.connection.reset();
  ASSERT_TRUE(until([&] { return client_.lost.has_value(); }));
  EXPECT_EQ(client_.messages.size(), 100u);
  EXPECT_TRUE(server.messages.empty()) << "no callback after close";
  EXPECT_FALSE(server.lost.has_value());
}

TEST_F(ControlConnection, SaysWhenItIsClosed) {
  connect();
  bool closed = false;
  client_.connection->send(wire::Leave{});
  client_.connection->close([&] { closed = true; });
  ASSERT_TRUE(until([&] { return accepted_.front().lost.has_value(); }));
  EXPECT_NE(accepted_.front().last<wire::Leave>(), nullptr);
  EXPECT_TRUE(until([&] { return closed; }));
}

TEST_F(ControlConnection, ACallbackMayDropTheConnection) {
  auto dialed = dial(hello(), key_);
  ASSERT_TRUE(dialed && until([&] { return !accepted_.empty(); }));
  End& server = accepted_.front();
  int messages = 0;
  server.connection->start(
      [&](const wire::Message&) {
        ++messages;
        server.connection.reset();
      },
      [&](const Status&) { FAIL() << "it has been dropped"; });
  (*dialed)->send(wire::Heartbeat{1});
  (*dialed)->send(wire::Heartbeat{2});
  bool lost = false;
  (*dialed)->start([](const wire::Message&) {},
                   [&](const Status&) {
                     lost = true;
                     dialed->reset();
                   });
  ASSERT_TRUE(until([&] { return lost; }));
  EXPECT_EQ(messages, 1);
}

TEST_F(ControlConnection, APeerThatDoesNotReadIsGivenUp) {
  const tcp::Socket socket = connect_raw();
  End& server = accepted_.front();
  const auto text = std::make_shared<const std::string>(8u << 20, ' ');
  for (int i = 0; i < 20; ++i) server.connection->send_encoded(text);  // 160 MiB, 64 may wait
  EXPECT_FALSE(server.lost.has_value()) << "no callback inside of send()";
  ASSERT_TRUE(until([&] { return server.lost.has_value(); }));
  EXPECT_NE(server.lost->text().find("does not read"), std::string::npos) << server.lost->text();
}

TEST_F(ControlConnection, AWrongSecretIsToldAtOnceAndHasNoEffect) {
  const auto dialed = dial(hello(), wire::key_from_secret("another"));
  ASSERT_FALSE(dialed);
  EXPECT_EQ(dialed.error().code(), Code::auth_failed) << dialed.error().to_string();
  EXPECT_TRUE(until([&] { return acceptor_->rejected() == 1; }));
  EXPECT_TRUE(accepted_.empty());
  EXPECT_TRUE(dial(hello(), key_));
}

TEST_F(ControlConnection, OPS_03_AnotherMajorVersionIsToldAtOnceNamingBoth) {
  wire::Hello newer = hello();
  ++newer.major;
  const auto dialed = dial(newer, key_);
  ASSERT_FALSE(dialed);
  EXPECT_EQ(dialed.error().code(), Code::version_mismatch) << dialed.error().to_string();
  EXPECT_NE(dialed.error().text().find("1.0"), std::string::npos) << dialed.error().text();
  EXPECT_NE(dialed.error().text().find("2.0"), std::string::npos) << dialed.error().text();
  EXPECT_TRUE(accepted_.empty());
  ++newer.minor;
  newer.major = wire::kProtocolMajor;
  EXPECT_TRUE(dial(newer, key_)) << "another minor version works";
}

TEST_F(ControlConnection, StrangersHaveNoEffect) {
  const auto endpoint = tcp::numeric_endpoint(*tcp::parse_host_port(acceptor_->address()));
  const std::string noise[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(300, 'a'), std::string(256, '\0'),
                               std::string(100'000, 'x'), frame(wire::encode(wire::Join{1, "h", "v", {}, 0}))};
  std::vector<tcp::Socket> strangers;
  for (const std::string& bytes : noise) {
    tcp::Socket& socket = strangers.emplace_back(::socket(endpoint->family(), SOCK_STREAM, 0));
    ASSERT_EQ(::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&endpoint->storage), endpoint->bytes),
              0);
    (void)::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  strangers.pop_back();  // leaves in the middle of its hello
  EXPECT_TRUE(until([&] { return acceptor_->rejected() == 4; }));
  EXPECT_TRUE(accepted_.empty());
  EXPECT_TRUE(dial(hello(), key_));
}

TEST_F(ControlConnection, ABusyAddressIsNamedAndARestartOnItWorksAtOnce) {
  connect();
  const std::string address = acceptor_->address();
  const auto second = control::listen(loop_, address, key_, [](auto) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::resource_exhausted);
  EXPECT_NE(second.error().text().find(address), std::string::npos);
  accepted_.front().connection->close();  // this side closes first: its port stays in TIME_WAIT
  acceptor_.reset();
  ASSERT_TRUE(until([&] { return client_.lost.has_value(); }));
  listen(address);
  EXPECT_EQ(acceptor_->address(), address);
  EXPECT_TRUE(dial(hello(), key_));
}

TEST_F(ControlConnection, NET_07_DialsUntilSomebodyListens) {
  const std::string address = acceptor_->address();
  acceptor_.reset();
  std::optional<Result<std::shared_ptr<Connection>>> result;
  DialSpec spec{{address}, hello(), key_, monotonic_now() + kPatience};
  const auto dialing = control::dial(loop_, spec, [&](auto dialed) { result = std::move(dialed); });
  for (int i = 0; i < 10; ++i) loop_.wait_until(monotonic_now() + 5 * kMillisecond);
  EXPECT_FALSE(result.has_value());
  listen(address);
  ASSERT_TRUE(until([&] { return result.has_value(); }));
  EXPECT_TRUE(*result);
}

TEST_F(ControlConnection, ADialThatIsDroppedOrTooLateSaysSo) {
  acceptor_.reset();
  std::optional<Result<std::shared_ptr<Connection>>> result;
  DialSpec spec{{"127.0.0.1:1"}, hello(), key_, monotonic_now() + 100 * kMillisecond};
  auto dropped = control::dial(loop_, spec, [&](const auto&) { FAIL() << "it was dropped"; });
  dropped.reset();
  const auto dialing = control::dial(loop_, spec, [&](auto dialed) { result = std::move(dialed); });
  ASSERT_TRUE(until([&] { return result.has_value(); }));
  EXPECT_EQ(result->error().code(), Code::timeout);
  EXPECT_NE(result->error().text().find("127.0.0.1:1"), std::string::npos) << result->error().text();
}

TEST_F(ControlConnection, NET_07_ManyComeAtTheSameInstant) {
  constexpr std::size_t kMany = 256;
  std::vector<std::shared_ptr<void>> dialing;
  std::vector<std::shared_ptr<Connection>> connections;
  for (std::size_t i = 0; i < kMany; ++i) {
    DialSpec spec{{acceptor_->address()}, hello(), key_, monotonic_now() + kPatience};
    dialing.push_back(control::dial(loop_, spec, [&](auto dialed) {
      ASSERT_TRUE(dialed) << dialed.error().to_string();
      (*dialed)->send(wire::Heartbeat{1});
      connections.push_back(std::move(*dialed));
    }));
  }
  ASSERT_TRUE(until([&] { return connections.size() == kMany && accepted_.size() == kMany; }));
  for (End& end : accepted_) end.start();
  EXPECT_TRUE(until([&] {
    return std::all_of(accepted_.begin(), accepted_.end(), [](const End& end) { return end.messages.size() == 1; });
  }));
}

}  // namespace
}  // namespace redsum::control
