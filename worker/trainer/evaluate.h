// Validation loss.
#pragma once

#include <optional>

#include "worker/trainer/session.h"

namespace coat {

// Mean nll in nats over the valid targets of at most train.eval_sequences held-out sequences.
// Groups of micro_batch sequences go to the ranks in turn; a rank without a group only takes part
// in the sum, so there may be fewer sequences than ranks. Collective; the same value on all ranks,
// and from call to call for the same weights. Nothing when there is no validation target. Clears
// gradients.
std::optional<double> Evaluate(Session* session);

}  // namespace coat
