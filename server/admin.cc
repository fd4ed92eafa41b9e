// SPDX-License-Identifier: Apache-2.0
#include "server/admin.h"

#include <pthread.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <exception>
#include <list>
#include <optional>
#include <thread>

#include "server/config_keys.h"
#include "transport/base/log.h"

namespace redsum::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kBacklog = 128;
constexpr std::size_t kLingerBytes = 64 * 1024;
constexpr DurationNs kAcceptPause = 100 * kMillisecond;  // after an accept that failed for want of descriptors

class Session;

// What all sessions share; used on the admin's thread only.
struct Shared {
  AdminConfig config;
  StatusSource source;
  std::list<std::weak_ptr<Session>> sessions;  // the one that was idle for longest is first
};
using Place = std::list<std::weak_ptr<Session>>::iterator;

// One connection: reads a request, answers, and so on. Each request has request_timeout from the wait for it on,
// however slowly its bytes come.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, Shared& shared) : stream_(std::move(socket)), shared_(shared) {}
  ~Session() {
    if (place_) shared_.sessions.erase(*place_);
  }

  void start() {
    place_ = shared_.sessions.insert(shared_.sessions.end(), weak_from_this());
    read();
  }
  void close() { stream_.close(); }

 private:
  void read() {
    parser_.emplace();
    parser_->header_limit(kMaxAdminHeaderBytes);
    parser_->body_limit(0);
    stream_.expires_after(std::chrono::nanoseconds(shared_.config.request_timeout));
    http::async_read(stream_, buffer_, *parser_,
                     [self = shared_from_this()](error_code error, std::size_t) { self->on_read(error); });
  }

  void on_read(error_code error) {
    if (error == http::error::end_of_stream || error == beast::error::timeout ||
        error == asio::error::operation_aborted)
      return;
    if (error && error.category() != make_error_code(http::error::bad_method).category())
      return;  // the connection is gone
    shared_.sessions.splice(shared_.sessions.end(), shared_.sessions, *place_);
    AdminAnswer answer;
    bool head = false, keep = false;
    if (error) {
      answer = {error == http::error::header_limit ? 431 : 400, "text/plain; charset=utf-8", error.message() + "\n"};
    } else {
      const auto& request = parser_->get();
      head = request.method() == http::verb::head;
      keep = request.keep_alive();
      if (head || request.method() == http::verb::get) {
        const auto target = request.target();
        answer = answer_to(std::string_view(target.data(), std::min(target.find('?'), target.size())));
      } else {
        answer = {405, "text/plain; charset=utf-8", "GET and HEAD only\n"};
      }
    }
    write(std::move(answer), head, keep);
  }

  AdminAnswer answer_to(std::string_view path) const {
    try {
      return admin_answer(path, shared_.source());
    } catch (const std::exception& error) {  // memory, at most
      return {500, "text/plain; charset=utf-8", std::string(error.what()) + "\n"};
    }
  }

  void write(AdminAnswer answer, bool head, bool keep) {
    response_.emplace();
    auto& response = *response_;
    response.version(11);
    response.result(static_cast<unsigned>(answer.status));
    response.set(http::field::server, "redsumd");
    response.set(http::field::content_type, answer.content_type);
    response.set(http::field::cache_control, "no-store");
    response.set("X-Content-Type-Options", "nosniff");
    response.set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
    if (answer.status == 405) response.set(http::field::allow, "GET, HEAD");
    response.keep_alive(keep);
    response.content_length(answer.body.size());
    if (!head) response.body() = std::move(answer.body);
    http::async_write(stream_, response, [self = shared_from_this(), keep](error_code error, std::size_t) {
      if (error) return;
      if (keep) return self->read();
      error_code ignored;
      self->stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      self->linger();
    });
  }

  // Reads on until the peer closes: a close with unread bytes would reset the connection, and the answer with it.
  void linger() {
    stream_.async_read_some(asio::buffer(trash_), [self = shared_from_this()](error_code error, std::size_t bytes) {
      if (!error && (self->lingered_ += bytes) < kLingerBytes) self->linger();
    });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kMaxAdminHeaderBytes + 1024};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::optional<http::response<http::string_body>> response_;
  Shared& shared_;
  std::optional<Place> place_;
  std::array<char, 1024> trash_;
  std::size_t lingered_ = 0;
};

class Server : public AdminServer {
 public:
  Server(const AdminConfig& config, StatusSource source) : acceptor_(io_), pause_(io_) {
    shared_.config = config;
    shared_.source = std::move(source);
  }
  ~Server() override {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      for (const auto& session : shared_.sessions)
        if (const auto alive = session.lock()) alive->close();
      // The sessions end with their cancelled reads; run() returns when the last one has.
    });
    thread_.join();
  }

  Status listen() {
    const auto address = parse_address(shared_.config.address);
    if (!address)
      return {Code::invalid_argument, "admin.address '" + shared_.config.address + "': " + address.error().text()};
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(address->host, std::to_string(address->port),
                                        tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error) return trouble(Code::invalid_argument, error);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    if (acceptor_.open(endpoint.protocol(), error); error) return trouble(Code::resource_exhausted, error);
    acceptor_.set_option(asio::socket_base::reuse_address(true), error);  // a restart finds old connections waiting
    if (acceptor_.bind(endpoint, error); !error) acceptor_.listen(kBacklog, error);
    if (error)
      return trouble(error == asio::error::address_in_use ? Code::resource_exhausted : Code::invalid_argument, error);
    const tcp::endpoint bound = acceptor_.local_endpoint(error);
    if (error) return trouble(Code::internal, error);
    address_ = address_text({bound.address().to_string(), bound.port()});
    return {};
  }

  void start() {
    accept();
    thread_ = std::thread([this] {
      ::pthread_setname_np(::pthread_self(), "redsum-admin");
      io_.run();
    });
  }

  std::string address() const override { return address_; }

 private:
  Status trouble(Code code, const error_code& error) const {
    return {code, "admin.address " + shared_.config.address + ": " + error.message() +
                      (error == asio::error::address_in_use
                           ? "; another process listens there, stop it or choose another port (--admin)"
                           : "")};
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
      if (error) {
        log::warn("admin port: accept: " + error.message());
        pause_.expires_after(std::chrono::nanoseconds(kAcceptPause));
        pause_.async_wait([this](error_code cancelled) {
          if (!cancelled) accept();
        });
        return;
      }
      make_room();
      std::make_shared<Session>(std::move(socket), shared_)->start();
      accept();
    });
  }

  // A probe gets through even when somebody holds every connection.
  void make_room() {
    std::size_t open = shared_.sessions.size();
    for (auto at = shared_.sessions.begin(); open >= shared_.config.max_connections && at != shared_.sessions.end();
         ++at, --open)
      if (const auto oldest = at->lock()) oldest->close();
  }

  Shared shared_;  // outlives io_, whose handlers hold the sessions
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::string address_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<AdminServer>> start_admin(const AdminConfig& config, StatusSource source) {
  auto server = std::make_unique<Server>(config, std::move(source));
  if (Status listening = server->listen(); !listening) return failure(std::move(listening));
  server->start();
  return server;
}

}  // namespace redsum::server
