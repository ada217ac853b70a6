// Columns of text under upper-case heads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace coat {

enum class Align : uint8_t { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string head;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell a column; control characters are shown as '?'.
  void Add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Two spaces between columns, none at the end of a line; a line break after each line.
  std::string ToString() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace coat
