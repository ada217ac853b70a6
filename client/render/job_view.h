// Jobs and their events as text for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/render/terminal.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

// `now` in seconds since 1970, for ages.
std::string JobTable(const std::vector<coatrack::v1::Job>& jobs, OutputFormat format, int64_t now);
// One job in full, its newest events last.
std::string JobText(const coatrack::v1::Job& job, const std::vector<coatrack::v1::JobEvent>& events,
                    int64_t now);
// "12:00:00  running  attempt 1  message"
std::string EventLine(const coatrack::v1::JobEvent& event);
// Wide: with the date and the sequence numbers.
std::string EventTable(const std::vector<coatrack::v1::JobEvent>& events, OutputFormat format);
// "out of device memory"; empty for none and for a job that completed.
std::string ReasonText(coatrack::v1::Reason reason);
// "running", "pending (no free devices)", "failed (out of device memory)"
std::string StateText(const coatrack::v1::Job& job);

// "key=value,key=value" by key; "-" for none.
std::string LabelsText(const google::protobuf::Map<std::string, std::string>& labels);

// "coat": the recipe of a spec, with its default.
std::string RecipeText(const coatrack::v1::JobSpec& spec);

bool IsFinished(coatrack::v1::JobState state);

}  // namespace coat
