// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/base/prng.h"
#include "transport/tcp/address.h"
#include "transport/tcp/handshake_io.h"

namespace redsum::tcp {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr DurationNs kFirstPauseNs = 20 * kMillisecond;
constexpr DurationNs kLongestPauseNs = kSecond;
constexpr DurationNs kAttemptLimitNs =
    5 * kSecond;  // of connect and handshake with one endpoint: a black hole answers never

std::uint64_t jitter_seed() {
  std::uint64_t seed;
  const wire::Nonce nonce = wire::random_nonce();
  std::memcpy(&seed, nonce.data(), sizeof seed);
  return seed;
}

// One dial: an attempt at a time over all addresses, all endpoints of each. Handlers hold it; it is quiet once `done_`
// is empty.
class Dialing : public std::enable_shared_from_this<Dialing> {
 public:
  Dialing(Loop& loop, DialSpec spec, OnConnected done)
      : loop_(loop),
        spec_(std::move(spec)),
        done_(std::move(done)),
        started_(monotonic_now()),
        resolver_(loop.io()),
        socket_(loop.io()),
        deadline_timer_(loop),
        pause_timer_(loop),
        attempt_timer_(loop),
        prng_(jitter_seed()) {}

  void begin() {
    deadline_timer_.at(spec_.deadline, guarded(&Dialing::on_deadline));
    pause_timer_.at(started_, guarded(&Dialing::begin_round));
  }
  void abandon() {
    done_ = nullptr;
    stop();
  }

 private:
  std::function<void()> guarded(void (Dialing::*member)()) {
    return [self = weak_from_this(), member] {
      if (const auto dialing = self.lock(); dialing && dialing->done_) ((*dialing).*member)();
    };
  }

  void begin_round() {
    if (spec_.addresses.empty()) return finish(failure(Code::invalid_argument, "no address to connect to"));
    address_ = 0;
    begin_address();
  }

  void begin_address() {
    const auto at = parse_host_port(spec_.addresses[address_]);
    if (!at) return finish(failure(at.error()));
    ++attempts_;
    endpoints_.clear();
    endpoint_ = 0;
    if (const auto numeric = numeric_endpoint(*at)) {
      endpoints_.push_back(*numeric);
      return begin_endpoint();
    }
    resolver_.async_resolve(at->host, std::to_string(at->port),
                            [self = shared_from_this()](const Error& error, const tcp::resolver::results_type& found) {
                              if (!self->done_ || error == asio::error::operation_aborted) return;
                              if (error) {
                                self->last_error_ =
                                    "name of " + self->spec_.addresses[self->address_] + ": " + error.message();
                                return self->next_address();
                              }
                              for (const auto& entry : found) {
                                Endpoint endpoint;
                                std::memcpy(&endpoint.storage, entry.endpoint().data(), entry.endpoint().size());
                                endpoint.bytes = static_cast<socklen_t>(entry.endpoint().size());
                                self->endpoints_.push_back(endpoint);
                              }
                              self->begin_endpoint();
                            });
  }

  void begin_endpoint() {
    if (endpoint_ == endpoints_.size()) return next_address();
    const Endpoint& to = endpoints_[endpoint_];
    Socket made(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!made) return endpoint_failed(errno_text(errno));
    Error error;
    socket_.assign(to.family() == AF_INET6 ? tcp::v6() : tcp::v4(), made.descriptor(), error);
    if (error) return endpoint_failed(error.message());
    if (const std::string why = bind_local(made.release(), to); !why.empty()) return endpoint_failed(why);
    attempt_ends_ = std::min(spec_.deadline, monotonic_now() + kAttemptLimitNs);
    attempt_timer_.at(attempt_ends_, guarded(&Dialing::on_attempt_limit));
    tcp::endpoint endpoint;
    endpoint.resize(to.bytes);
    std::memcpy(endpoint.data(), &to.storage, to.bytes);
    socket_.async_connect(endpoint, [self = shared_from_this(), attempt = ++connect_count_](const Error& failed) {
      if (!self->done_ || attempt != self->connect_count_) return;
      self->attempt_timer_.cancel();
      if (failed) return self->endpoint_failed(errno_text(failed.value()));
      self->begin_handshake();
    });
  }

