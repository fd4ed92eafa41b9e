// SPDX-License-Identifier: Apache-2.0
#include "examples/digits_data.h"

#include <zlib.h>

#include <array>
#include <charconv>
#include <numeric>
#include <string_view>
#include <utility>

namespace digits {
namespace {

constexpr std::uint64_t kSplitSeed = 20240;
constexpr int kMaxPixel = 16;
constexpr int kTestFraction = 5;  // one in five images is for the test

using Row = std::array<int, kPixels + 1>;

bool parse_row(std::string_view line, Row& row) {
  const char* at = line.data();
  const char* end = line.data() + line.size();
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i > 0 && (at == end || *at++ != ',')) return false;
    const auto [next, error] = std::from_chars(at, end, row[i]);
    const int most = i < kPixels ? kMaxPixel : kClasses - 1;
    if (error != std::errc() || row[i] < 0 || row[i] > most) return false;
    at = next;
  }
  return at == end;
}

std::string read_rows(const std::string& path, std::vector<Row>& rows) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return "--data " + path + ": cannot open the file";
  char line[1024];
  std::string error;
  while (error.empty() && gzgets(file, line, sizeof line) != nullptr) {
    std::string_view text(line);
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
    Row row{};
    if (parse_row(text, row))
      rows.push_back(row);
    else
      error = "--data " + path + ": line " + std::to_string(rows.size() + 1) + " is not 64 pixels and a label";
  }
  gzclose(file);
  if (error.empty() && rows.size() < 100)
    error = "--data " + path + ": only " + std::to_string(rows.size()) + " images";
  return error;
}

}  // namespace

std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

std::vector<int> shuffled(int count, std::uint64_t seed) {
  std::vector<int> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[next_random(seed) % i]);
  return order;
}

std::string load(const std::string& path, Data& data) {
  std::vector<Row> rows;
  if (std::string error = read_rows(path, rows); !error.empty()) return error;
  for (const int index : shuffled(static_cast<int>(rows.size()), kSplitSeed)) {
    const Row& row = rows[static_cast<std::size_t>(index)];
    for (int p = 0; p < kPixels; ++p)
      data.pixels.push_back(static_cast<float>(row[static_cast<std::size_t>(p)]) / kMaxPixel);
    data.labels.push_back(row[kPixels]);
  }
  data.test_count = static_cast<int>(rows.size()) / kTestFraction;
  data.train_count = static_cast<int>(rows.size()) - data.test_count;
  return "";
}

}  // namespace digits
