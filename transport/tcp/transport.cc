// SPDX-License-Identifier: Apache-2.0
// Lanes over an epoll set of their own: poll() asks it without waiting and moves what is ready, arm() lets the thread's
// loop watch the set itself. Edges, so that a lane costs no system call but its transfers.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/base/check.h"
#include "transport/base/time.h"
#include "transport/tcp/address.h"
#include "transport/tcp/lane.h"
#include "transport/tcp/links.h"
#include "transport/tcp/tcp.h"

namespace redsum::tcp {
namespace {

namespace asio = boost::asio;
using transport::LaneId;
using transport::LaneSink;
using transport::Link;
using transport::PlaceTable;

constexpr int kEventsPerPoll = 64;
constexpr std::size_t kScratchBytes = 64u << 10;
// Small frames wait for the end of the owner's turn, so that several leave in one system call; from so many queued
// bytes on the kernel works better at once, while the owner prepares more.
constexpr std::size_t kSendNowBytes = 32u << 10;
// A lane that the owner closed is read, and what comes is dropped, until the peer has ended it too: a socket that is
// closed over unread bytes makes the peer's kernel forget what the peer has not read yet. At most so many bytes, and
// longer than the default heartbeat_timeout (who is silent for that long is lost); a thread that sleeps looks at its
// next turn.
constexpr std::size_t kFarewellBytes = 64u << 20;
constexpr DurationNs kFarewellLimit = 4 * kSecond;

struct Lane {
  LaneId id;
  Socket socket;
  std::string peer;
  SendQueue out;
  FrameReader in;
  bool dead = false;     // closed or reported lost; freed at the end of the poll,
  bool leaving = false;  // or when the peer has ended it
  TimeNs leaves_until = kNever;
  std::size_t dropped = 0;
  bool readable = false;  // in the list of lanes to read
  bool unsent = false;    // in the list of lanes to send
  bool full = false;      // the socket takes no more until its next edge
  bool ended = false;     // the peer ended the stream or it broke: read to that end
  Status send_error;      // sending failed; what has arrived is still delivered before the loss is reported
};

class TcpTransport final : public transport::Transport {
 public:
  TcpTransport(Loop& loop, LaneSink& sink, int epoll_descriptor)
      : sink_(sink), epoll_(epoll_descriptor), watch_(std::make_shared<Watch>(loop)), scratch_(kScratchBytes) {}
  Status begin() { return watch_->start(epoll_); }
  ~TcpTransport() override {
    wait_for_farewells();
    watch_->stop();
  }

  LaneId adopt(std::unique_ptr<Link> link) override;
  void expose(LaneId lane, CommunicatorId communicator, const PlaceTable& places) override {
    if (Lane* const found = find(lane)) found->in.expose(communicator.value, places);
  }
  void hide(LaneId lane, CommunicatorId communicator) override {
    Lane* const found = find(lane);
    if (!found) return;
    found->in.hide(communicator.value);
    counters_.frames_dropped += found->out.forget(communicator.value);
  }
  bool deposit(LaneId lane, const wire::Header& header, ConstBytes payload) override;
  std::uint64_t sent(LaneId lane) const override {
    const auto found = lanes_.find(lane.value);
    if (found == lanes_.end() || !found->second->send_error.ok()) return kAllSent;  // as deposit(): gone
    return found->second->out.sent();
  }
  bool drained(LaneId lane) const override {
    const auto found = lanes_.find(lane.value);
    return found == lanes_.end() || !found->second->send_error.ok() || found->second->out.drained();
  }
  bool landing(LaneId lane) const override {
    const auto found = lanes_.find(lane.value);
    return found != lanes_.end() && found->second->in.in_payload();
  }
  void close(LaneId lane) override {
    if (Lane* const found = find(lane)) leave(*found);
  }
  std::string peer_address(LaneId lane) const override {
    const auto found = lanes_.find(lane.value);
    return found == lanes_.end() ? std::string() : found->second->peer;
  }
  std::size_t poll() override;
  bool arm() override;
  Counters counters() const override { return counters_; }

 private:
  // What the loop's handler holds: it may outlive the transport by a turn.
  struct Watch {
    explicit Watch(Loop& loop) : descriptor(loop.io()) {}
    Status start(int epoll_descriptor) {
      boost::system::error_code error;
      descriptor.assign(epoll_descriptor, error);
      if (!error) return {};
      ::close(epoll_descriptor);
      return {Code::resource_exhausted, "the event queue for lanes cannot be watched: " + error.message()};
    }
    void stop() {
      boost::system::error_code ignored;
      descriptor.close(ignored);  // closes the epoll set
    }
    asio::posix::stream_descriptor descriptor;
    bool armed = false;
  };

