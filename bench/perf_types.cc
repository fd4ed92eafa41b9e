// SPDX-License-Identifier: Apache-2.0
#include "bench/perf_types.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace perf {
namespace {

constexpr const char* kDtypeNames[kDtypes] = {"fp64",   "fp32",   "fp16",  "bf16",      "fp8_e4m3",  "fp8_e5m2",
                                              "int8",   "int16",  "int32", "int64",     "uint8",     "uint16",
                                              "uint32", "uint64", "bool",  "complex64", "complex128"};
constexpr const char* kOpNames[kOps] = {"sum", "prod", "min", "max", "avg"};

constexpr std::pair<std::string_view, redsum_dtype> kAliases[] = {
    {"double", REDSUM_FP64},         {"float64", REDSUM_FP64},    {"float", REDSUM_FP32},
    {"float32", REDSUM_FP32},        {"half", REDSUM_FP16},       {"float16", REDSUM_FP16},
    {"bfloat16", REDSUM_BF16},       {"f8e4m3", REDSUM_FP8_E4M3}, {"f8e5m2", REDSUM_FP8_E5M2},
    {"fp8_e4m3fn", REDSUM_FP8_E4M3}, {"char", REDSUM_INT8},       {"int", REDSUM_INT32},
};

template <typename T, typename Parse>
std::vector<T> parse_list(std::string_view list, int all, Parse parse, std::string& unknown) {
  std::vector<T> parsed;
  if (list == "all") {
    for (int i = 0; i < all; ++i) parsed.push_back(static_cast<T>(i));
    return parsed;
  }
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    const auto value = parse(name);
    if (!value) {
      unknown = name;
      return {};
    }
    parsed.push_back(*value);
    if (comma == std::string_view::npos) return parsed;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

const char* dtype_name(redsum_dtype dtype) {
  const auto i = static_cast<std::size_t>(dtype);
  return i < kDtypes ? kDtypeNames[i] : "?";
}

const char* op_name(redsum_op op) {
  const auto i = static_cast<std::size_t>(op);
  return i < kOps ? kOpNames[i] : "?";
}

std::optional<redsum_dtype> parse_dtype(std::string_view name) {
  for (int i = 0; i < kDtypes; ++i)
    if (name == kDtypeNames[i]) return static_cast<redsum_dtype>(i);
  for (const auto& [alias, dtype] : kAliases)
    if (name == alias) return dtype;
  return std::nullopt;
}

std::optional<redsum_op> parse_op(std::string_view name) {
  for (int i = 0; i < kOps; ++i)
    if (name == kOpNames[i]) return static_cast<redsum_op>(i);
  return std::nullopt;
}

std::vector<redsum_dtype> parse_dtypes(std::string_view list, std::string& unknown) {
  return parse_list<redsum_dtype>(list, kDtypes, parse_dtype, unknown);
}

std::vector<redsum_op> parse_ops(std::string_view list, std::string& unknown) {
  return parse_list<redsum_op>(list, kOps, parse_op, unknown);
}

bool reduction_defined(redsum_dtype dtype, redsum_op op) {
  const bool complex = dtype == REDSUM_COMPLEX64 || dtype == REDSUM_COMPLEX128;
  return !complex || op == REDSUM_SUM || op == REDSUM_AVG;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  double factor = 1;
  if (!unit.empty() && unit != "B") {
    const std::size_t power = std::string_view("KMGT").find(static_cast<char>(unit[0] & ~0x20));
    if (power == std::string_view::npos) return std::nullopt;
    for (std::size_t i = 0; i <= power; ++i) factor *= 1024;
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "B" && unit != "iB") return std::nullopt;
  }
  const double bytes = std::floor(number * factor);
  if (!(bytes <= 0x1p50)) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace perf
