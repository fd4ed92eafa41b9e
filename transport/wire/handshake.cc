// SPDX-License-Identifier: Apache-2.0
#include "transport/wire/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "transport/base/check.h"
#include "transport/wire/header.h"

namespace redsum::wire {
namespace {

constexpr std::string_view kHelloMagic = "redsumH1";
constexpr std::string_view kChallengeMagic = "redsumC1";
constexpr std::string_view kVerdictMagic = "redsumV1";

// Offsets of the fields; docs/protocol.md has the tables. Everything not named is zero.
namespace hello_at {
constexpr std::size_t kMajor = 8, kMinor = 10, kPurpose = 12, kJobLength = 13, kShard = 14, kRank = 16,
                      kIncarnation = 24, kTarget = 32, kJob = 40, kNonce = 104, kEpoch = 136, kReserved = 140;
}
namespace challenge_at {
constexpr std::size_t kMajor = 8, kMinor = 10, kCode = 12, kTextLength = 14, kNonce = 16, kMac = 48, kText = 80;
}
namespace verdict_at {
constexpr std::size_t kCode = 8, kTextLength = 10, kText = 16;
}
constexpr std::size_t kMaxTextBytes = 240;
static_assert(challenge_at::kText + kMaxTextBytes == kChallengeBytes &&
              verdict_at::kText + kMaxTextBytes == kVerdictBytes);
static_assert(hello_at::kJob + kMaxJobIdBytes == hello_at::kNonce);

template <typename T>
void put(std::byte* at, T value) {
  static_assert(std::is_unsigned_v<T>);
  std::memcpy(at, &value, sizeof value);
}
template <typename T>
T take(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
bool has_magic(ConstBytes bytes, std::string_view magic) {
  return std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

Key hmac(const Key& key, std::initializer_list<ConstBytes> parts) {
  std::array<std::byte, 512> text;
  std::size_t length = 0;
  for (const ConstBytes part : parts) {
    REDSUM_CHECK(length + part.size() <= text.size());
    std::copy(part.begin(), part.end(), text.begin() + static_cast<std::ptrdiff_t>(length));
    length += part.size();
  }
  Key out{};
  unsigned out_bytes = 0;
  REDSUM_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), length, out.data(), &out_bytes) != nullptr &&
               out_bytes == out.size());
  return out;
}
ConstBytes bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

bool same(const Key& expected, const std::byte* got) {
  return CRYPTO_memcmp(expected.data(), got, expected.size()) == 0;
}

std::string version_text(unsigned major, unsigned minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

Status version_differs(unsigned peer_major, unsigned peer_minor) {
  return {Code::version_mismatch, "the peer speaks protocol " + version_text(peer_major, peer_minor) +
                                      ", this process " + version_text(kProtocolMajor, kProtocolMinor) +
                                      "; install one version of redsum on both"};
}

void put_refusal(const Status& why, std::byte* code_at, std::byte* length_at, std::byte* text_at) {
  *code_at = static_cast<std::byte>(why.code());
  const std::size_t length = std::min(why.text().size(), kMaxTextBytes);
  put(length_at, static_cast<std::uint16_t>(length));
  std::memcpy(text_at, why.text().data(), length);
}

// A refusal as it came from the wire. Its text ends in logs and errors, so only printable ASCII passes.
Status take_refusal(std::string_view what, unsigned number, unsigned length, const std::byte* text_at) {
  const auto code = code_from_number(number);
  if (!code) return {Code::protocol_error, std::string(what) + ": code " + std::to_string(number) + " is not known"};
  if (length > kMaxTextBytes) {
    return {Code::protocol_error, std::string(what) + ": text of " + std::to_string(length) + " bytes, at most " +
                                      std::to_string(kMaxTextBytes) + " fit"};
  }
  if (*code == Code::ok) return {};
  std::string text(reinterpret_cast<const char*>(text_at), length);
  for (char& c : text) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return {*code, std::move(text)};
}

bool letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

bool valid_job_id(std::string_view text) noexcept {
  if (text.empty() || text.size() > kMaxJobIdBytes || text.front() == '.') return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return letter_or_digit(c) || c == '.' || c == '_' || c == '-'; });
}

