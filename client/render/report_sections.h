// The sections of the report, each a whole <section>.
#pragma once

#include <string>

#include "client/render/report.h"

namespace coat {

// Points of a curve and rows of a table at most; more are averaged or left out evenly.
inline constexpr int kReportPoints = 600;
inline constexpr int kReportRows = 60;

std::string CurvesSection(const ReportData& data);   // loss, validation, learning rate, norm
std::string MemorySection(const ReportData& data);   // by kind, over time, plan, bf16
std::string Fp8Section(const ReportData& data);      // quantization error, saturation
std::string MomentsSection(const ReportData& data);  // k of both moments
std::string EventsSection(const ReportData& data);
std::string JobFileSection(const ReportData& data);

}  // namespace coat
