// SPDX-License-Identifier: Apache-2.0
#include "client/job.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "client/direct/listen_address.h"
#include "transport/base/incarnation.h"
#include "transport/base/thread.h"
#include "transport/tcp/tcp.h"

namespace redsum::client {
namespace {

std::string host_and_pid() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(::getpid());
}

}  // namespace

void Job::Worker::push(CommunicatorId id, CallPtr call) {
  std::lock_guard lock(mutex_);
  inbox_.emplace_back(id, std::move(call));
  waiting_.store(true, std::memory_order_release);
}

std::size_t Job::Worker::do_work(TimeNs now) {
  std::size_t work = 0;
  if (waiting_.load(std::memory_order_acquire)) {
    {
      std::lock_guard lock(mutex_);
      taken_.swap(inbox_);
      waiting_.store(false, std::memory_order_relaxed);
    }
    for (Submission& submission : taken_) progress.submit(submission.first, std::move(submission.second));
    work = taken_.size();
    taken_.clear();
  }
  progress.tick(now);
  return work;
}

// Reports come on the progress thread; what they lead to happens on the control thread.
ProgressAgent::Reports Job::reports() {
  return {
      [this](CommunicatorId id, Sequence sequence, const wire::CallDescription& call,
             const std::vector<std::uint32_t>& awaits) {
        loop_.post([=, this] { send(wire::Waiting{id.value, sequence, call, awaits}); });
      },
      [this](const wire::ReducerInfo& reducer, const Status& why) {
        loop_.post([this, instance = reducer.instance, text = why.text()] { send(wire::LaneLost{instance, text}); });
      },
      [this](CommunicatorId id, const Status& why, bool here) {
        if (here)
          loop_.post([=, this] {
            if (id == CommunicatorId(0)) world_failure_ = why;
            send(wire::Fail{id.value, why.code(), why.text(), {}});
          });
        {
          std::lock_guard lock(closed_mutex_);
          closed_.emplace(id, why);
          any_closed_.store(true, std::memory_order_release);
        }
        if (id == CommunicatorId(0)) tell(REDSUM_WORLD_FAILED, why.text());
      },
      [this](CommunicatorId id, std::uint32_t rank, wire::Purpose purpose) {
        loop_.post([=, this] { open_peer_lane(id, rank, purpose); });
      },
      [this](CommunicatorId id, Sequence sequence) {
        loop_.post([=, this] { send(wire::Mismatched{options_.job_id, id.value, sequence, Epoch(began_)}); });
      },
  };
}

Job::Job(const Options& options)
    : options_(options), incarnation_(new_incarnation()), worker_(reports()), progress_thread_("redsum-data") {}

Status Job::start_reducer() {
  auto started =
      start_own_reducer({options_.job_id, options_.rank, incarnation_, options_.coordinators, options_.data_address,
                         options_.pool_key, options_.guarded, options_.heartbeat_timeout, options_.local.host()});
  if (!started) return started.error();
  own_reducer_ = std::move(*started);
  own_ = own_reducer_.get();
  return {};
}

Result<std::shared_ptr<Job>> Job::join(const Options& options) {
  std::shared_ptr<Job> job(new Job(options));
  if (options.mode == wire::Mode::direct)
    if (Status status = job->start_reducer(); !status) return failure(std::move(status));
  if (Status status = job->listen(); !status) return failure(std::move(status));
  auto transport = tcp::make_transport(job->progress_thread_.loop(), job->worker_.progress);
  if (!transport) return failure(transport.error());
  job->transport_ = std::move(*transport);
  job->worker_.progress.use(*job->transport_);
  job->deadline_ = monotonic_now() + options.connect_timeout;
  job->dialer_ = tcp::make_dialer(job->loop_, options.local.addresses);
  job->timer_ = std::make_unique<Timer>(job->loop_);
  job->progress_thread_.start(*job->transport_, job->worker_);
  job->joined_ = std::make_shared<std::promise<Status>>();
  auto joined = job->joined_->get_future();
  job->thread_ = start_thread("redsum-control", [raw = job.get()] {
    raw->begin();
    raw->loop_.run();
  });
  if (Status status = joined.get(); !status) return failure(std::move(status));
  return job;
}

Job::~Job() {
  if (thread_.joinable()) {
    // The coordinator must hear Leave before it sees the connection end.
    loop_.post([this] {
      dialing_.reset();
      dialer_.reset();
      peers_.reset();
      timer_.reset();
      if (!connection_) return loop_.stop();
      connection_->close([this] { loop_.stop(); });
    });
    thread_.join();
  }
  progress_thread_.stop();
  transport_.reset();
}

