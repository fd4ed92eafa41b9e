// SPDX-License-Identifier: Apache-2.0
// The control messages come back as they were sent, and nothing else comes in.
#include "transport/wire/control.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/wire/control_samples.h"

namespace redsum::wire {
namespace {

using nlohmann::json;

template <typename T>
T back(const T& message) {
  Result<Message> result = decode(encode(message));
  EXPECT_TRUE(result) << (result ? "" : result.error().to_string());
  return result ? std::get<T>(*result) : T{};
}

// The error's text; empty: the message was taken.
std::string refusal(const std::string& text) {
  const Result<Message> result = decode(text);
  if (result) return "";
  EXPECT_EQ(result.error().code(), Code::protocol_error) << text;
  return result.error().text();
}

TEST(Control, every_message_comes_back_as_it_was) {
  Prng random(11);
  for (int round = 0; round < 200; ++round) {
    const std::vector<Message> messages = samples::one_of_each(random);
    ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      ASSERT_EQ(messages[i].index(), i);
      const std::string text = encode(messages[i]);
      const Result<Message> result = decode(text);
      ASSERT_TRUE(result) << text << ": " << result.error().to_string();
      EXPECT_EQ(result->index(), i);
      EXPECT_EQ(encode(*result), text);
    }
  }
}

TEST(Control, records_and_calls_compare_equal_afterwards) {
  Prng random(12);
  for (int round = 0; round < 100; ++round) {
    const EpochRecord record = samples::record(random);
    EXPECT_EQ(back(Joined{record}).record, record);
    Waiting waiting{1, 2, samples::call(random)};
    const Waiting got = back(waiting);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(got.call.prescale), std::bit_cast<std::uint64_t>(waiting.call.prescale));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(got.call.postscale), std::bit_cast<std::uint64_t>(waiting.call.postscale));
    EXPECT_EQ(got.call.signature(), waiting.call.signature());
  }
}

TEST(Control, doubles_keep_every_bit) {
  using Limits = std::numeric_limits<double>;
  for (const double value : {0.0, -0.0, 0.1, Limits::infinity(), -Limits::infinity(), Limits::denorm_min(),
                             Limits::max(), Limits::quiet_NaN(), std::bit_cast<double>(0xFFF8000000000123ull)}) {
    Waiting waiting;
    waiting.call.prescale = value;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(back(waiting).call.prescale), std::bit_cast<std::uint64_t>(value));
  }
}

std::vector<json> full_messages() {
  Prng random(13);
  std::vector<json> all;
  for (const Message& message : samples::one_of_each(random)) all.push_back(json::parse(encode(message)));
  for (json& each : all)  // no empty lists here, so that their items are tried too
    if (each.contains("record")) {
      each["record"]["workers"] = {{{"rank", 0}, {"incarnation", 1}, {"host", "h"}, {"address", "a"}}};
      each["record"]["reducers"] = {{{"instance", 1}, {"name", "n"}, {"address", "a"}, {"shards", 1}, {"weight", 1}}};
    }
  return all;
}

TEST(Control, a_missing_field_is_named) {
  int tried = 0;
  for (const json& whole : full_messages()) {
    const std::string type = whole["type"];
    json copy = whole;
    const std::function<void(json&)> strip = [&](json& here) {
      if (here.is_array() && !here.empty()) strip(here[0]);
      if (!here.is_object()) return;
      const json saved = here;
      for (const auto& [name, value] : saved.items()) {
        if (name != "type") {
          here.erase(name);
          const std::string why = refusal(copy.dump());
          EXPECT_NE(why.find("'" + type + "'"), std::string::npos) << why;
          EXPECT_NE(why.find(name + "' is missing"), std::string::npos) << type << "." << name << ": " << why;
          here[name] = value;
          ++tried;
        }
        strip(here[name]);
      }
    };
    strip(copy);
  }
  EXPECT_GE(tried, 90);
}

