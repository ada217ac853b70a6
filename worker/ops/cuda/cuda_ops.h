// The CUDA backend (sm_90a): fused kernels, cuBLASLt, cuDNN. One stream, nothing allocated after
// SetWorkspace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "configs/base/units.h"
#include "worker/ops/cuda/adamw_table.h"
#include "worker/ops/cuda/attention_plans.h"
#include "worker/ops/cuda/context.h"
#include "worker/ops/cuda/gemm_plans.h"
#include "worker/ops/ops.h"

namespace coat {

inline constexpr int64_t kAdamWTableBytes = kMiB;  // of the workspace

// Index of "cuda:<index or UUID>". Error(kFailedPrecondition) when absent, or without a driver.
int FindCudaDevice(const std::string& device);

class CudaOps final : public Ops {
 public:
  // `device`: index, or UUID as nvidia-smi prints it. Error(kFailedPrecondition) when absent.
  explicit CudaOps(const std::string& device);
  ~CudaOps() override;

  DeviceType device() const override { return DeviceType::kCuda; }
  void SetWorkspace(const Tensor& workspace) override;

  void Embedding(const EmbeddingArgs&) override;
  void EmbeddingBackward(const EmbeddingBackwardArgs&) override;
  void AddNorm(const AddNormArgs&) override;
  void NormApply(const NormApplyArgs&) override;
  void NormBackward(const NormBackwardArgs&) override;
  void Amax(const AmaxArgs&) override;
  void AmaxToScale(const AmaxToScaleArgs&) override;
  void Quantize(const QuantizeArgs&) override;
  void Transpose(const TransposeArgs&) override;
  void Cast(const CastArgs&) override;
  void Gemm(const GemmArgs&) override;
  void Rope(const RopeArgs&) override;
  void Attention(const AttentionArgs&) override;
  void AttentionBackward(const AttentionBackwardArgs&) override;
  void GateUpQuantize(const GateUpQuantizeArgs&) override;
  void Swiglu(const SwigluArgs&) override;
  void SwigluBackward(const SwigluBackwardArgs&) override;
  void CrossEntropy(const CrossEntropyArgs&) override;
  void Sum(const SumArgs&) override;
  void GradNorm(const GradNormArgs&) override;
  void AdamW(const AdamWArgs&) override;
  void Measure(const MeasureArgs&) override;

  void Zero(const Tensor& x) override;
  void Copy(const Tensor& from, const Tensor& to) override;
  void ToDevice(const void* host, const Tensor& to) override;
  void ToHost(const Tensor& from, void* host) override;
  void Synchronize() override;

  std::unique_ptr<Mark> CreateMark() override;
  std::unique_ptr<Recording> Record(std::function<void()> body) override;  // as a CUDA graph
  std::shared_ptr<std::byte> HostBuffer(int64_t bytes) override;           // pinned
  std::string device_name() const override;
  void* stream() const override { return context_.stream; }
  std::optional<int64_t> device_used_bytes() const override;

  const CudaContext& context() const { return context_; }

  // The own attention kernels, whatever the shape: the cross-check of cuDNN's.
  void SimpleAttention(const AttentionArgs&);
  void SimpleAttentionBackward(const AttentionBackwardArgs&);

 private:
  const AdamWEntry* UploadAdamWTable(const std::vector<AdamWEntry>& table);

  CudaContext context_;
  std::unique_ptr<GemmPlans> gemm_;
  std::unique_ptr<AttentionPlans> attention_;
  uint8_t* adamw_table_ = nullptr;
  std::vector<uint8_t> uploaded_;  // content of adamw_table_
};

}  // namespace coat