std::array<std::byte, kHelloBytes> encode_hello(const Hello& hello) {
  std::array<std::byte, kHelloBytes> out{};
  const std::size_t job_length = std::min(hello.job.size(), kMaxJobIdBytes);
  std::memcpy(out.data(), kHelloMagic.data(), kHelloMagic.size());
  put(&out[hello_at::kMajor], hello.major);
  put(&out[hello_at::kMinor], hello.minor);
  out[hello_at::kPurpose] = static_cast<std::byte>(hello.purpose);
  out[hello_at::kJobLength] = static_cast<std::byte>(job_length);
  put(&out[hello_at::kShard], hello.shard);
  put(&out[hello_at::kRank], hello.rank);
  put(&out[hello_at::kIncarnation], hello.incarnation);
  put(&out[hello_at::kTarget], hello.target_instance);
  std::memcpy(&out[hello_at::kJob], hello.job.data(), job_length);
  std::memcpy(&out[hello_at::kNonce], hello.nonce.data(), hello.nonce.size());
  put(&out[hello_at::kEpoch], hello.epoch);
  return out;
}

Result<Hello> decode_hello(ConstBytes bytes) {
  const auto wrong = [](std::string text) { return failure(Code::protocol_error, "hello: " + std::move(text)); };
  if (bytes.size() != kHelloBytes) {
    return wrong(std::to_string(bytes.size()) + " bytes, expected " + std::to_string(kHelloBytes));
  }
  if (!has_magic(bytes, kHelloMagic)) return wrong("magic differs; the peer does not speak this protocol");
  const std::byte* p = bytes.data();
  Hello hello;
  hello.major = take<std::uint16_t>(p + hello_at::kMajor);
  hello.minor = take<std::uint16_t>(p + hello_at::kMinor);
  if (hello.major != kProtocolMajor) return failure(version_differs(hello.major, hello.minor));
  const auto purpose = static_cast<unsigned>(p[hello_at::kPurpose]);
  if (purpose < 1 || purpose > 7) return wrong("purpose " + std::to_string(purpose) + ", expected 1 to 7");
  hello.purpose = static_cast<Purpose>(purpose);
  hello.shard = take<std::uint16_t>(p + hello_at::kShard);
  hello.rank = take<std::uint32_t>(p + hello_at::kRank);
  if (hello.rank >= kMaxRanks) {
    return wrong("rank " + std::to_string(hello.rank) + ", limit " + std::to_string(kMaxRanks));
  }
  if (take<std::uint32_t>(p + hello_at::kRank + 4) != 0) return wrong("bytes 20 to 23 are not zero");
  hello.incarnation = take<std::uint64_t>(p + hello_at::kIncarnation);
  hello.target_instance = take<std::uint64_t>(p + hello_at::kTarget);
  const auto job_length = static_cast<std::size_t>(p[hello_at::kJobLength]);
  if (job_length > kMaxJobIdBytes) {
    return wrong("job id of " + std::to_string(job_length) + " bytes, limit " + std::to_string(kMaxJobIdBytes));
  }
  hello.job.assign(reinterpret_cast<const char*>(p + hello_at::kJob), job_length);
  if (!hello.job.empty() && !valid_job_id(hello.job)) return wrong("job id has characters outside [A-Za-z0-9._-]");
  const bool of_a_job = hello.purpose != Purpose::control_reducer && hello.purpose != Purpose::control_tool;
  if (hello.job.empty() && of_a_job) {
    return wrong("job id is empty");
  }
  const auto zero = [](std::byte b) { return b == std::byte{0}; };
  if (!std::all_of(p + hello_at::kJob + job_length, p + hello_at::kNonce, zero))
    return wrong("bytes after the job id are not zero");
  // A newer minor version may say more there.
  if (hello.minor <= kProtocolMinor && !std::all_of(p + hello_at::kReserved, p + kHelloBytes, zero)) {
    return wrong("reserved bytes are not zero");
  }
  std::memcpy(hello.nonce.data(), p + hello_at::kNonce, hello.nonce.size());
  hello.epoch = take<std::uint32_t>(p + hello_at::kEpoch);
  return hello;
}

Nonce random_nonce() {
  Nonce nonce{};
  REDSUM_CHECK(RAND_bytes(nonce.data(), static_cast<int>(nonce.size())) == 1);
  return nonce;
}

Key key_from_secret(std::string_view secret) {
  Key key{};
  unsigned key_bytes = 0;
  constexpr std::string_view kLabel = "redsum pool key 1";
  REDSUM_CHECK(HMAC(EVP_sha256(), kLabel.data(), static_cast<int>(kLabel.size()),
                    reinterpret_cast<const unsigned char*>(secret.data()), secret.size(), key.data(),
                    &key_bytes) != nullptr &&
               key_bytes == key.size());
  return key;
}

Key lane_key(const Key& pool_key, std::string_view job, const Nonce& nonce) {
  // The nonce has a fixed size, so that no two (job, nonce) give the same text.
  return hmac(pool_key, {bytes_of("lane"), std::as_bytes(std::span(nonce)), bytes_of(job.substr(0, kMaxJobIdBytes))});
}

