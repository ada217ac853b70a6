#include "worker/model/recorded.h"

#include <cstdio>
#include <utility>

#include "configs/base/error.h"

namespace coat {

RecordedModel::RecordedModel(std::unique_ptr<Model> inner, Ops* ops)
    : inner_(std::move(inner)), ops_(ops) {}

void RecordedModel::Run(Call call, const std::vector<const void*>& buffers,
                        const std::function<void()>& body) {
  Variant& variant = variants_[call];
  if (!variant.ran) {
    variant.ran = true;
    variant.buffers = buffers;
    return body();
  }
  if (!recording_ || buffers != variant.buffers) return body();
  if (variant.recording == nullptr) {
    try {
      variant.recording = ops_->Record(body);
    } catch (const Error& e) {
      if (e.code() != Code::kFailedPrecondition) throw;
      recording_ = false;
      std::fprintf(stderr, "training goes on without recorded microbatches: %s\n", e.what());
      return body();
    }
  }
  variant.recording->Replay();
  operations_ = variant.recording->operations();
  ++replays_;
}

void RecordedModel::TrainMicrobatch(const Batch& batch, const Tensor& inverse_count,
                                    bool first_of_step) {
  const auto body = [this, batch, inverse_count, first_of_step] {
    inner_->TrainMicrobatch(batch, inverse_count, first_of_step);
  };
  if (watched_ || (telemetry_ && first_of_step)) return body();
  Run(first_of_step ? Call::kTrainFirst : Call::kTrainMore,
      {batch.tokens.data, batch.targets.data, batch.order.data, inverse_count.data}, body);
}

void RecordedModel::WatchGradients(GradientsReady ready) {
  watched_ = ready != nullptr;
  inner_->WatchGradients(std::move(ready));
}

void RecordedModel::EvaluateMicrobatch(const Batch& batch) {
  Run(Call::kEvaluate, {batch.tokens.data, batch.targets.data},
      [this, batch] { inner_->EvaluateMicrobatch(batch); });
}

void RecordedModel::WeightsUpdated() {
  Run(Call::kUpdated, {}, [this] { inner_->WeightsUpdated(); });
}

void RecordedModel::ResetStep() {
  Run(Call::kReset, {}, [this] { inner_->ResetStep(); });
}

void RecordedModel::SetTelemetry(bool on) {
  telemetry_ = on;
  inner_->SetTelemetry(on);
}

}  // namespace coat
