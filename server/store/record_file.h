// Bytes of the journal's record file and of plain files. Pure, except for reading and writing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coatrack/v1/events.pb.h"
#include "configs/base/status.h"

namespace coat {

void AppendFrame(const coatrack::v1::StepRecord& record, std::string* bytes);
// Whole frames from `offset`; `end` is where the last whole one ends (a torn tail follows it).
std::vector<coatrack::v1::StepRecord> ParseFrames(std::string_view bytes, int64_t* end);

// One record for each (step, rank, phase), and of each (step, rank) only the highest attempt's; by
// step, then rank. Steps above `after_step`.
std::vector<coatrack::v1::StepRecord> MergeRecords(std::vector<coatrack::v1::StepRecord> records,
                                                   int64_t after_step);
// Drops every second plain record of the older half (one without validation loss, checkpoint or
// weights hash), and there every plain record of ranks above 0.
std::vector<coatrack::v1::StepRecord> Thin(std::vector<coatrack::v1::StepRecord> records);

Result<std::string> ReadBytes(const std::string& path, int64_t offset, int64_t max_bytes);
Status AppendBytes(const std::string& path, std::string_view bytes);
Status ReplaceFile(const std::string& path, std::string_view bytes);  // by rename

}  // namespace coat
