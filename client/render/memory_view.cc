#include "client/render/memory_view.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "client/render/table.h"
#include "configs/base/units.h"

namespace coat {
namespace {

constexpr std::array kKinds = {"weights",     "master",    "gradients",     "optimizer",
                               "activations", "workspace", "communication", "other"};

}  // namespace

KindMap ToKindMap(const google::protobuf::RepeatedPtrField<coatrack::v1::KindBytes>& kinds) {
  KindMap map;
  for (const auto& kind : kinds) map[kind.kind()] += kind.bytes();
  return map;
}

int64_t TotalBytes(const KindMap& bytes) {
  int64_t total = 0;
  for (const auto& [kind, value] : bytes) total += value;
  return total;
}

std::string DifferenceText(int64_t value, int64_t against) {
  if (against == 0) return value == 0 ? "0 %" : "new";
  const double change = 100.0 * static_cast<double>(value - against) / static_cast<double>(against);
  const int64_t percent = std::llround(change);
  return (percent > 0 ? "+" : "") + std::to_string(percent) + " %";
}

std::vector<std::string> KindsOf(const std::vector<KindMap>& maps) {
  std::vector<std::string> kinds(kKinds.begin(), kKinds.end());
  for (const KindMap& map : maps) {
    for (const auto& [kind, bytes] : map) {
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    }
  }
  const auto empty = [&](const std::string& kind) {
    return std::none_of(maps.begin(), maps.end(), [&](const KindMap& map) {
      const auto found = map.find(kind);
      return found != map.end() && found->second > 0;
    });
  };
  kinds.erase(std::remove_if(kinds.begin(), kinds.end(), empty), kinds.end());
  return kinds;
}

std::string MemoryTable(const std::vector<MemoryColumn>& columns,
                        const MemoryTableOptions& options) {
  const bool compared = options.saved_of >= 0 && options.saved_against >= 0;
  std::vector<Table::Column> heads = {{"KIND", Align::kLeft}};
  for (const MemoryColumn& column : columns) heads.push_back({column.head, Align::kRight});
  if (compared) heads.push_back({"CHANGE", Align::kRight});
  Table table(heads);

  std::vector<KindMap> maps;
  for (const MemoryColumn& column : columns) maps.push_back(column.bytes);
  const auto add = [&](const std::string& name, const auto& bytes_of) {
    std::vector<std::string> cells = {name};
    for (const MemoryColumn& column : columns) {
      const int64_t bytes = bytes_of(column);
      cells.push_back(bytes < 0 ? "-" : FormatBytes(bytes));
    }
    if (compared) {
      const int64_t value = bytes_of(columns[static_cast<size_t>(options.saved_of)]);
      const int64_t against = bytes_of(columns[static_cast<size_t>(options.saved_against)]);
      cells.push_back(value < 0 || against < 0 ? "-" : DifferenceText(value, against));
    }
    table.Add(std::move(cells));
  };
  for (const std::string& kind : KindsOf(maps)) {
    const auto bytes_of = [&](const MemoryColumn& column) {
      const auto found = column.bytes.find(kind);
      return found == column.bytes.end() ? int64_t{-1} : found->second;
    };
    add(kind, bytes_of);
  }
  add("total", [](const MemoryColumn& column) {
    return column.bytes.empty() ? int64_t{-1} : TotalBytes(column.bytes);
  });
  return table.ToString();
}

}  // namespace coat
