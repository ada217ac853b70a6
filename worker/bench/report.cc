#include "worker/bench/report.h"

#include <algorithm>
#include <cstdio>
#include <ostream>

namespace coat {
namespace {

using Json = nlohmann::ordered_json;

std::string Cell(const Json& row, const std::string& column) {
  const Json* value = &row;
  size_t begin = 0;
  while (begin <= column.size()) {
    const size_t end = std::min(column.find('.', begin), column.size());
    const auto found = value->find(column.substr(begin, end - begin));
    if (found == value->end()) return "";
    value = &*found;
    begin = end + 1;
  }
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_number_float()) return value->dump();
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", value->get<double>());
  return text;
}

}  // namespace

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Json BytesByKind(const std::array<int64_t, kMemoryKinds>& bytes_by_kind) {
  Json bytes;
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    bytes[MemoryKindName(static_cast<MemoryKind>(kind))] = bytes_by_kind[static_cast<size_t>(kind)];
  }
  return bytes;
}

Report::Report(std::string bench, const std::string& device, int threads, std::ostream* json,
               std::ostream* table)
    : json_(*json), table_(*table) {
  common_["bench"] = std::move(bench);
  common_["device"] = device;
  common_["threads"] = threads;
  common_["commit"] = BuildCommit();
}

void Report::Add(const Json& row) {
  Json full = common_;
  full.update(row);
  json_ << full.dump() << std::endl;
  rows_.push_back(std::move(full));
}

void Report::PrintTable(const std::vector<std::string>& columns) const {
  std::vector<std::vector<std::string>> cells(1);
  for (const std::string& column : columns) cells[0].push_back(column);
  for (const Json& row : rows_) {
    cells.emplace_back();
    for (const std::string& column : columns) cells.back().push_back(Cell(row, column));
  }
  std::vector<size_t> widths(columns.size());
  for (const auto& line : cells) {
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  for (const auto& line : cells) {
    for (size_t i = 0; i < line.size(); ++i) {
      table_ << std::string(widths[i] - line[i].size(), ' ') << line[i]
             << (i + 1 < line.size() ? "  " : "\n");
    }
  }
}

}  // namespace coat
