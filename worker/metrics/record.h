// Parts of a StepRecord (proto/coatrack/v1/events.proto).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "worker/memory/plan.h"

namespace coat {

using KindBytesList = google::protobuf::RepeatedPtrField<coatrack::v1::KindBytes>;

// Every kind in the order of MemoryKind, zeros included; then "other", when given.
void SetKindBytes(const std::array<int64_t, kMemoryKinds>& bytes, std::optional<int64_t> other,
                  KindBytesList* list);

// Resident bytes of this process (/proc/self/statm); 0 when unknown.
int64_t ResidentBytes();

// From a model's eight counters: values, non-zero values, saturated, flushed, sum of squared
// errors, sum of squares, smallest and largest scale (NUMERICS 7). Nothing when none was measured.
std::optional<coatrack::v1::OperandHealth> MakeHealth(const std::string& operand,
                                                      std::span<const float, 8> counters);

coatrack::v1::Histogram MakeHistogram(const std::vector<double>& bounds,
                                      const std::vector<int64_t>& counts);

google::protobuf::Timestamp MakeTimestamp(int64_t wall_ms);

}  // namespace coat
