// What the plan refuses before it looks at a tensor.
#pragma once

#include "coatrack/v1/job.pb.h"

namespace coat {

// Error(kInvalidArgument), one violation a line, for a spec that ValidateJobSpec refuses.
void RefuseInvalid(const coatrack::v1::JobSpec& spec);

}  // namespace coat
