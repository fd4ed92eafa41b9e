// SPDX-License-Identifier: Apache-2.0
#include "transport/control/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <string_view>
#include <utility>

#include "transport/tcp/address.h"
#include "transport/tcp/dial.h"
#include "transport/tcp/listen.h"
#include "transport/tcp/socket.h"

namespace redsum::control {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr std::size_t kLengthBytes = 4;
constexpr std::size_t kReadBytes = 16u << 10;  // memory grows with what has arrived, not with what a length announces
constexpr std::size_t kMaxQueuedBytes = 64u << 20;  // to a peer that does not read
constexpr DurationNs kFlushLimit = kSecond;

using Text = std::shared_ptr<const std::string>;

std::array<char, kLengthBytes> length_prefix(std::size_t length) {
  std::array<char, kLengthBytes> bytes{};
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

std::size_t length_of(std::string_view prefix) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(prefix[i])) << (8 * i);
  return length;
}

// The socket with its queues. Its handlers hold it, so that it can say its last words after the owner has dropped it.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(Loop& loop, tcp::Socket socket)
      : peer_address_(tcp::peer_endpoint(socket.descriptor()).to_string()),
        local_address_(tcp::local_endpoint(socket.descriptor()).to_string()),
        socket_(loop.io()),
        timer_(loop) {
    const int on = 1;
    ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const bool v6 = tcp::local_endpoint(socket.descriptor()).family() == AF_INET6;
    Error error;
    socket_.assign(v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.descriptor(), error);
    if (!error) socket.release();
  }

  void start(Connection::OnMessage on_message, Connection::OnLost on_lost) {
    if (closing_ || on_message_) return;
    on_message_ = std::move(on_message);
    on_lost_ = std::move(on_lost);
    if (!reading_) read();
    if (!early_loss_) lost_soon(early_loss_, monotonic_now());
  }

  void send(Text text) {
    if (closing_ || ended_ || unwritable_) return;
    if (queued_bytes_ + text->size() > kMaxQueuedBytes) {
      unwritable_ = true;
      return lost_soon({Code::peer_lost, peer_address_ + " does not read: " + std::to_string(queued_bytes_) +
                                             " bytes of control messages wait for it"},
                       monotonic_now());  // no callback runs inside of send()
    }
    queued_bytes_ += text->size();
    queue_.push_back({length_prefix(text->size()), std::move(text)});
    if (!writing_) write();
  }

  // What is queued goes out; then the peer's end is awaited, because closing earlier could destroy what it has not
  // read.
  void close(std::function<void()> closed) {
    if (closed && ended_) return closed();
    if (closed) closed_ = std::move(closed);
    if (closing_) return;
    closing_ = true;
    on_message_ = nullptr;
    on_lost_ = nullptr;
    if (ended_) return;
    timer_.at(monotonic_now() + kFlushLimit, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->end();
    });
    if (!reading_) read();
    if (!writing_) finish_sending();
  }

  const std::string& peer_address() const { return peer_address_; }
  const std::string& local_address() const { return local_address_; }

 private:
  struct Frame {
    std::array<char, kLengthBytes> prefix;
    Text text;
  };

  void write() {
    writing_ = true;
    const Frame& frame = queue_.front();
    const std::array<asio::const_buffer, 2> parts = {asio::buffer(frame.prefix), asio::buffer(*frame.text)};
    asio::async_write(socket_, parts,
                      [self = shared_from_this()](const Error& error, std::size_t) { self->on_written(error); });
  }

  void on_written(const Error& error) {
    writing_ = false;
    if (ended_) return;
    if (error) {
      unwritable_ = true;
      if (closing_) return finish_sending();
      // What the peer said last is still to be read, then its end; this is for a peer that ends without our seeing it.
      return lost_soon(broke(error), monotonic_now() + kFlushLimit);
    }
    queued_bytes_ -= queue_.front().text->size();
    queue_.pop_front();
    if (!queue_.empty()) return write();
    if (closing_) finish_sending();
  }

  void finish_sending() {
    if (peer_finished_) return end();
    Error ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  }

  void read() {
    reading_ = true;
    const std::size_t had = inbox_.size();
    inbox_.resize(had + kReadBytes);
    socket_.async_read_some(asio::buffer(inbox_.data() + had, kReadBytes),
                            [self = shared_from_this(), had](const Error& error, std::size_t bytes) {
                              self->inbox_.resize(had + bytes);
                              self->on_read(error);
                            });
  }

  void on_read(const Error& error) {
    if (ended_) return;
    if (error) {
      peer_finished_ = true;
      if (!closing_) return lost(broke(error));
      return writing_ && error == asio::error::eof ? void() : end();
    }
    if (!closing_) take_messages();
    if (closing_) inbox_.clear();
    if (!ended_) read();
  }

  void take_messages() {
    std::size_t at = 0;
    while (!closing_ && !ended_ && inbox_.size() - at >= kLengthBytes) {
      const std::string_view rest = std::string_view(inbox_).substr(at);
      const std::size_t length = length_of(rest);
      if (length > wire::kMaxControlBytes)
        return refuse({Code::protocol_error, "a control message of " + std::to_string(length) + " bytes; at most " +
                                                 std::to_string(wire::kMaxControlBytes) + " are allowed"});
      if (rest.size() - kLengthBytes < length) break;
      Result<wire::Message> message = wire::decode(rest.substr(kLengthBytes, length));
      if (!message) return refuse(message.error());
      at += kLengthBytes + length;
      const Connection::OnMessage call = on_message_;  // close() in it drops the original
      call(std::move(*message));
    }
    inbox_.erase(0, at);
    if (inbox_.empty()) inbox_.shrink_to_fit();
  }

  // The peer is told what was wrong with its bytes before it is cut off.
  void refuse(const Status& why) {
    send(std::make_shared<const std::string>(
        wire::encode(wire::Fail{wire::kEveryCommunicator, why.code(), why.text(), {}})));
    const Connection::OnLost on_lost = on_lost_;
    close({});
    if (on_lost) on_lost(why);
  }

  Status broke(const Error& error) const {
    if (error == asio::error::eof) return {Code::peer_lost, "connection closed by " + peer_address_};
    return {Code::peer_lost, "connection with " + peer_address_ + " broke: " + tcp::errno_text(error.value())};
  }

  void lost_soon(const Status& why, TimeNs when) {
    timer_.at(when, [weak = weak_from_this(), why] {
      if (const auto self = weak.lock()) self->lost(why);
    });
  }

  void lost(const Status& why) {
    if (ended_ || closing_) return;
    if (!on_message_) {
      early_loss_ = why;
      return;
    }
    const Connection::OnLost on_lost = std::exchange(on_lost_, nullptr);
    on_message_ = nullptr;
    end();
    if (on_lost) on_lost(why);
  }

  void end() {
    if (ended_) return;
    ended_ = true;
    timer_.cancel();
    Error ignored;
    socket_.close(ignored);
    if (const auto closed = std::exchange(closed_, nullptr)) closed();
  }

  const std::string peer_address_, local_address_;
  asio::ip::tcp::socket socket_;
  Timer timer_;
  Connection::OnMessage on_message_;
  Connection::OnLost on_lost_;
  std::function<void()> closed_;
  std::deque<Frame> queue_;
  std::size_t queued_bytes_ = 0;
  std::string inbox_;
  Status early_loss_;     // before start()
  bool reading_ = false;  // from the first read on, until the end
  bool writing_ = false;
  bool unwritable_ = false;     // no use in queueing more
  bool peer_finished_ = false;  // nothing comes from it any more
  bool closing_ = false;        // by our side
  bool ended_ = false;          // the socket is closed
};

