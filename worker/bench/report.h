// Rows of a measurement: one JSON line each, and a table for people.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "worker/memory/plan.h"

namespace coat {

// "<version>-<commit>", "-dirty" when the tree had changes; compiled in.
const char* BuildCommit();

double Median(std::vector<double> values);  // 0 for none
nlohmann::ordered_json BytesByKind(const std::array<int64_t, kMemoryKinds>& bytes_by_kind);

// Thread-compatible. Every row carries bench, device, threads and commit besides its own fields.
class Report {
 public:
  // `bench`: "quant", "step" or "optimizer". JSON lines go to `json`, the table to `table`.
  Report(std::string bench, const std::string& device, int threads, std::ostream* json,
         std::ostream* table);

  // Writes the row's JSON line at once.
  void Add(const nlohmann::ordered_json& row);
  // Columns of the table: fields of the rows, in order ("bytes.weights" for a nested one).
  void PrintTable(const std::vector<std::string>& columns) const;
  const std::vector<nlohmann::ordered_json>& rows() const { return rows_; }

 private:
  nlohmann::ordered_json common_;
  std::ostream& json_;
  std::ostream& table_;
  std::vector<nlohmann::ordered_json> rows_;
};

}  // namespace coat
