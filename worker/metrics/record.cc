#include "worker/metrics/record.h"

#include <unistd.h>

#include <cmath>
#include <fstream>

namespace coat {
namespace {

double Ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

void AddKind(const std::string& kind, int64_t bytes, KindBytesList* list) {
  auto* entry = list->Add();
  entry->set_kind(kind);
  entry->set_bytes(bytes);
}

}  // namespace

void SetKindBytes(const std::array<int64_t, kMemoryKinds>& bytes, std::optional<int64_t> other,
                  KindBytesList* list) {
  list->Clear();
  for (int kind = 0; kind < kMemoryKinds; ++kind) {
    AddKind(MemoryKindName(static_cast<MemoryKind>(kind)), bytes[static_cast<size_t>(kind)], list);
  }
  if (other) AddKind("other", *other, list);
}

int64_t ResidentBytes() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  in >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::optional<coatrack::v1::OperandHealth> MakeHealth(const std::string& operand,
                                                      std::span<const float, 8> counters) {
  if (counters[0] == 0) return std::nullopt;
  coatrack::v1::OperandHealth health;
  health.set_operand(operand);
  health.set_saturated_ratio(Ratio(counters[2], counters[0]));
  health.set_flushed_ratio(Ratio(counters[3], counters[1]));
  health.set_relative_error(std::sqrt(Ratio(counters[4], counters[5])));
  health.set_scale_min(counters[6]);
  health.set_scale_max(counters[7]);
  return health;
}

coatrack::v1::Histogram MakeHistogram(const std::vector<double>& bounds,
                                      const std::vector<int64_t>& counts) {
  coatrack::v1::Histogram histogram;
  histogram.mutable_bounds()->Assign(bounds.begin(), bounds.end());
  histogram.mutable_counts()->Assign(counts.begin(), counts.end());
  return histogram;
}

google::protobuf::Timestamp MakeTimestamp(int64_t wall_ms) {
  google::protobuf::Timestamp time;
  time.set_seconds(wall_ms / 1000);
  time.set_nanos(static_cast<int32_t>(wall_ms % 1000 * 1'000'000));
  return time;
}

}  // namespace coat