Initiator::Initiator(const Hello& hello, const Key& key) : hello_(encode_hello(hello)), key_(key) {}

std::size_t Initiator::want() const noexcept {
  switch (state_) {
    case State::challenge:
      return kChallengeBytes;
    case State::verdict:
      return kVerdictBytes;
    case State::done:
      return 0;
  }
  return 0;
}

Status Initiator::feed(ConstBytes input, std::array<std::byte, kProofBytes>& output, std::size_t& output_bytes) {
  output_bytes = 0;
  REDSUM_CHECK(!done() && input.size() == want());
  const std::byte* p = input.data();
  if (state_ == State::verdict) {
    if (!has_magic(input, kVerdictMagic)) return {Code::protocol_error, "verdict: magic differs"};
    REDSUM_RETURN_IF_ERROR(take_refusal("verdict", static_cast<unsigned>(p[verdict_at::kCode]),
                                        take<std::uint16_t>(p + verdict_at::kTextLength), p + verdict_at::kText));
    state_ = State::done;
    return {};
  }
  if (!has_magic(input, kChallengeMagic)) {
    return {Code::protocol_error, "challenge: magic differs; what answers there is not redsum"};
  }
  const auto major = take<std::uint16_t>(p + challenge_at::kMajor);
  if (major != kProtocolMajor) return version_differs(major, take<std::uint16_t>(p + challenge_at::kMinor));
  REDSUM_RETURN_IF_ERROR(take_refusal("challenge", static_cast<unsigned>(p[challenge_at::kCode]),
                                      take<std::uint16_t>(p + challenge_at::kTextLength), p + challenge_at::kText));
  const ConstBytes nonce = input.subspan(challenge_at::kNonce, sizeof(Nonce));
  if (!same(hmac(key_, {bytes_of("acceptor"), hello_, nonce}), p + challenge_at::kMac)) {
    return {Code::auth_failed, "the peer does not hold the same secret; give both sides the same secret file"};
  }
  const Key proof = hmac(key_, {bytes_of("initiator"), hello_, nonce});
  std::memcpy(output.data(), proof.data(), output.size());
  output_bytes = output.size();
  state_ = State::verdict;
  return {};
}

std::size_t Acceptor::want() const noexcept {
  switch (state_) {
    case State::hello:
      return kHelloBytes;
    case State::proof:
      return kProofBytes;
    case State::done:
      return 0;
  }
  return 0;
}

Result<Hello> Acceptor::on_hello(ConstBytes input) {
  REDSUM_CHECK(state_ == State::hello);
  Result<Hello> hello = decode_hello(input);
  if (hello) std::copy(input.begin(), input.end(), hello_.begin());
  return hello;
}

void Acceptor::challenge(const Key& key, std::array<std::byte, kChallengeBytes>& output) {
  REDSUM_CHECK(state_ == State::hello);
  key_ = key;
  nonce_ = random_nonce();
  refuse({}, output);  // code ok, no text
  const Key proof = hmac(key_, {bytes_of("acceptor"), hello_, std::as_bytes(std::span(nonce_))});
  std::memcpy(&output[challenge_at::kNonce], nonce_.data(), nonce_.size());
  std::memcpy(&output[challenge_at::kMac], proof.data(), proof.size());
  state_ = State::proof;
}

void Acceptor::refuse(const Status& why, std::array<std::byte, kChallengeBytes>& output) {
  output.fill(std::byte{0});
  std::memcpy(output.data(), kChallengeMagic.data(), kChallengeMagic.size());
  put(&output[challenge_at::kMajor], kProtocolMajor);
  put(&output[challenge_at::kMinor], kProtocolMinor);
  put_refusal(why, &output[challenge_at::kCode], &output[challenge_at::kTextLength], &output[challenge_at::kText]);
}

Status Acceptor::on_proof(ConstBytes input, std::array<std::byte, kVerdictBytes>& output) {
  REDSUM_CHECK(state_ == State::proof && input.size() == kProofBytes);
  state_ = State::done;
  Status status;
  if (!same(hmac(key_, {bytes_of("initiator"), hello_, std::as_bytes(std::span(nonce_))}), input.data())) {
    status = {Code::auth_failed, "the peer does not hold the same secret; give both sides the same secret file"};
  }
  output.fill(std::byte{0});
  std::memcpy(output.data(), kVerdictMagic.data(), kVerdictMagic.size());
  put_refusal(status, &output[verdict_at::kCode], &output[verdict_at::kTextLength], &output[verdict_at::kText]);
  return status;
}

}  // namespace redsum::wire
