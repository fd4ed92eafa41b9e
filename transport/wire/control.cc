// SPDX-License-Identifier: Apache-2.0
// Control messages to JSON and back. control_fields.h describes the fields; Writer makes JSON of them, Reader checks
// presence, type and range and keeps the first error.
#include "transport/wire/control.h"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "transport/wire/control_fields.h"

namespace redsum::wire {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxTextBytes = 4096;
constexpr std::size_t kMaxListItems = 65536;
constexpr int kMaxDepth = 16;

// In the order of the variant.
constexpr std::array<std::string_view, std::variant_size_v<Message>> kTypeNames = {
    "join",       "joined",     "ready",         "leave",
    "create",     "created",    "create_failed", "close_communicator",
    "register",   "registered", "open_job",      "open_communicator",
    "reserved",   "close_job",  "draining",      "heartbeat",
    "mismatched", "describe",   "waiting",       "stalled",
    "lane_lost",  "fail",       "ping",          "prepare",
    "progress",   "enter",      "entered",       "commit",
    "recruit",    "recruited",  "bring",         "brought",
    "resume",     "resumed",    "applicants"};

std::string to_hex(const std::uint8_t* bytes, std::size_t count) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool from_hex(std::string_view text, std::uint8_t* bytes, std::size_t count) {
  if (text.size() != 2 * count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

// Length of the well-formed UTF-8 sequence at the front of `text`; 0: it is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;   // no overlong forms,
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;  // no surrogates, none above U+10FFFF
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  return length;
}

// What JSON can carry and a reader takes: UTF-8 (other bytes become '?') of at most kMaxTextBytes.
std::string clean(std::string_view text) {
  std::string out;
  out.reserve(std::min(text.size(), kMaxTextBytes));
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (out.size() + std::max<std::size_t>(length, 1) > kMaxTextBytes) break;
    if (length == 0) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

class Writer {
 public:
  template <typename T>
  void number(const char* name, T value, std::uint64_t, std::uint64_t) {
    (*at_)[name] = static_cast<std::uint64_t>(value);
  }
  void text(const char* name, const std::string& value) { (*at_)[name] = clean(value); }
  void real(const char* name, double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    std::array<std::uint8_t, 8> bytes{};
    for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(bits >> (56 - 8 * i));
    (*at_)[name] = to_hex(bytes.data(), 8);
  }
  template <std::size_t N>
  void bytes(const char* name, const std::array<std::uint8_t, N>& value) {
    (*at_)[name] = to_hex(value.data(), N);
  }
  template <typename E>
  void choice(const char* name, E value, std::string_view (*name_of)(E), int) {
    (*at_)[name] = name_of(value);
  }
  template <typename T>
  void object(const char* name, const T& value) {
    Writer inner((*at_)[name] = json::object());
    fields(inner, value);
  }
  template <typename T>
  void list(const char* name, const std::vector<T>& values) {
    json& array = (*at_)[name] = json::array();
    for (const T& value : values) {
      if constexpr (std::is_integral_v<T>) {
        array.push_back(value);
      } else {
        Writer inner(array.emplace_back(json::object()));
        fields(inner, value);
      }
    }
  }
  void require(bool, const char*, const char*) {}

  explicit Writer(json& at) : at_(&at) {}

 private:
  json* at_;
};

class Reader {
 public:
  Reader(const json& at, std::string_view type) : at_(&at), type_(type) {}

  template <typename T>
  void number(const char* name, T& value, std::uint64_t least, std::uint64_t most) {
    const json* found = find(name);
    if (!found) return;
    const std::uint64_t read = unsigned_of(*found, name, least, most);
    if (status_) value = static_cast<T>(read);
  }
  void text(const char* name, std::string& value) {
    if (const std::string* found = string_of(name)) value = *found;
  }
  void real(const char* name, double& value) {
    std::array<std::uint8_t, 8> raw{};
    bytes(name, raw);
    std::uint64_t bits = 0;
    for (const std::uint8_t byte : raw) bits = bits << 8 | byte;
    if (status_) value = std::bit_cast<double>(bits);
  }
  template <std::size_t N>
  void bytes(const char* name, std::array<std::uint8_t, N>& value) {
    const std::string* found = string_of(name);
    if (found && !from_hex(*found, value.data(), N))
      refuse(name, "is not " + std::to_string(2 * N) + " digits of lower-case hex");
  }
  template <typename E>
  void choice(const char* name, E& value, std::string_view (*name_of)(E), int count) {
    const std::string* found = string_of(name);
    if (!found) return;
    for (int i = 0; i < count; ++i)
      if (name_of(static_cast<E>(i)) == *found) {
        value = static_cast<E>(i);
        return;
      }
    refuse(name, "is '" + found->substr(0, 64) + "', which is none of the known names");
  }
  template <typename T>
  void object(const char* name, T& value) {
    if (const json* found = find(name)) inside(*found, name, value);
  }
  template <typename T>
  void list(const char* name, std::vector<T>& values) {
    const json* found = find(name);
    if (!found) return;
    if (!found->is_array()) return refuse(name, "is not a list");
    if (found->size() > kMaxListItems)
      return refuse(name, "has " + std::to_string(found->size()) + " items; at most " + std::to_string(kMaxListItems) +
                              " are allowed");
    values.resize(found->size());
    for (std::size_t i = 0; i < values.size() && status_; ++i) {
      if constexpr (std::is_integral_v<T>) {
        values[i] = static_cast<T>(unsigned_of((*found)[i], name, 0, sizeof(T) == 8 ? kLargest<T> : kMaxRanks - 1));
      } else {
        inside((*found)[i], name, values[i]);
      }
    }
  }
  void require(bool holds, const char* name, const char* otherwise) {
    if (!holds && status_) refuse(name, otherwise);
  }
  const Status& status() const { return status_; }

 private:
  // nullptr: absent, or something was wrong before. The first error stays.
  const json* find(const char* name) {
    if (!status_) return nullptr;
    const auto found = at_->find(name);
    if (found != at_->end()) return &*found;
    refuse(name, "is missing");
    return nullptr;
  }
  const std::string* string_of(const char* name) {
    const json* found = find(name);
    if (!found) return nullptr;
    const auto* text = found->get_ptr<const json::string_t*>();
    if (!text) refuse(name, "is not a string");
    if (text && text->size() > kMaxTextBytes) {
      refuse(name, "has " + std::to_string(text->size()) + " bytes; at most " + std::to_string(kMaxTextBytes) +
                       " are allowed");
      return nullptr;
    }
    return text;
  }
  std::uint64_t unsigned_of(const json& found, const char* name, std::uint64_t least, std::uint64_t most) {
    const auto* number = found.get_ptr<const json::number_unsigned_t*>();
    if (!number) {
      refuse(name, found.is_number() ? "is negative or not a whole number" : "is not a number");
      return 0;
    }
    if (*number < least || *number > most)
      refuse(name,
             "is " + std::to_string(*number) + "; it must be " + std::to_string(least) + " to " + std::to_string(most));
    return *number;
  }
  template <typename T>
  void inside(const json& found, const char* name, T& value) {
    if (!found.is_object()) return refuse(name, "is not an object");
    const json* outer = std::exchange(at_, &found);
    const std::size_t outer_length = path_.size();
    path_ += std::string(name) + ".";
    fields(*this, value);
    path_.resize(outer_length);
    at_ = outer;
  }
  void refuse(const char* name, const std::string& why) {
    if (status_)
      status_ = Status(Code::protocol_error,
                       "control message '" + std::string(type_) + "': field '" + path_ + name + "' " + why);
  }

  const json* at_;
  std::string_view type_;
  std::string path_;
  Status status_;
};

// -- from text to a message

bool too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

template <std::size_t I = 0>
Result<Message> read_as(const json& object, const std::string& type) {
  if constexpr (I == std::variant_size_v<Message>) {
    return failure(Code::protocol_error, "control message of unknown type '" + type.substr(0, 64) +
                                             "'; the peer may be of a newer version of redsum");
  } else {
    if (kTypeNames[I] != type) return read_as<I + 1>(object, type);
    std::variant_alternative_t<I, Message> message;
    Reader reader(object, kTypeNames[I]);
    fields(reader, message);
    if (!reader.status()) return failure(reader.status());
    return Message(std::in_place_index<I>, std::move(message));
  }
}

Result<Message> decode_checked(std::string_view text) {
  if (text.size() > kMaxControlBytes)
    return failure(Code::protocol_error, "a control message has " + std::to_string(text.size()) + " bytes; at most " +
                                             std::to_string(kMaxControlBytes) + " are allowed");
  if (too_deep(text))
    return failure(Code::protocol_error, "a control message is nested deeper than " + std::to_string(kMaxDepth));
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return failure(Code::protocol_error, "a control message is not a JSON object");
  const auto type = object.find("type");
  const auto* name = type == object.end() ? nullptr : type->get_ptr<const json::string_t*>();
  if (!name) return failure(Code::protocol_error, "a control message has no field 'type' with a name in it");
  return read_as(object, *name);
}

}  // namespace

std::string_view type_name(const Message& message) noexcept {
  return kTypeNames[message.index()];
}

std::string encode(const Message& message) {
  json object = json::object();
  object["type"] = kTypeNames[message.index()];
  Writer writer(object);
  std::visit([&](const auto& value) { fields(writer, value); }, message);
  return object.dump();
}

Result<Message> decode(std::string_view text) {
  try {
    return decode_checked(text);
  } catch (const std::bad_alloc&) {  // 8 MiB of text can ask for much more
    return failure(Code::resource_exhausted,
                   "no memory to read a control message of " + std::to_string(text.size()) + " bytes");
  }
}

}  // namespace redsum::wire