TEST(Control, a_field_of_the_wrong_type_is_named) {
  const std::vector<json> wrong = {nullptr, true, -1, 1.5, "zz", json::array({json::array()}), json::object()};
  int refused = 0;
  for (const json& whole : full_messages()) {
    json copy = whole;
    const std::function<void(json&)> spoil = [&](json& here) {
      if (here.is_array() && !here.empty()) spoil(here[0]);
      if (!here.is_object()) return;
      const json saved = here;
      for (const auto& [name, value] : saved.items()) {
        if (name == "type") continue;
        for (const json& other : wrong) {
          if (other.is_string() && value.is_string()) continue;
          here[name] = other;
          const std::string why = refusal(copy.dump());
          EXPECT_NE(why.find(name), std::string::npos) << whole["type"] << "." << name << " = " << other << ": " << why;
          ++refused;
        }
        here[name] = value;
        spoil(here[name]);
      }
    };
    spoil(copy);
  }
  EXPECT_GE(refused, 600);
}

struct Case {
  const char* type;
  const char* field;  // a JSON pointer
  json value;
  bool taken;
};

TEST(Control, SEC_05_ranges_are_kept) {
  const std::uint64_t kAll64 = ~0ull;
  const std::string long_text(4097, 'x'), most_text(4096, 'x');
  const std::vector<Case> cases = {{"join", "/world_size", 0, false},
                                   {"join", "/world_size", 65536, true},
                                   {"join", "/world_size", 65537, false},
                                   {"join", "/host", most_text, true},
                                   {"join", "/host", long_text, false},
                                   {"join", "/version", long_text, false},
                                   {"join", "/settings/window", 64, true},
                                   {"join", "/settings/window", 65, false},
                                   {"join", "/settings/window", 0, true},
                                   {"join", "/settings/small_window", 65, false},
                                   {"join", "/settings/small_window", 0, true},
                                   {"join", "/settings/small_bytes", 1048577, false},
                                   {"joined", "/record/epoch", 4294967295, true},
                                   {"joined", "/record/epoch", 4294967296, false},
                                   {"joined", "/record/workers/0/rank", 1, false},
                                   {"joined", "/record/workers/0/rank", 65536, false},
                                   {"joined", "/record/workers/0/incarnation", kAll64, true},
                                   {"joined", "/record/reducers/0/shards", 0, false},
                                   {"joined", "/record/reducers/0/shards", 65535, true},
                                   {"joined", "/record/reducers/0/shards", 65536, false},
                                   {"joined", "/record/reducers/0/weight", 0, false},
                                   {"joined", "/record/reducers/0/weight", 64, true},
                                   {"joined", "/record/reducers/0/weight", 65, false},
                                   {"joined", "/record/settings/chunk_bytes", 0, false},
                                   {"joined", "/record/settings/window", 0, false},
                                   {"joined", "/record/settings/small_window", 0, false},
                                   {"joined", "/record/lane_nonce", std::string(64, 'a'), true},
                                   {"joined", "/record/lane_nonce", std::string(64, 'A'), false},
                                   {"joined", "/record/lane_nonce", std::string(63, 'a'), false},
                                   {"joined", "/record/lane_nonce", std::string(66, 'a'), false},
                                   {"create", "/members", json::array(), false},
                                   {"create", "/members", {65535}, true},
                                   {"create", "/members", {65536}, false},
                                   {"create", "/members", {-1}, false},
                                   {"create", "/members", {1.0}, false},
                                   {"create", "/members", {"1"}, false},
                                   {"created", "/communicator", 65535, true},
                                   {"created", "/communicator", 65536, false},
                                   {"create_failed", "/code", "timeout", true},
                                   {"create_failed", "/code", "ok", false},
                                   {"close_communicator", "/job", "", true},
                                   {"close_communicator", "/job", ".x", false},
                                   {"close_communicator", "/calls", kAll64, true},
                                   {"register", "/shards", 0, false},
                                   {"register", "/shards", 65536, false},
                                   {"register", "/address", long_text, false},
                                   {"registered", "/reducers", 4294967296, false},
                                   {"open_job", "/job", "a/b", false},
                                   {"open_job", "/job", "", false},
                                   {"open_job", "/job", "..", false},
                                   {"open_job", "/job", std::string(64, 'j'), true},
                                   {"open_job", "/job", std::string(65, 'j'), false},
                                   {"open_communicator", "/members", {70000}, false},
                                   {"open_communicator", "/members", json::array(), false},
                                   {"reserved", "/code", "ok", true},
                                   {"reserved", "/code", "OK", false},
                                   {"reserved", "/code", "?", false},
                                   {"reserved", "/code", "", false},
                                   {"reserved", "/job", "", false},
                                   {"close_job", "/job", " ", false},
                                   {"mismatched", "/job", ".", false},
                                   {"mismatched", "/communicator", 65536, false},
                                   {"describe", "/communicator", 65536, false},
                                   {"waiting", "/call/kind", "alltoall", false},
                                   {"waiting", "/call/dtype", "fp31", false},
                                   {"waiting", "/call/dtype", "?", false},
                                   {"waiting", "/call/wire_dtype", "bool", true},
                                   {"waiting", "/call/wire_dtype", "boolean", false},
                                   {"waiting", "/call/op", "mean", false},
                                   {"waiting", "/call/root", 65535, true},
                                   {"waiting", "/call/root", 65536, false},
                                   {"waiting", "/call/prescale", "7ff8000000000000", true},
                                   {"waiting", "/call/prescale", "1.0", false},
                                   {"waiting", "/call/postscale", "7ff800000000000g", false},
                                   {"waiting", "/call/key", long_text, false},
                                   {"waiting", "/call/key", std::string(65535, 'k'), false},
                                   {"waiting", "/call/count", -1, false},
                                   {"stalled", "/missing", {65536}, false},
                                   {"stalled", "/missing", json::array(), true},
                                   {"stalled", "/missing_count", 65537, false},
                                   {"lane_lost", "/text", long_text, false},
                                   {"fail", "/communicator", 4294967295, true},
                                   {"fail", "/communicator", 65536, false},
                                   {"fail", "/communicator", 65535, true},
                                   {"fail", "/code", "ok", false},
                                   {"fail", "/code", "stale", true},
                                   {"fail", "/ranks", {65536}, false}};
  for (const Case& each : cases)
    for (json whole : full_messages()) {
      if (whole["type"] != each.type) continue;
      if (whole.contains("record")) whole["record"]["settings"]["small_bytes"] = 0;
      whole.at(json::json_pointer(each.field)) = each.value;
      const std::string why = refusal(whole.dump());
      EXPECT_EQ(why.empty(), each.taken) << each.type << each.field << " = " << each.value.dump().substr(0, 80) << ": "
                                         << why;
    }
}