  Lane* find(LaneId lane) {
    const auto found = lanes_.find(lane.value);
    return found == lanes_.end() ? nullptr : found->second.get();
  }
  void mark_readable(Lane& lane) {
    if (!std::exchange(lane.readable, true)) readable_.push_back(&lane);
  }
  void collect_events();
  void read(Lane& lane);
  void send(Lane& lane);
  void send_unsent();
  void lose(Lane& lane, const Status& why);
  void bury(Lane& lane);
  void end(Lane& lane);
  void leave(Lane& lane);
  void drop_arrivals(Lane& lane);
  void end_farewell(Lane& lane);
  void end_late_farewells(TimeNs now);
  void wait_for_farewells();

  LaneSink& sink_;
  const int epoll_;  // owned by watch_
  std::shared_ptr<Watch> watch_;
  std::unordered_map<std::uint64_t, std::unique_ptr<Lane>> lanes_;
  std::vector<std::unique_ptr<Lane>> leaving_;  // in the order in which they were closed
  std::vector<std::unique_ptr<Lane>> dead_;     // lists and callbacks may still point to them until the poll ends
  std::vector<Lane*> readable_, reading_;       // reading_: of this poll
  std::vector<Lane*> unsent_, sending_;
  std::vector<std::byte> scratch_;
  std::uint64_t next_lane_ = 1;
  Counters counters_;
};

LaneId TcpTransport::adopt(std::unique_ptr<Link> link) {
  auto* const tcp_link = dynamic_cast<TcpLink*>(link.get());
  REDSUM_CHECK(tcp_link != nullptr);  // the owner pairs backends
  auto owned = std::make_unique<Lane>();
  Lane& lane = *owned;
  lane.id = LaneId(next_lane_++);
  lane.peer = tcp_link->peer_address();
  lane.socket = tcp_link->take_socket();
  lanes_.emplace(lane.id.value, std::move(owned));
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &lane;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, lane.socket.descriptor(), &event) != 0) {
    lane.send_error = {Code::resource_exhausted, "the connection cannot be watched: " + errno_text(errno)};
    lane.ended = true;
  }
  mark_readable(lane);  // what arrived before has no edge of its own
  return lane.id;
}

bool TcpTransport::deposit(LaneId id, const wire::Header& header, ConstBytes payload) {
  Lane* const lane = find(id);
  if (!lane || !lane->send_error.ok()) return false;
  REDSUM_CHECK(header.payload_bytes == payload.size());
  lane->out.push(header, payload);
  if (!std::exchange(lane->unsent, true)) unsent_.push_back(lane);
  if (!lane->full && lane->out.queued_bytes() >= kSendNowBytes) send(*lane);
  return true;
}

std::size_t TcpTransport::poll() {
  const std::uint64_t before = counters_.frames_sent + counters_.frames_received;
  send_unsent();
  if (!leaving_.empty()) end_late_farewells(monotonic_now());
  collect_events();
  reading_.swap(readable_);
  for (Lane* const lane : reading_) {
    lane->readable = false;
    if (!lane->dead) read(*lane);
  }
  reading_.clear();
  send_unsent();  // what the sink deposited
  if (!dead_.empty()) {
    std::erase_if(readable_, [](const Lane* lane) { return lane->dead; });
    dead_.clear();
  }
  return counters_.frames_sent + counters_.frames_received - before;
}

void TcpTransport::collect_events() {
  std::array<epoll_event, kEventsPerPoll> events;
  const int count = ::epoll_wait(epoll_, events.data(), kEventsPerPoll, 0);
  for (int i = 0; i < count; ++i) {
    Lane& lane = *static_cast<Lane*>(events[static_cast<std::size_t>(i)].data.ptr);
    const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
    if (lane.leaving) {
      drop_arrivals(lane);
      continue;
    }
    if (what & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) lane.ended = true;
    if (what & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) mark_readable(lane);
    if ((what & EPOLLOUT) && std::exchange(lane.full, false) && !lane.out.empty()) send(lane);
  }
}

