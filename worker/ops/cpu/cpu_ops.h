// The CPU backend: the executable definition of NUMERICS.md. One .cc file per operator group.
#pragma once

#include <memory>

#include "worker/ops/cpu/thread_pool.h"
#include "worker/ops/ops.h"

namespace coat {

// Synchronous: every call is complete on return. Thread-compatible. All results but those of
// Gemm and Attention (OpenBLAS) are the same bits for any number of threads; those are the same
// for a given number of threads, instruction set and library.
class CpuOps : public Ops {
 public:
  // `threads` >= 1; sets OpenBLAS' thread count, which belongs to the whole process.
  explicit CpuOps(int threads);

  DeviceType device() const override { return DeviceType::kCpu; }
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

 private:
  // The first `floats` FP32 numbers of the workspace. Error(kInternal) when it is smaller.
  float* Scratch(int64_t floats, const char* op) const;

  ThreadPool pool_;
  Tensor workspace_;
};

}  // namespace coat
