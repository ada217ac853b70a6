// Workers, checkpoints and step records as text for people.
#pragma once

#include <string>
#include <vector>

#include "client/render/terminal.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

std::string WorkerTable(const google::protobuf::RepeatedPtrField<coatrack::v1::Worker>& workers,
                        OutputFormat format);
std::string CheckpointTable(
    const google::protobuf::RepeatedPtrField<coatrack::v1::Checkpoint>& checkpoints);
std::string RecordTable(const std::vector<coatrack::v1::StepRecord>& records);

}  // namespace coat
