// SPDX-License-Identifier: Apache-2.0
// How two redsum processes prove to each other that they know the same key, before anything else is believed. The same
// handshake opens control connections (key: the pool's secret) and lanes (key: derived per job, see lane_key()). Pure:
// bytes in, bytes out; somebody else owns the socket.
//
//   initiator -> acceptor   Hello      versions, purpose, job, rank, incarnation, target instance, nonce      (256
//   bytes) acceptor -> initiator   Challenge  nonce, HMAC-SHA256(key, "acceptor" | hello | nonce)  or a refusal (320
//   bytes) initiator -> acceptor   Proof      HMAC-SHA256(key, "initiator" | hello | challenge nonce) (32 bytes)
//   acceptor -> initiator   Verdict    ok or a refusal: code and text                                          (256
//   bytes)
//
// All sizes are fixed, so an unauthenticated peer can make us hold at most kHelloBytes. The initiator learns the
// acceptor's proof before it sends its own; a wrong key ends with auth_failed on both sides, another major version with
// version_mismatch naming both versions.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "transport/base/status.h"
#include "transport/base/types.h"

namespace redsum::wire {

inline constexpr std::uint16_t kProtocolMajor = 1;  // another one: version_mismatch
inline constexpr std::uint16_t kProtocolMinor = 0;  // another one: works
inline constexpr std::size_t kHelloBytes = 256;
inline constexpr std::size_t kChallengeBytes = 320;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kVerdictBytes = 256;
inline constexpr std::size_t kMaxJobIdBytes = 64;

using Nonce = std::array<std::uint8_t, 32>;
using Key = std::array<std::uint8_t, 32>;

enum class Purpose : std::uint8_t {
  control_worker = 1,
  control_reducer = 2,
  control_tool = 3,
  lane = 4,
  ring_lane = 5,      // to the next worker of a communicator's ring
  exchange_lane = 6,  // to another worker of a communicator, for collectives' messages to it
  pair_lane = 7,      // likewise, for sends to it
};

struct Hello {
  std::uint16_t major = kProtocolMajor, minor = kProtocolMinor;
  Purpose purpose = Purpose::lane;
  std::uint16_t shard = 0;            // lane: which shard of the reducer; lanes of workers: the communicator
  std::uint32_t rank = 0;             // worker: its rank in the job
  Incarnation incarnation = 0;        // of the initiator
  std::uint64_t target_instance = 0;  // incarnation of the process meant to answer; 0: any
  std::uint32_t epoch = 0;            // lanes between workers: of the membership they belong to (EpochRecord::epoch)
  std::string job;                    // [A-Za-z0-9._-]{1,64}, no leading dot; empty for reducers and tools
  Nonce nonce{};
};

// True for a name that may be a job id: [A-Za-z0-9._-]{1,64} without a leading dot.
bool valid_job_id(std::string_view text) noexcept;

std::array<std::byte, kHelloBytes> encode_hello(const Hello& hello);
Result<Hello> decode_hello(ConstBytes bytes);  // protocol_error naming the field

Nonce random_nonce();                          // from the system's generator
Key key_from_secret(std::string_view secret);  // a pool's secret file -> key; an empty secret has a key too
// The key of a job's lanes. Members derive it from the pool's key and the nonce in the epoch record; it never travels.
Key lane_key(const Key& pool_key, std::string_view job, const Nonce& nonce);

// One side of one handshake. Feed exactly want() bytes; then send what output() holds; until done().
class Initiator {
 public:
  Initiator(const Hello& hello, const Key& key);
  ConstBytes first_output() const noexcept { return hello_; }
  std::size_t want() const noexcept;  // bytes of the next input; 0 when done
  Status feed(ConstBytes input, std::array<std::byte, kProofBytes>& output, std::size_t& output_bytes);
  bool done() const noexcept { return state_ == State::done; }

 private:
  enum class State { challenge, verdict, done };
  State state_ = State::challenge;
  std::array<std::byte, kHelloBytes> hello_;
  Key key_;
};

class Acceptor {
 public:
  std::size_t want() const noexcept;
  // After kHelloBytes: the parsed hello, and whether the caller should go on. The caller looks up the key and calls
  // challenge(), or refuse(); both fill `output`.
  Result<Hello> on_hello(ConstBytes input);
  void challenge(const Key& key, std::array<std::byte, kChallengeBytes>& output);
  static void refuse(const Status& why, std::array<std::byte, kChallengeBytes>& output);
  // After kProofBytes: ok, or auth_failed. `output` is the verdict to send in both cases.
  Status on_proof(ConstBytes input, std::array<std::byte, kVerdictBytes>& output);

 private:
  enum class State { hello, proof, done };
  State state_ = State::hello;
  std::array<std::byte, kHelloBytes> hello_{};
  Key key_{};
  Nonce nonce_{};
};

}  // namespace redsum::wire
