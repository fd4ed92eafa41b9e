// SPDX-License-Identifier: Apache-2.0
// The handshake, from both ends: whatever a stranger sends, nobody without the key gets through.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/base/check.h"
#include "transport/wire/handshake.h"

namespace {

using namespace redsum;

// The next `count` bytes of the input, zeros where it ends.
template <std::size_t N>
std::array<std::byte, N> take(ConstBytes& input) {
  std::array<std::byte, N> bytes{};
  const std::size_t count = std::min(N, input.size());
  if (count) std::memcpy(bytes.data(), input.data(), count);
  input = input.subspan(count);
  return bytes;
}

void accept(ConstBytes input, const wire::Key& key) {
  const auto hello_bytes = take<wire::kHelloBytes>(input);
  const Result<wire::Hello> decoded = wire::decode_hello(hello_bytes);
  wire::Acceptor acceptor;
  REDSUM_CHECK(acceptor.want() == wire::kHelloBytes);
  const Result<wire::Hello> hello = acceptor.on_hello(hello_bytes);
  REDSUM_CHECK(hello.has_value() <= decoded.has_value());
  if (decoded) REDSUM_CHECK(decoded->job.empty() || wire::valid_job_id(decoded->job));
  if (decoded) REDSUM_CHECK(wire::decode_hello(wire::encode_hello(*decoded)).has_value());
  if (!hello) return;
  std::array<std::byte, wire::kChallengeBytes> challenge;
  acceptor.challenge(key, challenge);
  std::array<std::byte, wire::kVerdictBytes> verdict;
  REDSUM_CHECK(!acceptor.on_proof(take<wire::kProofBytes>(input), verdict).ok());
}

void initiate(ConstBytes input, const wire::Key& key) {
  wire::Hello hello;
  hello.job = "job";
  wire::Initiator initiator(hello, key);
  std::array<std::byte, wire::kProofBytes> output;
  std::size_t output_bytes = 0;
  REDSUM_CHECK(initiator.want() == wire::kChallengeBytes);
  const Status status = initiator.feed(take<wire::kChallengeBytes>(input), output, output_bytes);
  REDSUM_CHECK(!status.ok() && output_bytes == 0 && !initiator.done());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const wire::Key key = wire::key_from_secret("a secret that the input does not know");
  const ConstBytes input = std::as_bytes(std::span(data, size));
  accept(input, key);
  initiate(input, key);
  return 0;
}
