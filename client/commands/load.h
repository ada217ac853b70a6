// What several verbs read in full before they print.
#pragma once

#include <string>
#include <vector>

#include "client/render/history.h"
#include "client/rpc/job_client.h"

namespace coat {

// All records that the coordinator has of a job. Errors: those of JobClient.
Result<RunHistory> LoadHistory(JobClient* client, const std::string& job);

// All events after `after_sequence`, over as many calls as it takes, oldest first.
Result<std::vector<coatrack::v1::JobEvent>> LoadEvents(JobClient* client, const std::string& job,
                                                       int64_t after_sequence = 0);

// Bytes of the device that holds rank 0 of `job`; 0 when nobody knows.
int64_t LoadDeviceBytes(JobClient* client, const coatrack::v1::Job& job);

}  // namespace coat
