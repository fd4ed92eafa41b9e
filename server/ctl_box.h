// SPDX-License-Identifier: Apache-2.0
// Text tables in a box.
#pragma once
#include <string>
#include <vector>

namespace redsum::ctl {

struct Table {
  std::vector<std::string> titles;  // one per column; a leading '>' aligns the column to the right
  std::vector<std::vector<std::string>> rows;
};

// Lines of the same width, whatever the tables hold; tables without rows are left out. Ends with a newline.
std::string draw_box(const std::string& headline, const std::vector<Table>& tables);

}  // namespace redsum::ctl