TEST(Control, chunk_bytes_and_small_bytes_hang_together) {
  const auto taken = [](std::uint32_t chunk, std::uint32_t small) {
    return refusal(encode(Join{1, "", "", {chunk, 1, 1, small}, 0})).empty();
  };
  EXPECT_TRUE(taken(0, 0));
  EXPECT_TRUE(taken(0, 1 << 20));
  EXPECT_TRUE(taken(4096, 4096));
  EXPECT_FALSE(taken(4096, 4097));
  EXPECT_TRUE(taken(4160, 0));
  EXPECT_FALSE(taken(4097, 0));
  EXPECT_FALSE(taken(4128, 0));
  EXPECT_FALSE(taken(64, 0));
  EXPECT_TRUE(taken(1 << 20, 1 << 20));
  EXPECT_FALSE(taken((1 << 20) + 64, 0));
}

TEST(Control, a_pool_has_at_most_65535_shards) {
  Prng random(5);
  EpochRecord record = samples::record(random);
  record.reducers = {{1, "a", "h:1", 40000, 1}, {2, "b", "h:2", 25535, 1}};
  EXPECT_EQ(refusal(encode(Joined{record})), "");
  record.reducers[1].shards = 25536;
  EXPECT_NE(refusal(encode(Joined{record})), "");
}

