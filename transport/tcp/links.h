// SPDX-License-Identifier: Apache-2.0
// How a TCP connection travels from the thread that shook hands to the transport that owns it.
#pragma once
#include <string>
#include <utility>

#include "transport/tcp/address.h"
#include "transport/tcp/dial.h"
#include "transport/transport.h"

namespace redsum::tcp {

class TcpLink final : public transport::Link {
 public:
  explicit TcpLink(Connected connected)
      : socket_(std::move(connected.socket)),
        hello_(std::move(connected.hello)),
        peer_(peer_endpoint(socket_.descriptor()).to_string()) {}
  const wire::Hello& hello() const override { return hello_; }
  std::string peer_address() const override { return peer_; }
  Socket take_socket() { return std::move(socket_); }

 private:
  Socket socket_;
  wire::Hello hello_;
  std::string peer_;
};

}  // namespace redsum::tcp
