// SPDX-License-Identifier: Apache-2.0
// TCP over loopback under the conformance suite.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "tests/transport/backend.h"
#include "tests/transport/tcp_pair.h"
#include "transport/base/check.h"
#include "transport/loop/loop.h"
#include "transport/tcp/tcp.h"

namespace redsum::test {
namespace {

class TcpBackend : public Backend {
 public:
  explicit TcpBackend(int buffer_bytes) : buffer_bytes_(buffer_bytes) {}

  transport::Transport& open(int side, transport::LaneSink& sink) override {
    auto made = tcp::make_transport(loop_[side], sink);
    REDSUM_CHECK(made.has_value());
    transport_[side] = std::move(*made);
    return *transport_[side];
  }
  std::pair<std::unique_ptr<transport::Link>, std::unique_ptr<transport::Link>> connect() override {
    auto [left, right] = connected_pair(buffer_bytes_);
    return {tcp::make_link({tcp::Socket(left), {}}), tcp::make_link({tcp::Socket(right), {}})};
  }
  void turn() override {
    std::size_t moved = 0;
    for (int side = 0; side < 2; ++side) moved += loop_[side].poll() + transport_[side]->poll();
    if (moved != 0 || !transport_[0]->arm() || !transport_[1]->arm()) return;
    loop_[0].wait_until(monotonic_now() + kMillisecond / 2);
  }
  bool sleep(int side, DurationNs limit_ns) override {
    const bool armed = transport_[side]->arm();
    if (armed) loop_[side].wait_until(monotonic_now() + limit_ns);
    transport_[side]->poll();
    return armed;
  }
  Raw connect_raw() override {
    auto [left, right] = connected_pair(buffer_bytes_);
    auto raw = std::make_shared<tcp::Socket>(right);
    return {tcp::make_link({tcp::Socket(left), {}}),
            [raw](ConstBytes bytes) {
              while (!bytes.empty()) {
                const ssize_t sent = ::send(raw->descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
                if (sent <= 0) return;  // what a test writes fits the socket's buffer
                bytes = bytes.subspan(static_cast<std::size_t>(sent));
              }
            },
            [raw] { *raw = tcp::Socket(); }};
  }

 private:
  const int buffer_bytes_;
  Loop loop_[2];
  std::unique_ptr<transport::Transport> transport_[2];
};

}  // namespace

std::vector<BackendFactory> backends() {
  return {{"tcp", [] { return std::make_unique<TcpBackend>(0); }},
          {"tcp_short_writes", [] { return std::make_unique<TcpBackend>(4096); }}};
}

}  // namespace redsum::test
