// What `coat run` prints when a job has ended.
#pragma once

#include <optional>
#include <string>

#include "client/render/history.h"
#include "client/render/terminal.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

// The measured memory of another run, to compare with.
struct Comparison {
  std::string recipe;  // "bf16"
  coatrack::v1::StepRecord record;
};

// Loss curve, validation loss before and after, tokens and speed, memory by kind, checkpoint.
std::string RunSummary(const coatrack::v1::Job& job, const RunHistory& history,
                       const std::optional<Comparison>& comparison, const Terminal& terminal);

// The memory table alone: planned for bf16 and for the job's recipe, and measured.
std::string RunMemoryTable(const coatrack::v1::Job& job, const coatrack::v1::StepRecord& record,
                           const std::optional<Comparison>& comparison);

}  // namespace coat