void Job::begin() {
  control::DialSpec spec;
  spec.addresses = options_.coordinators;
  spec.hello.purpose = wire::Purpose::control_worker;
  spec.hello.job = options_.job_id;
  spec.hello.rank = options_.rank;
  spec.hello.incarnation = incarnation_;
  spec.key = options_.pool_key;
  spec.deadline = deadline_;
  dialing_ = control::dial(loop_, std::move(spec), [this](Result<std::shared_ptr<control::Connection>> connection) {
    if (!connection) {
      finish_join({connection.error().code(), "cannot reach the coordinator: " + connection.error().text()});
      return;
    }
    connection_ = std::move(*connection);
    last_heard_ = monotonic_now();
    connection_->start([this](wire::Message message) { on_message(message); },
                       [this](const Status& why) { coordinator_lost(why); });
    if (const Status s = check_reach(options_.local, options_.interfaces, connection_->peer_address()); !s)
      return finish_join(s);
    wire::Join join;
    join.world_size = options_.world_size;
    join.host = host_and_pid();
    join.version = REDSUM_VERSION;
    join.settings.chunk_bytes = options_.chunk_bytes;
    join.settings.window = options_.window;
    join.settings.mode = options_.mode;
    join.settings.ring_order = options_.ring_order;
    join.settings.fallback = options_.fallback;
    join.settings.min_workers = options_.min_workers;
    join.settings.max_workers = options_.max_workers;
    if (const auto local = tcp::parse_host_port(connection_->local_address()); peers_ && local)
      join.address = peers_->address(local->host);
    join.limit_ms =
        static_cast<std::uint32_t>(std::clamp<DurationNs>((deadline_ - last_heard_) / kMillisecond, 1, 1 << 30));
    send(join);
    beat();
  });
}

void Job::on_message(const wire::Message& message) {
  last_heard_ = monotonic_now();
  if (const auto* m = std::get_if<wire::Joined>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Fail>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Describe>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Prepare>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Commit>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Recruit>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Resumed>(&message)) return handle(*m);
  if (const auto* m = std::get_if<wire::Applicants>(&message)) return handle(*m);
  if (std::holds_alternative<wire::Ping>(message)) return send(message);
  if (std::holds_alternative<wire::Bring>(message)) return bring_reducer();
  if (const auto* m = std::get_if<wire::CloseCommunicator>(&message))
    return progress_thread_.loop().post([this, id = CommunicatorId(m->communicator)] {
      worker_.progress.close_communicator(id, {Code::closed, "the communicator was closed"});
    });
  if (std::holds_alternative<wire::CloseJob>(message)) return set_over();
  if (const auto* m = std::get_if<wire::Created>(&message))
    return finish_create(m->request, CommunicatorId(m->communicator));
  if (const auto* m = std::get_if<wire::CreateFailed>(&message))
    return finish_create(m->request, failure(m->code, m->text));
  if (const auto* m = std::get_if<wire::Stalled>(&message))
    progress_thread_.loop().post([this, stalled = *m] { worker_.progress.on_stalled(stalled); });
}

void Job::handle(const wire::Fail& message) {
  const Status why(message.code, message.text);
  const bool of_world = message.communicator == 0 || message.communicator == wire::kEveryCommunicator;
  if (of_world) world_failure_ = why;
  if (outlives(message) && message.communicator == wire::kEveryCommunicator)
    return progress_thread_.loop().post([this, why] { worker_.progress.fail_all(why); });
  if (awaits_members_ && admits_ && of_world) finish_join(why);
  if ((joining_ && !awaits_members_) || message.communicator == wire::kEveryCommunicator) return end(why);
  progress_thread_.loop().post([this, why, id = CommunicatorId(static_cast<std::uint16_t>(message.communicator))] {
    worker_.progress.fail(id, why);
  });
}

// The coordinator wants to know what a call was, to tell the ranks how their calls differ.
void Job::handle(const wire::Describe& message) {
  progress_thread_.loop().post([this, message] {
    const wire::CallDescription* call =
        worker_.progress.describe(CommunicatorId(message.communicator), message.sequence);
    if (!call) return;
    loop_.post([this, answer = wire::Waiting{message.communicator, message.sequence, *call, {}}] { send(answer); });
  });
}

// The reducers change: stop, and say how far this rank is.
void Job::handle(const wire::Prepare& message) {
  progress_thread_.loop().post([this, epoch = message.epoch] {
    loop_.post([this, answer = wire::Progress{epoch, worker_.progress.prepare()}] { send(answer); });
  });
}

