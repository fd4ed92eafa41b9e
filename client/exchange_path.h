// SPDX-License-Identifier: Apache-2.0
// Exchanges of one communicator at one worker: all_to_all, gather and scatter, or sends and receives. Carries out what
// Outbox and Inbox decide, over one lane for each rank that this one has something for (dialled by the sender, at the
// first message) and one for each that has something for this one. Data is sent from the user's memory and, where its
// call is submitted in time, read into the user's memory. A call ends when all it wants is here and the transport has
// all it sends. One thread, the progress agent's.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/call.h"
#include "client/core/exchange_core.h"
#include "client/core/pending_calls.h"
#include "transport/base/region.h"
#include "transport/transport.h"

namespace redsum::client {

// Sequences of sends and receives, which only two ranks take part in, are numbers of this rank's own from here on; so
// they come behind those of all collectives.
inline constexpr Sequence kOwnSequences = Sequence{1} << 63;

class ExchangePath final : public UnderWay {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual Call& call_of(Sequence sequence) = 0;  // a pending call
    virtual void finish(Sequence sequence) = 0;
    virtual void wants_lane(Rank to) = 0;  // a lane to that rank is to be dialled
  };

  // `record` and `transport` outlive it.
  ExchangePath(CommunicatorId id, Rank rank, std::uint32_t members, const wire::EpochRecord& record,
               transport::Transport& transport);

  ~ExchangePath() override;

  void adopt_out(Rank to, std::unique_ptr<transport::Link> link);
  Status adopt_in(Rank from, std::unique_ptr<transport::Link> link);
  bool has_in(Rank from) const;
  bool has(transport::LaneId lane) const { return lanes_.contains(lane); }
  Rank lose(transport::LaneId lane, const Status& why);  // one that it has: who is at its other end
  void close();  // all lanes; from then on the transport touches no memory of the communicator

  // Each may end calls through the owner. An error ends the communicator: mismatch, protocol_error, resource_exhausted.
  Status submit(Call& call, Owner& owner);
  Status on_arrival(transport::LaneId lane, const wire::Header& header, Bytes payload, Owner& owner);
  Status pump(Owner& owner);
  void settle(Owner& owner);  // ends calls whose frames are away by now
  bool sending() const { return sending_ != 0; }

  std::optional<Sequence> oldest() const override;
  // peer_lost where a pending call needs a lane that is gone.
  Status blocked() const;
  // From which ranks something is still to come for the call.
  std::vector<std::uint32_t> awaited(Sequence sequence) const;
  // Whom a call waits for, for messages: "nothing more has come from ranks 1 2".
  std::string waits_for(Sequence sequence) const;

 private:
  struct Out;
  struct In;
  struct LaneRef {
    Rank peer;
    bool out = false;
  };

  ExchangeRoute route(Rank from, Rank to) const;
  Out& out(Rank to);
  In& in(Rank from);
  void send(Out& lane, Owner& owner);
  Status take(In& lane, Owner& owner);
  void await(In& lane, Owner& owner);
  void part_done(Sequence sequence, Owner& owner);

  const CommunicatorId id_;
  const Rank rank_;
  const std::uint32_t members_;
  const wire::EpochRecord& record_;
  transport::Transport& transport_;
  std::map<Rank, std::unique_ptr<Out>> out_;
  std::map<Rank, std::unique_ptr<In>> in_;
  std::map<transport::LaneId, LaneRef> lanes_;
  std::map<Sequence, std::size_t> pending_;  // parts that are not done
  std::size_t sending_ = 0;                  // messages that wait for the network alone
};

}  // namespace redsum::client
