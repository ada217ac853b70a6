#include "worker/model/telemetry.h"

#include <algorithm>
#include <cmath>

#include "worker/model/declare.h"
#include "worker/precision/bf16.h"

namespace coat {
namespace {

// Smallest and largest of the scales that were set; 0 and 0 when none was.
struct Range {
  float min = 0, max = 0;
  void Add(float value) {
    if (!(value > 0) || !std::isfinite(value)) return;
    min = max == 0 ? value : std::min(min, value);
    max = std::max(max, value);
  }
};

}  // namespace

Telemetry::Telemetry(Ops* ops, const Arena& arena, const ModelShape& shape,
                     const std::vector<LayerRecipe>& recipes)
    : ops_(ops),
      health_(arena.Get("health")),
      activations_(arena.Get("activations.scales")),
      weights_(arena.Get("weights.scales")),
      gradients_(arena.Get("gradients.scales")) {
  std::vector<int64_t> grouped;
  for (int64_t i = 0; i < shape.layers; ++i) {
    if (recipes[static_cast<size_t>(i)].norm_input == Kept::kGroup) grouped.push_back(i);
  }
  if (grouped.empty()) return;
  std::vector<int64_t> sampled = {grouped.front()};
  if (grouped.back() != grouped.front()) sampled.push_back(grouped.back());
  for (const int64_t layer : sampled) {
    for (const char* name : {"attention_norm", "mlp_norm", "swiglu"}) {
      group_scales_.push_back(arena.Get(LayerName(layer, name) + ".q8.scales"));
    }
  }
}

void Telemetry::Switch(bool on) {
  on_ = on;
  if (on) ops_->Zero(health_);
}

Tensor Telemetry::health(Operand operand) const {
  return Tensor(health_.as<float>() + 8 * static_cast<int64_t>(operand), DType::kF32, {8});
}

void Telemetry::Measure(Operand operand, const Tensor& x, const Tensor& scale, DType format,
                        int segments) {
  if (!sampling_) return;
  ops_->Measure({x, scale, format, segments, Tensor(health(operand).data, DType::kF32, {6})});
}

void Telemetry::Activation(const Tensor& x, const Tensor& scale) {
  Measure(Operand::kActivation, x, scale, DType::kE4M3, 1);
}

void Telemetry::Weight(const Tensor& x, const Tensor& scale) {
  Measure(Operand::kWeight, x, scale, DType::kE4M3, 1);
}

void Telemetry::Gradient(const Tensor& x, const Tensor& scale) {
  Measure(Operand::kGradient, x, scale, DType::kE5M2, 1);
}

void Telemetry::Groups(const Tensor& x, int segments) {
  Measure(Operand::kGroup, x, {}, DType::kE4M3, segments);
}

void Telemetry::End() {
  if (!sampling_) return;
  Range ranges[kOperands];
  const auto add = [&](Operand operand, const Tensor& scales) {
    std::vector<float> host(static_cast<size_t>(scales.numel()));
    ops_->ToHost(scales, host.data());
    ops_->Synchronize();
    for (const float scale : host) ranges[static_cast<size_t>(operand)].Add(scale);
  };
  add(Operand::kActivation, activations_);
  add(Operand::kWeight, weights_);
  add(Operand::kGradient, gradients_);
  for (const Tensor& scales : group_scales_) {
    std::vector<uint16_t> host(static_cast<size_t>(scales.numel()));
    ops_->ToHost(scales, host.data());
    ops_->Synchronize();
    for (const uint16_t bits : host) {
      ranges[static_cast<size_t>(Operand::kGroup)].Add(FloatFromBf16(bits));
    }
  }
  for (int i = 0; i < kOperands; ++i) {
    float* place = health(static_cast<Operand>(i)).as<float>() + 6;
    const float values[2] = {ranges[i].min, ranges[i].max};
    ops_->ToDevice(values, Tensor(place, DType::kF32, {2}));
  }
  ops_->Synchronize();  // `values` was read
}

}  // namespace coat
