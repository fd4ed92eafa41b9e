// SPDX-License-Identifier: Apache-2.0
// Errors as values. One small set, the same in C, C++ and Python and on the wire (numbers are stable: append only).
// A text is made once, where the error arises, and says what, where (rank, address), both values and what to do.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace redsum {

enum class Code : std::uint8_t {
  ok = 0,
  invalid_argument = 1,
  unsupported = 2,
  mismatch = 3,
  peer_lost = 4,
  reducer_lost = 5,
  timeout = 6,
  stale = 7,
  auth_failed = 8,
  version_mismatch = 9,
  protocol_error = 10,
  resource_exhausted = 11,
  closed = 12,
  internal = 13,
};
inline constexpr int kCodeCount = 14;

constexpr std::string_view code_name(Code code) noexcept {
  constexpr std::string_view kNames[kCodeCount] = {
      "ok",          "invalid_argument", "unsupported",    "mismatch",
      "peer_lost",   "reducer_lost",     "timeout",        "stale",
      "auth_failed", "version_mismatch", "protocol_error", "resource_exhausted",
      "closed",      "internal"};
  const auto i = static_cast<std::size_t>(code);
  return i < kCodeCount ? kNames[i] : std::string_view("?");
}

constexpr std::optional<Code> code_from_number(std::uint64_t number) noexcept {
  if (number >= kCodeCount) return std::nullopt;
  return static_cast<Code>(number);
}

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {}

  bool ok() const noexcept { return code_ == Code::ok; }
  explicit operator bool() const noexcept { return ok(); }
  Code code() const noexcept { return code_; }
  const std::string& text() const noexcept { return text_; }
  // "timeout: no answer from ..."; "ok" when there is no error.
  std::string to_string() const { return ok() ? std::string("ok") : std::string(code_name(code_)) + ": " + text_; }

 private:
  Code code_ = Code::ok;
  std::string text_;
};

template <typename T>
using Result = tl::expected<T, Status>;

inline tl::unexpected<Status> failure(Code code, std::string text) {
  return tl::unexpected<Status>(Status(code, std::move(text)));
}
inline tl::unexpected<Status> failure(Status status) {
  return tl::unexpected<Status>(std::move(status));
}

}  // namespace redsum

// Leaves the calling function with the error of `expr`, if it has one.
#define REDSUM_RETURN_IF_ERROR(expr)                                                      \
  do {                                                                                    \
    if (::redsum::Status redsum_status_ = (expr); !redsum_status_) return redsum_status_; \
  } while (false)
