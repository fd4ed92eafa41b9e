// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/handshake_io.h"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <utility>

#include "transport/tcp/address.h"

namespace redsum::tcp {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

// One handshake: a socket, a deadline and the buffer of the message under way. Kept alive by the handlers that wait;
// gone quiet once `done_` is empty.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Loop& loop, Socket socket, Handshaken done)
      : peer_(peer_endpoint(socket.descriptor())), socket_(loop.io()), timer_(loop), done_(std::move(done)) {
    Error error;
    socket_.assign(peer_.family() == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.descriptor(), error);
    if (!error) socket.release();
    broken_ = error;
  }
  virtual ~Exchange() = default;

  void begin(TimeNs deadline) {
    timer_.at(deadline, [self = weak_from_this()] {
      if (const auto exchange = self.lock())
        exchange->fail({Code::timeout, "no answer to the handshake from " + exchange->peer()});
    });
    if (broken_) {  // reported later, as every other outcome
      timer_.at(monotonic_now(), [self = weak_from_this()] {
        if (const auto exchange = self.lock()) exchange->broken(exchange->broken_);
      });
      return;
    }
    first();
  }
  void abandon() {
    done_ = nullptr;
    close();
  }

 protected:
  virtual void first() = 0;
  std::string peer() const { return peer_.to_string(); }
  int descriptor() { return socket_.native_handle(); }

  void read(std::size_t bytes, void (Exchange::*then)(ConstBytes)) {
    asio::async_read(socket_, asio::buffer(input_, bytes),
                     [self = shared_from_this(), then](const Error& error, std::size_t n) {
                       if (!self->done_) return;
                       if (error) return self->broken(error);
                       ((*self).*then)(ConstBytes(self->input_.data(), n));
                     });
  }
  // `bytes` lives as long as this.
  void write(ConstBytes bytes, std::function<void()> then) {
    asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()),
                      [self = shared_from_this(), then = std::move(then)](const Error& error, std::size_t) {
                        if (!self->done_) return;
                        if (error) return self->broken(error);
                        then();
                      });
  }
  virtual void broken(const Error& error) {
    fail({Code::peer_lost, "connection with " + peer() + " broke during the handshake: " + error.message()});
  }
  void fail(Status why) {
    if (const Handshaken done = take_done()) {
      close();
      done(failure(std::move(why)));
    }
  }
  void succeed(wire::Hello hello) {
    const Handshaken done = take_done();
    Error error;
    Socket socket(socket_.release(error));
    if (error) return done(failure(Code::internal, "socket of " + peer() + ": " + error.message()));
    done(Connected{std::move(socket), std::move(hello)});
  }

 private:
  Handshaken take_done() {
    timer_.cancel();
    return std::exchange(done_, nullptr);
  }
  void close() {
    timer_.cancel();
    Error ignored;
    socket_.close(ignored);
  }

  Endpoint peer_;
  asio::ip::tcp::socket socket_;
  Timer timer_;
  Handshaken done_;
  Error broken_;
  std::array<std::byte, wire::kChallengeBytes> input_{};
};

class Initiating final : public Exchange {
 public:
  Initiating(Loop& loop, Socket socket, const wire::Hello& hello, const wire::Key& key, Handshaken done)
      : Exchange(loop, std::move(socket), std::move(done)), hello_(hello), initiator_(hello, key) {}

 private:
  void first() override {
    write(initiator_.first_output(), [this] { next(); });
  }
  void next() { read(initiator_.want(), static_cast<void (Exchange::*)(ConstBytes)>(&Initiating::on_input)); }
  void on_input(ConstBytes input) {
    std::size_t output_bytes = 0;
    if (Status status = initiator_.feed(input, proof_, output_bytes); !status) {
      return fail({status.code(), peer() + ": " + status.text()});
    }
    if (initiator_.done()) return succeed(hello_);
    write(ConstBytes(proof_.data(), output_bytes), [this] { next(); });
  }

  const wire::Hello hello_;
  wire::Initiator initiator_;
  std::array<std::byte, wire::kProofBytes> proof_{};
};

class Answering final : public Exchange {
 public:
  Answering(Loop& loop, Socket socket, std::uint64_t instance, KeyFor key_for, Handshaken done)
      : Exchange(loop, std::move(socket), std::move(done)), instance_(instance), key_for_(std::move(key_for)) {}

 private:
  void first() override { read(acceptor_.want(), static_cast<void (Exchange::*)(ConstBytes)>(&Answering::on_hello)); }
  void on_hello(ConstBytes input) {
    Result<wire::Hello> hello = acceptor_.on_hello(input);
    if (!hello) {
      // Only who speaks the protocol gets an answer.
      if (hello.error().code() != Code::version_mismatch)
        return fail({hello.error().code(), peer() + ": " + hello.error().text()});
      return refuse(hello.error());
    }
    hello_ = std::move(*hello);
    if (instance_ != 0 && hello_.target_instance != 0 && hello_.target_instance != instance_) {
      return refuse({Code::auth_failed, "another process answers at " + local_endpoint(descriptor()).to_string() +
                                            ": instance " + std::to_string(hello_.target_instance) +
                                            " was meant, this is " + std::to_string(instance_)});
    }
    const Result<wire::Key> key = key_for_(hello_);
    if (!key) return refuse(key.error());
    acceptor_.challenge(*key, challenge_);
    write(challenge_,
          [this] { read(acceptor_.want(), static_cast<void (Exchange::*)(ConstBytes)>(&Answering::on_proof)); });
    proving_ = true;
  }
  void refuse(Status why) {
    wire::Acceptor::refuse(why, challenge_);
    write(challenge_, [this, why] { fail({why.code(), peer() + " refused: " + why.text()}); });
  }
  void on_proof(ConstBytes input) {
    const Status status = acceptor_.on_proof(input, verdict_);
    write(verdict_, [this, status] {
      if (status) return succeed(hello_);
      fail({status.code(), peer() + ": " + status.text()});
    });
  }
  void broken(const Error& error) override {
    if (proving_ && error == asio::error::eof)
      return fail({Code::auth_failed, peer() + " left without proving the key"});
    Exchange::broken(error);
  }

  const std::uint64_t instance_;
  const KeyFor key_for_;
  wire::Acceptor acceptor_;
  wire::Hello hello_;
  bool proving_ = false;
  std::array<std::byte, wire::kChallengeBytes> challenge_{};
  std::array<std::byte, wire::kVerdictBytes> verdict_{};
};

std::shared_ptr<void> start(std::shared_ptr<Exchange> exchange, TimeNs deadline) {
  exchange->begin(deadline);
  return {nullptr, [exchange](void*) { exchange->abandon(); }};
}

}  // namespace

std::shared_ptr<void> initiate(Loop& loop, Socket socket, const wire::Hello& hello, const wire::Key& key,
                               TimeNs deadline, Handshaken done) {
  return start(std::make_shared<Initiating>(loop, std::move(socket), hello, key, std::move(done)), deadline);
}

std::shared_ptr<void> answer(Loop& loop, Socket socket, std::uint64_t instance, KeyFor key_for, TimeNs deadline,
                             Handshaken done) {
  return start(std::make_shared<Answering>(loop, std::move(socket), instance, std::move(key_for), std::move(done)),
               deadline);
}

}  // namespace redsum::tcp