class ConnectionImpl final : public Connection {
 public:
  ConnectionImpl(Loop& loop, tcp::Connected connected)
      : hello_(std::move(connected.hello)), stream_(std::make_shared<Stream>(loop, std::move(connected.socket))) {}
  ~ConnectionImpl() override { stream_->close({}); }

  void start(OnMessage on_message, OnLost on_lost) override {
    stream_->start(std::move(on_message), std::move(on_lost));
  }
  void send(const wire::Message& message) override {
    stream_->send(std::make_shared<const std::string>(wire::encode(message)));
  }
  void send_encoded(std::shared_ptr<const std::string> text) override { stream_->send(std::move(text)); }
  void close(std::function<void()> closed) override { stream_->close(std::move(closed)); }
  const wire::Hello& hello() const override { return hello_; }
  std::string peer_address() const override { return stream_->peer_address(); }
  std::string local_address() const override { return stream_->local_address(); }

 private:
  const wire::Hello hello_;
  const std::shared_ptr<Stream> stream_;
};

class AcceptorImpl final : public Acceptor {
 public:
  std::string address() const override { return listening_->address(); }
  std::uint64_t rejected() const override { return rejected_; }

  std::unique_ptr<tcp::Listening> listening_;
  std::uint64_t rejected_ = 0;
};

}  // namespace

std::shared_ptr<void> dial(Loop& loop, DialSpec spec, OnDialed done) {
  tcp::DialSpec dialing{std::move(spec.addresses), std::move(spec.hello), spec.key, spec.deadline};
  return tcp::dial(loop, std::move(dialing), [&loop, done = std::move(done)](Result<tcp::Connected> connected) {
    if (!connected) return done(failure(std::move(connected.error())));
    done(std::make_shared<ConnectionImpl>(loop, std::move(*connected)));
  });
}

Result<std::unique_ptr<Acceptor>> listen(Loop& loop, const std::string& address, const wire::Key& key,
                                         Acceptor::OnConnection on_connection) {
  auto acceptor = std::make_unique<AcceptorImpl>();
  tcp::ListenSpec spec;
  spec.address = address;
  spec.key_for = [key](const wire::Hello&) -> Result<wire::Key> { return key; };
  spec.on_connected = [&loop, on_connection = std::move(on_connection)](tcp::Connected connected) {
    on_connection(std::make_shared<ConnectionImpl>(loop, std::move(connected)));
  };
  spec.on_refused = [at = acceptor.get()](const Status&) { ++at->rejected_; };
  auto listening = tcp::listen(loop, std::move(spec));
  if (!listening) return failure(std::move(listening.error()));
  acceptor->listening_ = std::move(*listening);
  return acceptor;
}

}  // namespace redsum::control