  // Empty, or why the socket cannot leave by the card that was asked for.
  std::string bind_local(int descriptor, const Endpoint& to) const {
    if (spec_.local.empty()) return {};
    const auto from = std::find_if(spec_.local.begin(), spec_.local.end(),
                                   [&](const Endpoint& one) { return one.family() == to.family(); });
    const bool found = from != spec_.local.end();
    if (to.is_loopback() && !(found && from->is_loopback())) return {};
    if (!found) return "the local address is " + spec_.local.front().to_string() + ", which does not reach this family";
    // The port is chosen by connect(), which may give one that another target has already.
    const int on = 1;
    ::setsockopt(descriptor, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&from->storage), from->bytes) == 0) return {};
    return "from the local address " + from->to_string() + ": " + errno_text(errno);
  }

  void begin_handshake() {
    Error error;
    Socket socket(socket_.release(error));
    if (error) return endpoint_failed(error.message());
    // A connect to a free local port can meet itself (both ends the same port).
    if (local_endpoint(socket.descriptor()).to_string() == peer_endpoint(socket.descriptor()).to_string()) {
      return endpoint_failed(errno_text(ECONNREFUSED));
    }
    const int on = 1;
    ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    spec_.hello.nonce = wire::random_nonce();
    handshake_ = initiate(loop_, std::move(socket), spec_.hello, spec_.key, attempt_ends_,
                          [self = weak_from_this()](Result<Connected> result) {
                            const auto dialing = self.lock();
                            if (!dialing || !dialing->done_) return;
                            if (result) return dialing->finish(std::move(result));
                            const Code code = result.error().code();
                            if (code != Code::peer_lost && code != Code::timeout)
                              return dialing->finish(std::move(result));
                            dialing->endpoint_failed(result.error().text());
                          });
  }

  void on_attempt_limit() { endpoint_failed("no answer to connect within the attempt's limit"); }

  void endpoint_failed(const std::string& why) {
    last_error_ = endpoints_[endpoint_].to_string() + ": " + why;
    close_socket();
    ++endpoint_;
    begin_endpoint();
  }

  void next_address() {
    if (++address_ < spec_.addresses.size()) return begin_address();
    // 50 to 100 % of a pause that doubles: many that lost the same peer do not come back together.
    const auto pause = static_cast<std::uint64_t>(pause_ns_);
    pause_timer_.at(monotonic_now() + static_cast<DurationNs>(prng_.between(pause / 2, pause)),
                    guarded(&Dialing::begin_round));
    pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
  }

  void on_deadline() {
    std::string names;
    for (const std::string& address : spec_.addresses) names += (names.empty() ? "" : ", ") + address;
    const DurationNs tenths = (monotonic_now() - started_) / (kSecond / 10);
    finish(failure(Code::timeout, "no connection to " + names + " within " + std::to_string(tenths / 10) + "." +
                                      std::to_string(tenths % 10) + " s, " + std::to_string(attempts_) +
                                      " attempts; last: " + (last_error_.empty() ? "no answer yet" : last_error_)));
  }

  void finish(Result<Connected> result) {
    const OnConnected done = std::exchange(done_, nullptr);
    stop();
    done(std::move(result));
  }
  void close_socket() {
    attempt_timer_.cancel();
    ++connect_count_;
    Error ignored;
    socket_.close(ignored);
  }
  void stop() {
    deadline_timer_.cancel();
    pause_timer_.cancel();
    resolver_.cancel();
    close_socket();
    handshake_.reset();
  }

  Loop& loop_;
  DialSpec spec_;
  OnConnected done_;
  const TimeNs started_;
  tcp::resolver resolver_;
  tcp::socket socket_;
  Timer deadline_timer_, pause_timer_, attempt_timer_;
  Prng prng_;
  std::shared_ptr<void> handshake_;
  std::vector<Endpoint> endpoints_;
  std::size_t address_ = 0, endpoint_ = 0;
  std::uint64_t attempts_ = 0, connect_count_ = 0;
  TimeNs attempt_ends_ = 0;
  DurationNs pause_ns_ = kFirstPauseNs;
  std::string last_error_;
};

}  // namespace

std::shared_ptr<void> dial(Loop& loop, DialSpec spec, OnConnected done) {
  auto dialing = std::make_shared<Dialing>(loop, std::move(spec), std::move(done));
  dialing->begin();
  return {nullptr, [dialing](void*) { dialing->abandon(); }};
}

}  // namespace redsum::tcp
