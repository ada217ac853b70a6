#include "worker/bench/timed_ops.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace coat {
namespace {

// An FP8 gradient (E5M2) is (tokens, out) in dgrad and (out, tokens) in wgrad; BF16 products are
// told by how their operands are stored.
const char* Role(const GemmArgs& args, int64_t tokens) {
  if (args.a.dtype == DType::kE5M2) {
    const bool dgrad = args.c.rows() == tokens && args.c.dtype == DType::kBF16 && !args.accumulate;
    return dgrad ? "dgrad" : "wgrad";
  }
  if (args.a_transposed) return "wgrad";
  return args.b_transposed ? "dgrad" : "forward";
}

std::string GemmName(const GemmArgs& args, int64_t tokens) {
  const int64_t k = args.a_transposed ? args.a.rows() : args.a.cols();
  return std::string("gemm ") + Role(args, tokens) + " " + std::to_string(args.c.rows()) + "x" +
         std::to_string(args.c.cols()) + "x" + std::to_string(k) + " " + DTypeName(args.a.dtype) +
         "x" + DTypeName(args.b.dtype) + (args.accumulate ? " +=" : "");
}

}  // namespace

TimedOps::TimedOps(std::unique_ptr<Ops> inner, int64_t tokens)
    : inner_(std::move(inner)), tokens_(tokens) {}

void TimedOps::Reset() { times_.clear(); }

std::vector<OperatorTime> TimedOps::Times() const {
  std::vector<OperatorTime> times;
  for (const auto& [name, time] : times_) times.push_back(time);
  std::stable_sort(times.begin(), times.end(), [](const OperatorTime& a, const OperatorTime& b) {
    return a.seconds > b.seconds;
  });
  return times;
}

void TimedOps::Time(const std::string& name, const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  inner_->Synchronize();
  OperatorTime& time = times_[name];
  time.name = name;
  ++time.calls;
  time.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

DeviceType TimedOps::device() const { return inner_->device(); }
void TimedOps::SetWorkspace(const Tensor& workspace) { inner_->SetWorkspace(workspace); }
void TimedOps::Gemm(const GemmArgs& args) {
  Time(GemmName(args, tokens_), [&] { inner_->Gemm(args); });
}
void TimedOps::Embedding(const EmbeddingArgs& args) {
  Time("embedding", [&] { inner_->Embedding(args); });
}
void TimedOps::EmbeddingBackward(const EmbeddingBackwardArgs& args) {
  Time("embedding_backward", [&] { inner_->EmbeddingBackward(args); });
}
void TimedOps::AddNorm(const AddNormArgs& args) {
  Time("add_norm", [&] { inner_->AddNorm(args); });
}
void TimedOps::NormApply(const NormApplyArgs& args) {
  Time("norm_apply", [&] { inner_->NormApply(args); });
}
void TimedOps::NormBackward(const NormBackwardArgs& args) {
  Time("norm_backward", [&] { inner_->NormBackward(args); });
}
void TimedOps::Amax(const AmaxArgs& args) {
  Time("amax", [&] { inner_->Amax(args); });
}
void TimedOps::AmaxToScale(const AmaxToScaleArgs& args) {
  Time("amax_to_scale", [&] { inner_->AmaxToScale(args); });
}
void TimedOps::Quantize(const QuantizeArgs& args) {
  Time("quantize", [&] { inner_->Quantize(args); });
}
void TimedOps::Transpose(const TransposeArgs& args) {
  Time("transpose", [&] { inner_->Transpose(args); });
}
void TimedOps::Cast(const CastArgs& args) {
  Time("cast", [&] { inner_->Cast(args); });
}
void TimedOps::Rope(const RopeArgs& args) {
  Time("rope", [&] { inner_->Rope(args); });
}
void TimedOps::Attention(const AttentionArgs& args) {
  Time("attention", [&] { inner_->Attention(args); });
}
void TimedOps::AttentionBackward(const AttentionBackwardArgs& args) {
  Time("attention_backward", [&] { inner_->AttentionBackward(args); });
}
void TimedOps::GateUpQuantize(const GateUpQuantizeArgs& args) {
  Time("gate_up_quantize", [&] { inner_->GateUpQuantize(args); });
}
void TimedOps::Swiglu(const SwigluArgs& args) {
  Time("swiglu", [&] { inner_->Swiglu(args); });
}
void TimedOps::SwigluBackward(const SwigluBackwardArgs& args) {
  Time("swiglu_backward", [&] { inner_->SwigluBackward(args); });
}
void TimedOps::CrossEntropy(const CrossEntropyArgs& args) {
  Time("cross_entropy", [&] { inner_->CrossEntropy(args); });
}
void TimedOps::Sum(const SumArgs& args) {
  Time("sum", [&] { inner_->Sum(args); });
}
void TimedOps::GradNorm(const GradNormArgs& args) {
  Time("grad_norm", [&] { inner_->GradNorm(args); });
}
void TimedOps::AdamW(const AdamWArgs& args) {
  Time("adamw", [&] { inner_->AdamW(args); });
}
void TimedOps::Measure(const MeasureArgs& args) {
  Time("measure", [&] { inner_->Measure(args); });
}
void TimedOps::Zero(const Tensor& x) {
  Time("zero", [&] { inner_->Zero(x); });
}
void TimedOps::Copy(const Tensor& from, const Tensor& to) {
  Time("copy", [&] { inner_->Copy(from, to); });
}
void TimedOps::ToDevice(const void* host, const Tensor& to) {
  Time("to_device", [&] { inner_->ToDevice(host, to); });
}
void TimedOps::ToHost(const Tensor& from, void* host) {
  Time("to_host", [&] { inner_->ToHost(from, host); });
}
void TimedOps::Synchronize() { inner_->Synchronize(); }
std::shared_ptr<std::byte> TimedOps::HostBuffer(int64_t bytes) { return inner_->HostBuffer(bytes); }
std::string TimedOps::device_name() const { return inner_->device_name(); }
void* TimedOps::stream() const { return inner_->stream(); }
std::optional<int64_t> TimedOps::device_used_bytes() const { return inner_->device_used_bytes(); }

}  // namespace coat
