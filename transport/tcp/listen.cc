// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "transport/base/log.h"
#include "transport/tcp/address.h"
#include "transport/tcp/handshake_io.h"

namespace redsum::tcp {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr int kAcceptsPerTurn = 64;
constexpr DurationNs kPauseNs = 100 * kMillisecond;  // when descriptors or memory have run out
constexpr DurationNs kWarnEveryNs = 10 * kSecond;

// Held by its handlers; quiet once closed.
class Accepting : public std::enable_shared_from_this<Accepting> {
 public:
  Accepting(Loop& loop, ListenSpec spec) : loop_(loop), spec_(std::move(spec)), acceptor_(loop.io()), pause_(loop) {}

  Status open(Socket socket, int family) {
    Error error;
    acceptor_.assign(family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), socket.descriptor(), error);
    if (error) return {Code::internal, "listening at " + spec_.address + ": " + error.message()};
    address_ = local_endpoint(socket.release()).to_string();
    wait();
    return {};
  }
  void close() {
    closed_ = true;
    pause_.cancel();
    Error ignored;
    acceptor_.close(ignored);
    strangers_.clear();
  }
  const std::string& address() const { return address_; }

 private:
  void wait() {
    acceptor_.async_wait(asio::ip::tcp::acceptor::wait_read, [self = shared_from_this()](const Error& error) {
      if (!self->closed_ && !error) self->take();
    });
  }

  void take() {
    for (int i = 0; i < kAcceptsPerTurn && !closed_; ++i) {
      Socket socket(::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (socket) {
        begin(std::move(socket));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return pause(errno);
      }  // else that connection is gone already (ECONNABORTED and the network's errors): the next one
    }
    if (!closed_) wait();
  }

  void pause(int error) {
    if (const TimeNs now = monotonic_now(); now >= warn_again_) {
      warn_again_ = now + kWarnEveryNs;
      log::warn("cannot accept at " + address_ + ": " + errno_text(error) +
                "; raise the limit of open files (ulimit -n)");
    }
    pause_.at(monotonic_now() + kPauseNs, [self = weak_from_this()] {
      if (const auto accepting = self.lock(); accepting && !accepting->closed_) accepting->take();
    });
  }

  void begin(Socket socket) {
    const int on = 1;
    ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (strangers_.size() == kMaxStrangers)
      strangers_.erase(strangers_.begin());  // the oldest: who holds a key is quicker
    const std::uint64_t number = next_stranger_++;
    strangers_[number] =
        answer(loop_, std::move(socket), spec_.instance, spec_.key_for, monotonic_now() + spec_.handshake_limit_ns,
               [self = weak_from_this(), number](Result<Connected> result) {
                 if (const auto accepting = self.lock()) accepting->on_answered(number, std::move(result));
               });
  }

  void on_answered(std::uint64_t number, Result<Connected> result) {
    if (closed_) return;
    strangers_.erase(number);
    if (result) return spec_.on_connected(std::move(*result));
    if (spec_.on_refused) spec_.on_refused(result.error());
    if (log::enabled(log::Level::trace))
      log::trace("closed a stranger at " + address_ + ": " + result.error().to_string());
  }

  Loop& loop_;
  const ListenSpec spec_;
  asio::ip::tcp::acceptor acceptor_;
  Timer pause_;
  std::string address_;
  bool closed_ = false;
  TimeNs warn_again_ = 0;
  std::uint64_t next_stranger_ = 0;
  std::map<std::uint64_t, std::shared_ptr<void>> strangers_;
};

class ListeningImpl final : public Listening {
 public:
  explicit ListeningImpl(std::shared_ptr<Accepting> accepting) : accepting_(std::move(accepting)) {}
  ~ListeningImpl() override { accepting_->close(); }
  std::string address() const override { return accepting_->address(); }

 private:
  std::shared_ptr<Accepting> accepting_;
};

Result<Endpoint> endpoint_to_bind(const std::string& address) {
  const auto at = parse_host_port(address, true);
  if (!at) return failure(at.error());
  if (const auto numeric = numeric_endpoint(*at)) return *numeric;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(at->host.c_str(), std::to_string(at->port).c_str(), &hints, &found); error != 0) {
    return failure(Code::invalid_argument, "cannot listen at " + address + ": " + gai_strerror(error));
  }
  Endpoint endpoint;
  std::memcpy(&endpoint.storage, found->ai_addr, found->ai_addrlen);
  endpoint.bytes = found->ai_addrlen;
  freeaddrinfo(found);
  return endpoint;
}

}  // namespace

Result<std::unique_ptr<Listening>> listen(Loop& loop, ListenSpec spec) {
  const auto endpoint = endpoint_to_bind(spec.address);
  if (!endpoint) return failure(endpoint.error());
  const auto refused = [&](int error) -> tl::unexpected<Status> {
    if (error == EADDRINUSE) {
      return failure(Code::resource_exhausted,
                     "cannot listen at " + spec.address +
                         ": the address is in use; stop the process that holds it (ss -ltnp shows it) "
                         "or choose another port");
    }
    const bool argument = error == EADDRNOTAVAIL || error == EACCES || error == EINVAL;
    return failure(argument ? Code::invalid_argument : Code::resource_exhausted,
                   "cannot listen at " + spec.address + ": " + errno_text(error));
  };
  Socket socket(::socket(endpoint->family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return refused(errno);
  const int on = 1;
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&endpoint->storage), endpoint->bytes) != 0)
    return refused(errno);
  if (::listen(socket.descriptor(), SOMAXCONN) != 0) return refused(errno);
  auto accepting = std::make_shared<Accepting>(loop, std::move(spec));
  if (Status status = accepting->open(std::move(socket), endpoint->family()); !status)
    return failure(std::move(status));
  return std::make_unique<ListeningImpl>(std::move(accepting));
}

}  // namespace redsum::tcp
