#include "client/render/table.h"

#include <algorithm>

#include "client/render/terminal.h"
#include "configs/base/error.h"

namespace coat {

void Table::Add(std::vector<std::string> cells) {
  Check(cells.size() == columns_.size(), "a table row has another number of cells");
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  std::vector<std::string> heads;
  std::vector<int> widths;
  for (const Column& column : columns_) {
    heads.push_back(column.head);
    widths.push_back(TextWidth(column.head));
  }
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], TextWidth(row[i]));
  }
  std::string text;
  const auto append = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string margin(static_cast<size_t>(widths[i] - TextWidth(row[i])), ' ');
      line += i == 0 ? "" : "  ";
      line += columns_[i].align == Align::kRight ? margin + row[i] : row[i] + margin;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  append(heads);
  for (const auto& row : rows_) append(row);
  return text;
}

}  // namespace coat