TEST(Control, lists_hold_at_most_65536_items) {
  Create create{1, std::vector<std::uint32_t>(65536, 7)};
  EXPECT_EQ(back(create).members.size(), 65536u);
  create.members.push_back(7);
  EXPECT_NE(refusal(encode(create)).find("members"), std::string::npos);
}

TEST(Control, what_is_no_message_is_refused) {
  for (const char* text :
       {"", " ", "{", "null", "[]", "7", "\"join\"", "{}", R"({"type":7})", R"({"type":null})", R"({"type":"ready"}})",
        R"({"type":"ready",})", R"({"type":"heartbeat","count":1e2})", R"({"type":"heartbeat","count":1e999})",
        R"({"type":"heartbeat","count":18446744073709551616})", R"({"type":"heartbeat","count":-0})",
        "{\"type\":\"lane_lost\",\"instance\":1,\"text\":\"\xFF\"}",
        "{\"type\":\"lane_lost\",\"instance\":1,\"text\":\"\n\"}"})
    EXPECT_NE(refusal(text), "") << text;
  EXPECT_NE(refusal(R"({"type":"teleport"})").find("'teleport'"), std::string::npos);
  EXPECT_NE(refusal(R"({"type":"Ready"})").find("'Ready'"), std::string::npos);
}

TEST(Control, unknown_fields_are_ignored) {
  const Result<Message> result = decode(R"({"type":"heartbeat","count":3,"new_in_1_1":{"x":[1,2,{"y":null}]}})");
  ASSERT_TRUE(result);
  EXPECT_EQ(std::get<Heartbeat>(*result).count, 3u);
}

TEST(Control, depth_and_size_are_limited) {
  const auto nested = [](int depth) {
    return R"({"type":"ready","x":)" + std::string(std::size_t(depth), '[') + std::string(std::size_t(depth), ']') +
           "}";
  };
  EXPECT_EQ(refusal(nested(15)), "");
  EXPECT_NE(refusal(nested(16)), "");
  EXPECT_NE(refusal(nested(1'000'000)), "");
  EXPECT_EQ(refusal(R"({"type":"ready","x":"[[[[[[[[[[[[[[[[[[\"[[[["})"), "");
  std::string text = R"({"type":"ready"})";
  text.resize(kMaxControlBytes, ' ');
  EXPECT_EQ(refusal(text), "");
  text += ' ';
  EXPECT_NE(refusal(text), "");
}

TEST(Control, texts_are_cut_and_cleaned_by_the_writer) {
  EXPECT_EQ(back(LaneLost{1, std::string(5000, 'x')}).text, std::string(4096, 'x'));
  EXPECT_EQ(back(LaneLost{1, std::string(4095, 'x') + "€"}).text, std::string(4095, 'x'));  // never half a character
  EXPECT_EQ(back(LaneLost{1,
                          "a\xFF\xC0\xAF"
                          "b\xE2\x82"})
                .text,
            "a???b??");
  EXPECT_EQ(back(LaneLost{1, "\xED\xA0\x80 \xF4\x90\x80\x80 \xF0\x9F\x98\x80"}).text, "??? ???? \xF0\x9F\x98\x80");
  EXPECT_EQ(back(LaneLost{1, std::string(4096, '\xFF')}).text, std::string(4096, '?'));
  EXPECT_EQ(back(LaneLost{1, std::string("a\0b", 3)}).text, std::string("a\0b", 3));
}

TEST(Control, SEC_05_random_damage_never_does_harm) {
  Prng random(17);
  for (int round = 0; round < 60; ++round)
    for (const Message& message : samples::one_of_each(random)) {
      std::string text = encode(message);
      for (std::uint64_t i = random.between(1, 3); i > 0; --i)
        text[random.below(text.size())] = static_cast<char>(random.next());
      const Result<Message> result = decode(text);
      ASSERT_TRUE(!result || decode(encode(*result))) << text;  // what was taken can be sent on
    }
}

}  // namespace
}  // namespace redsum::wire
