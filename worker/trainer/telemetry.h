// What a rank reports about its memory and its own numerics (NUMERICS 7).
#pragma once

#include "coatrack/v1/events.pb.h"
#include "worker/trainer/session.h"

namespace coat {

// Measured memory by kind (the arena's, and `other`: what is used outside it, of the GPU's memory
// or of this process's), the plan, and the plan of the same job with recipe bf16.
void ReportMemory(const Session& session, coatrack::v1::StepRecord* record);

// ReportMemory, FP8 health of the microbatch sampled in this step and of the moments, histograms of
// k, and what the optimizer really ran. `record` must say whether the step was skipped. Waits for
// the device.
void ReportTelemetry(const Session& session, coatrack::v1::StepRecord* record);

}  // namespace coat
