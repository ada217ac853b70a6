// From the engine's error codes to the one enum of reasons.
#pragma once

#include "coatrack/v1/events.pb.h"
#include "configs/base/status.h"

namespace coat {

// What exit.json says for a rank that ends with an Error of this code.
coatrack::v1::Reason ReasonOf(Code code);

}  // namespace coat
