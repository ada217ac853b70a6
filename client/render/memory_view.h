// Memory of a rank by kind, one column a recipe, planned and measured.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"

namespace coat {

using KindMap = std::map<std::string, int64_t>;  // bytes by kind

KindMap ToKindMap(const google::protobuf::RepeatedPtrField<coatrack::v1::KindBytes>& kinds);

// Kinds that any of the maps has bytes of, in the order of coat_memory_bytes{kind}, unknown ones
// after them by name.
std::vector<std::string> KindsOf(const std::vector<KindMap>& maps);
int64_t TotalBytes(const KindMap& bytes);
// "-43 %": how far `value` is above or below `against`; "new" against zero.
std::string DifferenceText(int64_t value, int64_t against);

struct MemoryColumn {
  std::string head;  // "COAT MEASURED"
  KindMap bytes;
};

// Rows in the order of coat_memory_bytes{kind}, kinds that no column has left out, `total` last.
// Where the first two columns are a comparison, `saved` is a last column: the share by which
// `saved_of` is below `saved_against` (indices of columns; -1: no such column).
struct MemoryTableOptions {
  int saved_of = -1;
  int saved_against = -1;
};
std::string MemoryTable(const std::vector<MemoryColumn>& columns,
                        const MemoryTableOptions& options);

}  // namespace coat
