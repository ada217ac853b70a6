// Ops that waits for the device after each call and adds up where the time went.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/ops/ops.h"

namespace coat {

struct OperatorTime {
  std::string name;  // "add_norm", "gemm dgrad 256x64x128 F8_E5M2xF8_E4M3"
  int64_t calls = 0;
  double seconds = 0;
};

// Thread-compatible. Every operator of `inner` as it is, followed by Synchronize; the waiting is in
// the times, so their sum is above the time of a step that does not wait.
class TimedOps final : public Ops {
 public:
  // `tokens` of a microbatch tell the roles of FP8 products apart.
  TimedOps(std::unique_ptr<Ops> inner, int64_t tokens);

  void Reset();                             // forgets all times
  std::vector<OperatorTime> Times() const;  // by time, the largest first

  DeviceType device() const override;
  void SetWorkspace(const Tensor& workspace) override;
  void Embedding(const EmbeddingArgs& args) override;
  void EmbeddingBackward(const EmbeddingBackwardArgs& args) override;
  void AddNorm(const AddNormArgs& args) override;
  void NormApply(const NormApplyArgs& args) override;
  void NormBackward(const NormBackwardArgs& args) override;
  void Amax(const AmaxArgs& args) override;
  void AmaxToScale(const AmaxToScaleArgs& args) override;
  void Quantize(const QuantizeArgs& args) override;
  void Transpose(const TransposeArgs& args) override;
  void Cast(const CastArgs& args) override;
  void Gemm(const GemmArgs& args) override;
  void Rope(const RopeArgs& args) override;
  void Attention(const AttentionArgs& args) override;
  void AttentionBackward(const AttentionBackwardArgs& args) override;
  void GateUpQuantize(const GateUpQuantizeArgs& args) override;
  void Swiglu(const SwigluArgs& args) override;
  void SwigluBackward(const SwigluBackwardArgs& args) override;
  void CrossEntropy(const CrossEntropyArgs& args) override;
  void Sum(const SumArgs& args) override;
  void GradNorm(const GradNormArgs& args) override;
  void AdamW(const AdamWArgs& args) override;
  void Measure(const MeasureArgs& args) override;
  void Zero(const Tensor& x) override;
  void Copy(const Tensor& from, const Tensor& to) override;
  void ToDevice(const void* host, const Tensor& to) override;
  void ToHost(const Tensor& from, void* host) override;
  void Synchronize() override;
  std::shared_ptr<std::byte> HostBuffer(int64_t bytes) override;
  std::string device_name() const override;
  void* stream() const override;
  std::optional<int64_t> device_used_bytes() const override;

 private:
  void Time(const std::string& name, const std::function<void()>& call);

  const std::unique_ptr<Ops> inner_;
  const int64_t tokens_;
  std::map<std::string, OperatorTime> times_;
};

}  // namespace coat