void TcpTransport::read(Lane& lane) {
  struct Delivery final : FrameReader::Target {
    Delivery(LaneSink& to, LaneId from) : sink(to), id(from) {}
    void on_frame(const wire::Header& header, Bytes payload) override { sink.on_arrival(id, header, payload); }
    LaneSink& sink;
    LaneId id;
  } delivery(sink_, lane.id);
  Status why;
  const Moved moved = lane.in.read(lane.socket.descriptor(), lane.ended, scratch_, delivery, counters_, why);
  if (lane.dead) return;
  if (moved == Moved::budget) return mark_readable(lane);
  if (moved == Moved::broken) return lose(lane, why);
  if (!lane.send_error.ok()) lose(lane, lane.send_error);
}

void TcpTransport::send(Lane& lane) {
  Status why;
  const Moved moved = lane.out.send(lane.socket.descriptor(), counters_, why);
  lane.full = moved == Moved::blocked;
  if (moved != Moved::broken) return;
  lane.send_error = std::move(why);
  lane.ended = true;
  mark_readable(lane);
}

void TcpTransport::send_unsent() {
  sending_.swap(unsent_);
  for (Lane* const lane : sending_) {
    lane->unsent = false;
    if (!lane->dead && !lane->full && lane->send_error.ok()) send(*lane);
  }
  sending_.clear();
}

void TcpTransport::lose(Lane& lane, const Status& why) {
  const LaneId id = lane.id;
  const Status told(why.code(), "lane to " + lane.peer + ": " + why.text());
  bury(lane);
  sink_.on_lane_lost(id, told);
}

void TcpTransport::bury(Lane& lane) {
  lane.dead = true;
  lane.in.stop();
  end(lane);
  const auto found = lanes_.find(lane.id.value);
  dead_.push_back(std::move(found->second));
  lanes_.erase(found);
}

void TcpTransport::end(Lane& lane) {
  // Said to the kernel before the descriptor goes: a child process that was forked holds a copy of it, which would keep
  // the connection open and its events coming.
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, lane.socket.descriptor(), nullptr);
  ::shutdown(lane.socket.descriptor(), SHUT_RDWR);
  lane.socket = Socket();
}

void TcpTransport::leave(Lane& lane) {
  if (lane.ended || !lane.send_error.ok()) return bury(lane);
  lane.dead = lane.leaving = true;
  lane.leaves_until = monotonic_now() + kFarewellLimit;
  lane.in.stop();
  ::shutdown(lane.socket.descriptor(), SHUT_WR);
  const auto found = lanes_.find(lane.id.value);
  leaving_.push_back(std::move(found->second));
  lanes_.erase(found);
  drop_arrivals(lane);  // they have had their edge
}

void TcpTransport::drop_arrivals(Lane& lane) {
  for (;;) {
    const ssize_t got = ::recv(lane.socket.descriptor(), scratch_.data(), scratch_.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    lane.dropped += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    if (got > 0 && lane.dropped < kFarewellBytes) continue;
    return end_farewell(lane);
  }
}

void TcpTransport::end_farewell(Lane& lane) {
  end(lane);
  const auto found =
      std::find_if(leaving_.begin(), leaving_.end(), [&](const auto& other) { return other.get() == &lane; });
  dead_.push_back(std::move(*found));
  leaving_.erase(found);
}

void TcpTransport::end_late_farewells(TimeNs now) {
  while (!leaving_.empty() && leaving_.front()->leaves_until <= now) end_farewell(*leaving_.front());
}

void TcpTransport::wait_for_farewells() {
  while (!leaving_.empty()) {
    const DurationNs left = leaving_.front()->leaves_until - monotonic_now();
    if (left <= 0) {
      end_farewell(*leaving_.front());
      continue;
    }
    pollfd waits{leaving_.front()->socket.descriptor(), POLLIN, 0};
    if (::poll(&waits, 1, static_cast<int>(left / kMillisecond) + 1) > 0) drop_arrivals(*leaving_.front());
  }
}

bool TcpTransport::arm() {
  if (!readable_.empty() || !unsent_.empty()) return false;
  // Armed earlier and not fired: then nothing came that a poll has not taken.
  if (watch_->armed) return true;
  watch_->armed = true;
  // Watching an epoll set that has something ready fires at once, so nothing is lost between the last poll and here.
  watch_->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                [watch = watch_](const boost::system::error_code&) { watch->armed = false; });
  return true;
}

}  // namespace

Result<std::unique_ptr<transport::Transport>> make_transport(Loop& loop, LaneSink& sink) {
  const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
  if (descriptor < 0) return failure(Code::resource_exhausted, "no event queue for lanes: " + errno_text(errno));
  auto made = std::make_unique<TcpTransport>(loop, sink, descriptor);
  if (Status status = made->begin(); !status) return failure(std::move(status));
  return made;
}

}  // namespace redsum::tcp
