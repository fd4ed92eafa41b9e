// SPDX-License-Identifier: Apache-2.0
// Names and sizes as users of nccl-tests type and read them. Pure.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/redsum.h"

namespace perf {

inline constexpr int kDtypes = 17;
inline constexpr int kOps = 5;

const char* dtype_name(redsum_dtype dtype);  // "fp32"
const char* op_name(redsum_op op);           // "sum"

// redsum's own names and those of nccl-tests and C: float, half, bfloat16, double ...
std::optional<redsum_dtype> parse_dtype(std::string_view name);
std::optional<redsum_op> parse_op(std::string_view name);

// "fp32,bf16" or "all". Empty: a name in the list is unknown, and `unknown` is it.
std::vector<redsum_dtype> parse_dtypes(std::string_view list, std::string& unknown);
std::vector<redsum_op> parse_ops(std::string_view list, std::string& unknown);

// Whether the product defines this reduction: complex numbers have no order, and their product is left out.
bool reduction_defined(redsum_dtype dtype, redsum_op op);

// "16", "4K", "1.5M", "2GiB": bytes, powers of 1024. Nothing when it is no size or more than 2^50.
std::optional<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace perf
