#include "worker/trainer/evaluate.h"

#include "configs/base/units.h"

namespace coat {

std::optional<double> Evaluate(Session* session) {
  Model& model = *session->model;
  const std::vector<Sample> samples = session->feeder->ValidationSamples();
  const int64_t valid_targets = ValidTargets(samples);
  if (valid_targets == 0) return std::nullopt;
  model.SetTelemetry(false);
  model.ResetStep();
  const int64_t groups =
      CeilDiv(static_cast<int64_t>(samples.size()), session->feeder->micro_batch());
  for (int64_t group = session->rank(); group < groups; group += session->world_size()) {
    model.EvaluateMicrobatch(session->feeder->Upload(samples, group));
  }
  session->collectives->AllReduceSum(model.nll());
  float nll = 0;
  session->ops->ToHost(model.nll(), &nll);
  session->ops->Synchronize();
  return static_cast<double>(nll) / static_cast<double>(valid_targets);
}

}  // namespace coat
