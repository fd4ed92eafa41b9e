// SPDX-License-Identifier: Apache-2.0
// What makes two calls different, and that every rank of every version sees the same.
#include "transport/wire/call.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

namespace redsum::wire {
namespace {

// `call` with one field changed, each field once.
std::vector<std::pair<std::string, CallDescription>> variations(const CallDescription& call) {
  std::vector<std::pair<std::string, CallDescription>> all;
  const auto add = [&](const char* field, auto change) {
    CallDescription other = call;
    change(other);
    all.emplace_back(field, other);
  };
  add("kind", [](CallDescription& c) { c.kind = Kind::reduce; });
  add("dtype", [](CallDescription& c) { c.dtype = DType::fp64; });
  add("wire dtype", [](CallDescription& c) { c.wire_dtype = DType::bf16; });
  add("op", [](CallDescription& c) { c.op = Op::max; });
  add("root", [](CallDescription& c) { c.root = 3; });
  add("count", [](CallDescription& c) { c.count += 1; });
  add("prescale", [](CallDescription& c) { c.prescale = 0.5; });
  add("postscale", [](CallDescription& c) { c.postscale = 0.5; });
  add("count of part 0", [](CallDescription& c) { c.parts = {4000, 96}; });
  add("key", [](CallDescription& c) { c.key = "layer1"; });
  return all;
}

CallDescription sample() {
  CallDescription call;
  call.count = 4096;
  return call;
}

TEST(Signature, differs_in_every_field) {
  std::set<std::uint64_t> seen{sample().signature()};
  for (const auto& [field, call] : variations(sample())) EXPECT_TRUE(seen.insert(call.signature()).second) << field;
}

TEST(Signature, has_stable_values) {
  EXPECT_EQ(CallDescription{}.signature(), 0x2C230D641D71BABFull);
  EXPECT_EQ(sample().signature(), 0x53F459AAB6613740ull);
  CallDescription full{Kind::reduce, DType::fp32, DType::fp16, Op::avg,           7,
                       1ull << 40,   0.125,       -3.0,        "encoder.layer.0", {}};
  EXPECT_EQ(full.signature(), 0x7A46DE1432BFA537ull);
}

TEST(Signature, key_ends_matter) {
  CallDescription a = sample(), b = sample();
  a.key = "x";
  b.key = std::string("x\0", 2);
  EXPECT_NE(a.signature(), b.signature());
}

TEST(Difference, names_the_part_that_differs) {
  CallDescription a = sample(), b = sample();
  a.parts = {4000, 90, 6};
  b.parts = {4000, 80, 16};
  EXPECT_NE(a.signature(), b.signature());
  EXPECT_EQ(difference(a, b).field, "count of part 1");
  EXPECT_EQ(difference(a, b).left, "90");
  EXPECT_EQ(difference(a, b).right, "80");
  b.parts = {4000, 96};
  EXPECT_EQ(difference(a, b).field, "number of parts");
  a.parts = {};  // equal ones
  EXPECT_EQ(difference(a, b).field, "count of part 0");
  EXPECT_EQ(difference(a, b).left, "2048");
  EXPECT_EQ(difference(a, b).right, "4000");
}

TEST(Difference, names_the_field_and_both_values) {
  for (const auto& [field, call] : variations(sample())) {
    const Difference found = difference(sample(), call);
    EXPECT_EQ(found.field, field);
    EXPECT_NE(found.left, found.right) << field;
    EXPECT_EQ(difference(call, sample()).left, found.right) << field;
  }
  const Difference count = difference(sample(), variations(sample())[5].second);
  EXPECT_EQ(count.left, "4096");
  EXPECT_EQ(count.right, "4097");
  EXPECT_EQ(difference(sample(), sample()).field, "");
}

TEST(CallDescription, reads_as_a_sentence) {
  CallDescription call = sample();
  EXPECT_EQ(call.to_string(), "allreduce of 4096 fp32, sum");
  call.wire_dtype = DType::bf16;
  EXPECT_EQ(call.to_string(), "allreduce of 4096 fp32 (wire bf16), sum");
  call.key = "w";
  call.prescale = 0.25;
  EXPECT_EQ(call.to_string(), "allreduce of 4096 fp32 (wire bf16), sum, scales 0.25 and 1, key 'w'");
  call = sample();
  call.kind = Kind::broadcast;
  call.root = 2;
  EXPECT_EQ(call.to_string(), "broadcast of 4096 fp32 root 2");
  call.kind = Kind::barrier;
  EXPECT_EQ(call.to_string(), "barrier");
}

}  // namespace
}  // namespace redsum::wire
