// SPDX-License-Identifier: Apache-2.0
#include "server/admin_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "server/config_keys.h"

namespace redsum::ctl {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

}  // namespace

Result<HttpReply> http_get(const std::string& address, const std::string& path, DurationNs timeout) {
  const auto target = server::parse_address(address);
  if (!target) return failure(Code::invalid_argument, "'" + address + "': " + target.error().text());
  asio::io_context io(1);
  asio::ip::tcp::resolver resolver(io);
  error_code error;
  const auto found = resolver.resolve(target->host, std::to_string(target->port), error);
  if (error) return failure(Code::peer_lost, address + ": " + error.message());

  beast::tcp_stream stream(io);
  beast::flat_buffer buffer(kMaxReplyBytes + 65536);
  http::request<http::empty_body> request(http::verb::get, path, 11);
  request.set(http::field::host, address);
  request.set(http::field::connection, "close");
  http::response_parser<http::string_body> parser;
  parser.body_limit(kMaxReplyBytes);
  bool connected = false;
  const auto ended = [&](error_code why) { error = why; };
  stream.expires_after(std::chrono::nanoseconds(timeout));
  stream.async_connect(found, [&](error_code on_connect, const asio::ip::tcp::endpoint&) {
    if (on_connect) return ended(on_connect);
    connected = true;
    http::async_write(stream, request, [&](error_code on_write, std::size_t) {
      if (on_write) return ended(on_write);
      http::async_read(stream, buffer, parser, [&](error_code on_read, std::size_t) { ended(on_read); });
    });
  });
  io.run();
  if (error == beast::error::timeout)
    return failure(Code::timeout, address + ": no answer within " + server::duration_text(timeout));
  if (error && !connected)
    return failure(Code::peer_lost,
                   address + ": " + error.message() + "; is redsumd running there, with its admin port on?");
  if (error)
    return failure(Code::protocol_error, address + ": " + error.message() + "; is this a redsumd's admin port?");
  return HttpReply{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

}  // namespace redsum::ctl
