// From a job file to a submitted job; shared by submit and run.
#pragma once

#include <string>

#include "client/commands/context.h"
#include "client/commands/verbs.h"
#include "coatrack/v1/job_service.pb.h"

namespace coat {

struct SubmissionOptions {
  SpecOptions spec;
  std::string request_id;  // empty: a random one for this invocation
};
void AddSubmission(CLI::App* verb, SubmissionOptions* options);

enum class SubmitMode : uint8_t { kSubmit, kValidateOnly };

// Reads and validates the file here, sends it as written. Says warnings on stderr.
Result<coatrack::v1::SubmitResponse> SubmitFile(Context& context, const SubmissionOptions& options,
                                                SubmitMode mode);

}  // namespace coat
