// What a rank reports about its memory and its own numerics (NUMERICS 7).
#pragma once

#include "coatrack/v1/events.pb.h"
#include "worker/trainer/session.h"

namespace coat {

// Measured memory by kind (the arena's, and `other`: resident bytes outside it), the plan, and the
// plan of the same job with recipe bf16.
void ReportMemory(const Session& session, coatrack::v1::StepRecord* record);

// ReportMemory, FP8 health of the microbatch sampled in this step, histograms of k, and what the
// optimizer really ran. Waits for the device.
void ReportTelemetry(const Session& session, coatrack::v1::StepRecord* record);

}  // namespace coat
