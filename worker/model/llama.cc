// The Llama family: what happens in a microbatch, in order.
#include <algorithm>
#include <numeric>
#include <utility>

#include "worker/memory/arena.h"
#include "worker/model/block.h"
#include "worker/model/declare.h"
#include "worker/model/head.h"
#include "worker/model/initialize.h"
#include "worker/model/model.h"
#include "worker/model/rotary.h"
#include "worker/model/telemetry.h"
#include "worker/model/weights.h"

namespace coat {
namespace {

class Llama final : public Model {
 public:
  Llama(const coatrack::v1::JobSpec& spec, Ops* ops, const Arena& arena)
      : ops_(ops),
        shape_(ResolveShape(spec)),
        recipes_(ResolveRecipes(spec)),
        nll_(arena.Get("step.nll")),
        nonfinite_(arena.Get("step.nonfinite")),
        inverse_count_(arena.Get(kBatchInverseCount)),
        weights_(spec, ops, arena, nonfinite_),
        telemetry_(ops, arena, shape_, recipes_),
        shared_(ops, arena, shape_, IsDeterministic(spec, ops->device()), &weights_, &telemetry_),
        head_(&shared_) {
    ops_->SetWorkspace(arena.Get("ops.workspace"));
    const RotaryTables tables = MakeRotaryTables(shape_.seq, shape_.head_size, shape_.rope_theta);
    ops_->ToDevice(tables.cos.data(), shared_.cos);
    ops_->ToDevice(tables.sin.data(), shared_.sin);
    ops_->Synchronize();
    for (int64_t i = 0; i < shape_.layers; ++i) {
      blocks_.emplace_back(&shared_, i, recipes_[static_cast<size_t>(i)]);
    }
  }

  const std::vector<Parameter>& parameters() const override { return weights_.parameters(); }

  void Initialize(uint64_t seed) override {
    InitializeParameters(DeclareParameters(shape_), weights_.parameters(), seed, ops_);
    weights_.Reload();
  }
  void WeightsChanged() override { weights_.Reload(); }
  void WeightsUpdated() override { weights_.Refresh(); }

  void TrainMicrobatch(const Batch& batch, const Tensor& inverse_count,
                       bool first_of_step) override {
    telemetry_.Begin(first_of_step);
    shared_.first_of_step = first_of_step;
    head_.Train(Forward(batch), batch.targets, inverse_count);
    Ready(FirstOfLayer(shape_.layers), shape_.tied ? 1 : 2);  // final norm, head
    for (int64_t i = shape_.layers - 1; i >= 0; --i) {
      blocks_[static_cast<size_t>(i)].Backward();
      Ready(FirstOfLayer(i), kLayerParameters);
    }
    ops_->EmbeddingBackward(
        {batch.tokens, batch.order, shared_.dresidual, weights_.embedding_gradient()});
    Ready(0, 1);
    if (telemetry_.sampling()) SampleWeights();
    telemetry_.End();
  }

  void WatchGradients(GradientsReady ready) override { ready_ = std::move(ready); }

  void EvaluateMicrobatch(const Batch& batch) override {
    telemetry_.Begin(false);
    head_.Evaluate(Forward(batch), batch.targets, inverse_count_);
  }

  Tensor nll() const override { return nll_; }
  Tensor nonfinite() const override { return nonfinite_; }

  void ResetStep() override {
    for (const Parameter& parameter : weights_.parameters()) {
      if (!parameter.overwritten) ops_->Zero(parameter.grad);
    }
    ops_->Zero(nll_);
    ops_->Zero(nonfinite_);
  }

  void SetTelemetry(bool on) override { telemetry_.Switch(on); }
  Tensor health(Operand operand) const override { return telemetry_.health(operand); }

 private:
  static int64_t FirstOfLayer(int64_t layer) { return 1 + layer * kLayerParameters; }
  void Ready(int64_t first, int64_t count) const {
    if (ready_) ready_(first, count);
  }

  // The residual behind the last block, whose last branch is not added yet.
  Tensor Forward(const Batch& batch) {
    Tensor residual = blocks_.front().input();
    ops_->Embedding({batch.tokens, weights_.embedding(), residual});
    bool first = true;
    for (Block& block : blocks_) {
      residual = block.Forward(residual, first);
      first = false;
    }
    return residual;
  }

  void SampleWeights() {
    for (int64_t i = 0; i < shape_.layers; ++i) {
      for (const LinearWeight& weight : weights_.layer(i).linear) {
        if (weight.fp8) telemetry_.Weight(weight.master, weight.scale);
      }
    }
  }

  Ops* ops_;
  ModelShape shape_;
  std::vector<LayerRecipe> recipes_;
  Tensor nll_, nonfinite_, inverse_count_;
  Weights weights_;
  Telemetry telemetry_;
  BlockShared shared_;
  Head head_;
  std::vector<Block> blocks_;
  GradientsReady ready_;
};

}  // namespace

Batch BatchBuffers(const Arena& arena) {
  return {arena.Get(kBatchTokens), arena.Get(kBatchTargets), arena.Get(kBatchOrder)};
}

std::vector<int32_t> TokenOrder(const std::vector<int32_t>& tokens) {
  std::vector<int32_t> order(tokens.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return tokens[static_cast<size_t>(a)] < tokens[static_cast<size_t>(b)];
  });
  return order;
}

std::unique_ptr<Model> CreateModel(const coatrack::v1::JobSpec& spec, Ops* ops, Arena* arena) {
  return std::make_unique<Llama>(spec, ops, *arena);
}

}  // namespace coat
