// SPDX-License-Identifier: Apache-2.0
#include "server/ctl_box.h"

#include <algorithm>

namespace redsum::ctl {
namespace {

constexpr std::size_t kMaxCell = 60;

// Terminals are not told control characters that a peer chose.
std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  if (out.size() > kMaxCell) out = out.substr(0, kMaxCell - 3) + "...";
  return out;
}

bool is_right(const std::string& title) {
  return !title.empty() && title[0] == '>';
}
std::string title_text(const std::string& title) {
  return is_right(title) ? title.substr(1) : title;
}

std::vector<std::size_t> natural_widths(const Table& table) {
  std::vector<std::size_t> widths;
  for (const std::string& title : table.titles) widths.push_back(title_text(title).size());
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], shown(row[i]).size());
  return widths;
}

// Between the outer bars: each cell with a blank on both sides, bars between.
std::size_t total(const std::vector<std::size_t>& widths) {
  std::size_t sum = widths.empty() ? 0 : widths.size() - 1;
  for (const std::size_t width : widths) sum += width + 2;
  return sum;
}

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string fill(width > text.size() ? width - text.size() : 0, ' ');
  return right ? fill + text : text + fill;
}

std::string rule(const std::vector<std::size_t>& widths, char line) {
  std::string out = "+";
  for (const std::size_t width : widths) out += std::string(width + 2, line) + "+";
  return out + "\n";
}

}  // namespace

std::string draw_box(const std::string& headline, const std::vector<Table>& tables) {
  std::size_t inner = shown(headline).size() + 2;
  for (const Table& table : tables)
    if (!table.rows.empty()) inner = std::max(inner, total(natural_widths(table)));
  const std::string edge = "+" + std::string(inner, '-') + "+\n";
  std::string out = edge + "| " + padded(shown(headline), inner - 2, false) + " |\n";
  for (const Table& table : tables) {
    if (table.rows.empty()) continue;
    std::vector<std::size_t> widths = natural_widths(table);
    widths.front() += inner - total(widths);
    out += rule(widths, '-');
    const auto line = [&](const std::vector<std::string>& cells, bool is_title) {
      out += "|";
      for (std::size_t i = 0; i < widths.size(); ++i) {
        const std::string cell = i < cells.size() ? (is_title ? title_text(cells[i]) : shown(cells[i])) : "";
        out += " " + padded(cell, widths[i], is_right(table.titles[i])) + " |";
      }
      out += "\n";
    };
    line(table.titles, true);
    out += rule(widths, '=');
    for (const auto& row : table.rows) line(row, false);
  }
  return out + edge;
}

}  // namespace redsum::ctl
