// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/links.h"

#include <utility>
#include <vector>

#include "transport/tcp/listen.h"
#include "transport/tcp/tcp.h"

namespace redsum::tcp {
namespace {

using transport::Dialer;
using transport::Link;
using transport::Listener;

class TcpDialer final : public Dialer {
 public:
  TcpDialer(Loop& loop, std::vector<Endpoint> local) : loop_(loop), local_(std::move(local)) {}
  void dial(const std::string& address, const wire::Hello& hello, const wire::Key& key, TimeNs deadline,
            Done done) override {
    // Each dial holds its own slot, so that its end does not touch the others; finished slots go with the next dial.
    std::erase_if(under_way_, [](const auto& slot) { return slot->finished; });
    auto slot = std::make_shared<Slot>();
    under_way_.push_back(slot);
    slot->handle = tcp::dial(loop_, DialSpec{{address}, hello, key, deadline, local_},
                             [weak = std::weak_ptr<Slot>(slot), done = std::move(done)](Result<Connected> result) {
                               if (const auto mine = weak.lock()) mine->finished = true;
                               if (!result) return done(failure(result.error()));
                               done(make_link(std::move(*result)));
                             });
  }
  void cancel() override { under_way_.clear(); }

 private:
  struct Slot {
    std::shared_ptr<void> handle;
    bool finished = false;
  };
  Loop& loop_;
  const std::vector<Endpoint> local_;
  std::vector<std::shared_ptr<Slot>> under_way_;
};

class TcpListener final : public Listener {
 public:
  explicit TcpListener(std::unique_ptr<Listening> listening) : listening_(std::move(listening)) {}
  std::string address() const override { return listening_->address(); }

 private:
  std::unique_ptr<Listening> listening_;
};

}  // namespace

std::unique_ptr<Link> make_link(Connected connected) {
  return std::make_unique<TcpLink>(std::move(connected));
}

std::unique_ptr<Dialer> make_dialer(Loop& loop, std::vector<Endpoint> local) {
  return std::make_unique<TcpDialer>(loop, std::move(local));
}

Result<std::unique_ptr<Listener>> make_listener(Loop& loop, const std::string& address, std::uint64_t instance,
                                                Listener::KeyFor key_for, Listener::Accepted accepted) {
  ListenSpec spec;
  spec.address = address;
  spec.instance = instance;
  spec.key_for = std::move(key_for);
  spec.on_connected = [accepted = std::move(accepted)](Connected connected) {
    accepted(make_link(std::move(connected)));
  };
  auto listening = listen(loop, std::move(spec));
  if (!listening) return failure(listening.error());
  return std::make_unique<TcpListener>(std::move(*listening));
}

}  // namespace redsum::tcp
