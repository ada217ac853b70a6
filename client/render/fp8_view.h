// FP8 health of a record in words: what is measured, and whether it asks for attention.
#pragma once

#include <cstdint>
#include <string>

#include "coatrack/v1/events.pb.h"

namespace coat {

// "activation", ...; "group (1x16)" for the operand `group`.
std::string OperandText(const std::string& operand);

// Share of saturated codes above which an operand asks for attention, as the alert rule has it.
double SaturationLimit(const std::string& operand);

// "0.012 %"; "0 %" for zero, "< 0.001 %" for what is less.
std::string PercentText(double ratio);

// Index of the bucket that holds the median; -1 for an empty histogram.
int MedianBucket(const coatrack::v1::Histogram& histogram);
// "<= 0.5"; "> 64" for the bucket above the last bound.
std::string BucketText(const coatrack::v1::Histogram& histogram, int bucket);

enum class Fp8Health : uint8_t { kUnknown, kHealthy, kAttention };
Fp8Health JudgeFp8(const coatrack::v1::StepRecord& record);

}  // namespace coat
