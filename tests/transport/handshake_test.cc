// SPDX-License-Identifier: Apache-2.0
// Both roles of the handshake in memory.
#include "transport/wire/handshake.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace redsum::wire {
namespace {

Hello lane_hello() {
  Hello hello;
  hello.rank = 3;
  hello.shard = 2;
  hello.incarnation = 99;
  hello.target_instance = 77;
  hello.job = "job-1.a_B";
  hello.nonce = random_nonce();
  return hello;
}

struct Outcome {
  Status initiator, acceptor;
  Hello seen;
};

// A whole handshake; `spoil` may change the bytes of message 0 (hello) to 3 (verdict) on the way.
Outcome shake(
    const Hello& hello, const Key& ours, const Key& theirs,
    const std::function<void(int, std::vector<std::byte>&)>& spoil = [](int, auto&) {}) {
  Outcome outcome;
  Initiator initiator(hello, ours);
  Acceptor acceptor;
  std::array<std::byte, kChallengeBytes> challenge;
  std::array<std::byte, kProofBytes> proof;
  std::array<std::byte, kVerdictBytes> verdict;
  std::size_t proof_bytes = 0;
  const auto carry = [&](int number, ConstBytes bytes) {
    std::vector<std::byte> moved(bytes.begin(), bytes.end());
    spoil(number, moved);
    return moved;
  };
  EXPECT_EQ(acceptor.want(), kHelloBytes);
  const auto seen = acceptor.on_hello(carry(0, initiator.first_output()));
  if (!seen) {
    outcome.acceptor = seen.error();
    Acceptor::refuse(seen.error(), challenge);
    outcome.initiator = initiator.feed(carry(1, challenge), proof, proof_bytes);
    return outcome;
  }
  outcome.seen = *seen;
  acceptor.challenge(theirs, challenge);
  EXPECT_EQ(initiator.want(), kChallengeBytes);
  outcome.initiator = initiator.feed(carry(1, challenge), proof, proof_bytes);
  if (!outcome.initiator) {
    EXPECT_EQ(proof_bytes, 0u) << "no proof for who has proved nothing";
    return outcome;
  }
  EXPECT_EQ(acceptor.want(), proof_bytes);
  outcome.acceptor = acceptor.on_proof(carry(2, proof), verdict);
  EXPECT_EQ(initiator.want(), kVerdictBytes);
  outcome.initiator = initiator.feed(carry(3, verdict), proof, proof_bytes);
  EXPECT_EQ(initiator.done(), outcome.initiator.ok());
  return outcome;
}

const Key kKey = key_from_secret("secret");

TEST(Handshake, TheSameKeySucceedsAndCarriesTheHello) {
  const Hello hello = lane_hello();
  const Outcome outcome = shake(hello, kKey, kKey);
  EXPECT_TRUE(outcome.initiator.ok()) << outcome.initiator.to_string();
  EXPECT_TRUE(outcome.acceptor.ok());
  EXPECT_EQ(outcome.seen.rank, hello.rank);
  EXPECT_EQ(outcome.seen.shard, hello.shard);
  EXPECT_EQ(outcome.seen.incarnation, hello.incarnation);
  EXPECT_EQ(outcome.seen.target_instance, hello.target_instance);
  EXPECT_EQ(outcome.seen.job, hello.job);
  EXPECT_EQ(outcome.seen.nonce, hello.nonce);
}

TEST(Handshake, AnotherKeyIsAuthFailed) {
  const Outcome outcome = shake(lane_hello(), kKey, key_from_secret("other"));
  EXPECT_EQ(outcome.initiator.code(), Code::auth_failed);
  EXPECT_NE(outcome.initiator.text().find("secret"), std::string::npos);
}

TEST(Handshake, AProofOfAnotherKeyIsAuthFailedOnBothSides) {
  Acceptor acceptor;
  const Hello hello = lane_hello();
  ASSERT_TRUE(acceptor.on_hello(encode_hello(hello)).has_value());
  std::array<std::byte, kChallengeBytes> challenge;
  acceptor.challenge(kKey, challenge);
  std::array<std::byte, kVerdictBytes> verdict;
  const std::array<std::byte, kProofBytes> guess{};
  EXPECT_EQ(acceptor.on_proof(guess, verdict).code(), Code::auth_failed);
  Initiator initiator(hello, kKey);
  std::array<std::byte, kProofBytes> proof;
  std::size_t proof_bytes = 0;
  ASSERT_TRUE(initiator.feed(challenge, proof, proof_bytes).ok());
  EXPECT_EQ(initiator.feed(verdict, proof, proof_bytes).code(), Code::auth_failed);
  EXPECT_FALSE(initiator.done());
}

TEST(Handshake, ReplayedProofsDoNotPass) {
  const Hello hello = lane_hello();
  Initiator initiator(hello, kKey);
  std::array<std::byte, kChallengeBytes> challenge;
  std::array<std::byte, kProofBytes> proof;
  std::array<std::byte, kVerdictBytes> verdict;
  std::size_t proof_bytes = 0;
  Acceptor first, second;
  ASSERT_TRUE(first.on_hello(initiator.first_output()).has_value());
  first.challenge(kKey, challenge);
  ASSERT_TRUE(initiator.feed(challenge, proof, proof_bytes).ok());
  ASSERT_TRUE(second.on_hello(initiator.first_output()).has_value());
  second.challenge(kKey, challenge);
  EXPECT_EQ(second.on_proof(proof, verdict).code(), Code::auth_failed);
}

TEST(Handshake, EveryChangedByteIsAnErrorOnOneSide) {
  const std::size_t sizes[] = {kHelloBytes, kChallengeBytes, kProofBytes, kVerdictBytes};
  for (int message = 0; message < 4; ++message) {
    for (std::size_t at = 0; at < sizes[message]; ++at) {
      // Room for text and the minor versions do not matter to an accepted handshake.
      if (message == 1 && (at == 10 || at == 11 || at == 13 || at >= 80)) continue;
      if (message == 3 && (at == 9 || at >= 12)) continue;
      // A length of a text that is not there: only lengths that cannot be are errors.
      if (message == 1 && at == 14) continue;
      if (message == 3 && at == 10) continue;
      const Outcome outcome = shake(lane_hello(), kKey, kKey, [&](int number, std::vector<std::byte>& bytes) {
        if (number == message) bytes[at] ^= std::byte{0x41};
      });
      EXPECT_FALSE(outcome.initiator.ok() && outcome.acceptor.ok()) << "message " << message << " byte " << at;
    }
  }
}

TEST(Handshake, OPS_03_AnotherMajorVersionNamesBothOnBothSides) {
  Hello hello = lane_hello();
  hello.major = kProtocolMajor + 1;
  const Outcome outcome = shake(hello, kKey, kKey);
  for (const Status& status : {outcome.acceptor, outcome.initiator}) {
    EXPECT_EQ(status.code(), Code::version_mismatch);
    EXPECT_NE(status.text().find("2.0"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("1.0"), std::string::npos) << status.text();
  }
}

TEST(Handshake, OPS_03_AnAcceptorOfAnotherMajorVersionIsNamedByTheInitiator) {
  const Outcome outcome = shake(lane_hello(), kKey, kKey, [](int number, std::vector<std::byte>& bytes) {
    if (number == 1) bytes[8] = std::byte{9};
  });
  EXPECT_EQ(outcome.initiator.code(), Code::version_mismatch);
  EXPECT_NE(outcome.initiator.text().find("9.0"), std::string::npos);
}

TEST(Handshake, OPS_03_ANewerMinorVersionMaySayMore) {
  auto bytes = encode_hello(lane_hello());
  bytes[200] = std::byte{1};
  EXPECT_EQ(decode_hello(bytes).error().code(), Code::protocol_error);
  bytes[10] = std::byte{kProtocolMinor + 1};
  EXPECT_TRUE(decode_hello(bytes).has_value());
}

TEST(Handshake, SEC_05_HellosOutOfRangeAreRefusedByName) {
  const auto refused = [](std::size_t at, std::initializer_list<int> values, const char* field) {
    auto bytes = encode_hello(lane_hello());
    for (const int value : values) bytes[at++] = static_cast<std::byte>(value);
    const auto hello = decode_hello(bytes);
    ASSERT_FALSE(hello.has_value()) << field;
    EXPECT_EQ(hello.error().code(), Code::protocol_error);
    EXPECT_NE(hello.error().text().find(field), std::string::npos) << hello.error().text();
  };
  refused(0, {'R'}, "magic");
  refused(12, {0}, "purpose");
  refused(12, {8}, "purpose");
  refused(13, {65}, "job id");
  refused(13, {0}, "job id");
  refused(16, {0, 0, 1, 0}, "rank");
  refused(40, {'.'}, "job id");
  refused(40, {'/'}, "job id");
  refused(40, {0}, "job id");
  refused(255, {1}, "reserved");
  EXPECT_FALSE(decode_hello(ConstBytes()).has_value());
}

TEST(Handshake, ARefusalArrivesAsItWasSaidAndPrintable) {
  std::array<std::byte, kChallengeBytes> refusal;
  Acceptor::refuse({Code::resource_exhausted, std::string("no\x1b[31m room ") + std::string(400, 'x')}, refusal);
  Initiator initiator(lane_hello(), kKey);
  std::array<std::byte, kProofBytes> proof;
  std::size_t proof_bytes = 0;
  const Status status = initiator.feed(refusal, proof, proof_bytes);
  EXPECT_EQ(status.code(), Code::resource_exhausted);
  EXPECT_EQ(status.text().substr(0, 14), "no?[31m room x");
  EXPECT_EQ(status.text().size(), 240u);
}

TEST(Handshake, KeysDependOnEverythingTheyAreMadeFrom) {
  const Nonce nonce = random_nonce(), other = random_nonce();
  EXPECT_NE(nonce, other);
  EXPECT_EQ(lane_key(kKey, "a", nonce), lane_key(kKey, "a", nonce));
  EXPECT_NE(lane_key(kKey, "a", nonce), lane_key(kKey, "b", nonce));
  EXPECT_NE(lane_key(kKey, "a", nonce), lane_key(kKey, "a", other));
  EXPECT_NE(lane_key(kKey, "a", nonce), lane_key(key_from_secret(""), "a", nonce));
  EXPECT_TRUE(valid_job_id("a") && valid_job_id(std::string(64, 'x')) && valid_job_id("-._9"));
  EXPECT_FALSE(valid_job_id("") || valid_job_id(std::string(65, 'x')) || valid_job_id(".a") || valid_job_id("a b"));
}

}  // namespace
}  // namespace redsum::wire