void Job::set_pool(Epoch epoch, const std::vector<wire::ReducerInfo>& reducers) {
  Pool pool{epoch, static_cast<std::uint32_t>(reducers.size()), 0};
  for (const wire::ReducerInfo& reducer : reducers) pool.shards += reducer.shards;
  std::lock_guard lock(pool_mutex_);
  pool_ = pool;
}

Job::Pool Job::pool() const {
  std::lock_guard lock(pool_mutex_);
  return pool_;
}

void Job::beat() {
  if (!connection_) return;
  const TimeNs now = monotonic_now();
  // The coordinator ends a formation in time and says who is missing; this is for one that does not answer at all.
  if (joining_ && now > deadline_ + kSecond)
    finish_join({Code::timeout, "the coordinator did not form the job within connect_timeout"});
  if (now - last_heard_ > options_.heartbeat_timeout) {
    const std::string address = connection_->peer_address();
    connection_->close();
    return coordinator_lost(
        {Code::peer_lost, "no heartbeat from the coordinator at " + address + " for longer than heartbeat_timeout"});
  }
  send(wire::Heartbeat{++beats_});
  timer_->at(now + options_.heartbeat_timeout / 3, [this] { beat(); });
}

void Job::coordinator_lost(const Status& why) {
  connection_.reset();
  end({Code::reducer_lost, "the coordinator is lost: " + why.text() + "; the job's collectives end"});
}

// Everything of this job ends.
void Job::end(const Status& why) {
  ended_ = true;
  if (world_failure_.code() != Code::stale) world_failure_ = why;  // whose connection is closed then
  set_over();
  finish_join(why);
  while (!creations_.empty()) finish_create(creations_.begin()->first, failure(why));
  progress_thread_.loop().post([this, why] { worker_.progress.fail_all(why); });
}

Result<CommunicatorId> Job::create(const std::vector<std::uint32_t>& members) {
  auto done = std::make_shared<std::promise<Result<CommunicatorId>>>();
  auto future = done->get_future();
  loop_.post([this, members, done] {
    if (!connection_) return done->set_value(failure(Code::closed, "the job has ended"));
    if (joining_) return done->set_value(failure(Code::closed, "the workers of the job change"));
    const std::uint64_t request = next_request_++;
    creations_[request] = {members, done};
    send(wire::Create{request, members});
  });
  // The coordinator ends every creation within its own limit; this one is for a coordinator that does not answer at
  // all.
  const auto limit = std::chrono::nanoseconds(options_.connect_timeout) + std::chrono::seconds(5);
  if (future.wait_for(limit) != std::future_status::ready)
    return failure(Code::timeout, "the coordinator did not open the communicator within connect_timeout");
  return future.get();
}

void Job::finish_create(std::uint64_t request, Result<CommunicatorId> result) {
  const auto found = creations_.find(request);
  if (found == creations_.end()) return;
  const Creation creation = std::move(found->second);
  creations_.erase(found);
  if (!result) return creation.done->set_value(std::move(result));
  const auto at = std::find(creation.members.begin(), creation.members.end(), membership_->rank);
  const Rank rank(static_cast<std::uint32_t>(at - creation.members.begin()));
  progress_thread_.loop().post([this, rank, members = creation.members, id = *result, done = creation.done] {
    const Status status = worker_.progress.open_communicator(id, rank, members);
    // The other members have it already: they must not wait for this one.
    if (!status) loop_.post([=, this] { send(wire::Fail{id.value, status.code(), status.text(), {}}); });
    done->set_value(status ? Result<CommunicatorId>(id) : failure(status));
  });
}

Status Job::closed(CommunicatorId id, Epoch began) const {
  if (began.value != began_.load(std::memory_order_acquire))
    return {Code::closed, "the workers of the job have changed since this communicator was made; make it again"};
  if (!any_closed_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(closed_mutex_);
  const auto found = closed_.find(id);
  return found == closed_.end() ? Status() : found->second;
}

void Job::submit(CommunicatorId id, CallPtr call) {
  worker_.push(id, std::move(call));
  progress_thread_.loop().wake();
}

transport::Transport::Counters Job::counters() {
  transport::Transport::Counters counters;
  progress_thread_.call([&] { counters = transport_->counters(); });
  const OwnReducer* own = own_;
  if (!own) return counters;
  const transport::Transport::Counters more = own->counters();
  counters.bytes_sent += more.bytes_sent;
  counters.bytes_received += more.bytes_received;
  counters.frames_sent += more.frames_sent;
  counters.frames_received += more.frames_received;
  return counters;
}

}  // namespace redsum::client
