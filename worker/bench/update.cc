#include "worker/bench/update.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "configs/spec/reader.h"
#include "worker/ops/workspace.h"
#include "worker/optim/layout.h"
#include "worker/precision/bf16.h"

namespace coat {
namespace {

constexpr int64_t kTensorElements = int64_t{1} << 24;
constexpr char kNonfinite[] = "nonfinite";
constexpr char kInverseCount[] = "inverse_count";

class PlanBuilder {
 public:
  void Add(const std::string& name, MemoryKind kind, DType dtype, std::vector<int64_t> shape) {
    PlannedTensor tensor;
    int64_t elements = 1;
    for (const int64_t dim : shape) elements *= dim;
    tensor.name = name;
    tensor.kind = kind;
    tensor.dtype = dtype;
    tensor.ld = shape.back();
    tensor.shape = std::move(shape);
    tensor.offset = plan_.total_bytes;
    tensor.bytes = RoundUp(elements * ElementBytes(dtype), 256);
    plan_.total_bytes += tensor.bytes;
    plan_.bytes_by_kind[static_cast<size_t>(kind)] += tensor.bytes;
    plan_.tensors.push_back(std::move(tensor));
  }
  const MemoryPlan& plan() const { return plan_; }

 private:
  MemoryPlan plan_;
};

coatrack::v1::JobSpec PrecisionOf(const UpdateOptions& options, const std::string& state) {
  coatrack::v1::JobSpec spec;
  for (const std::string& setting :
       {"precision.optimizer_state=" + state, "precision.moment_formats=" + options.formats,
        "precision.master=" + options.master, "precision.gradients=" + options.gradients}) {
    const Violations violations = SetAssignment(&spec, setting);
    if (!violations.empty()) throw Error(ViolationsToStatus(violations));
  }
  return spec;
}

// Stored tensors of a would-be model, with everything an update touches.
class UpdateProblem {
 public:
  UpdateProblem(const coatrack::v1::JobSpec& spec, const BenchDevice& device, int64_t parameters)
      : formats_(ResolveOptimizerFormats(spec)),
        ops_(CreateOps(device.name, device.threads)),
        param_type_(spec.precision().master() == coatrack::v1::MASTER_WEIGHTS_BF16_SR
                        ? DType::kBF16
                        : DType::kF32),
        grad_type_(spec.precision().gradients() == coatrack::v1::GRADIENT_FORMAT_BF16
                       ? DType::kBF16
                       : DType::kF32) {
    PlanBuilder builder;
    WorkspaceShape shape;
    shape.parameters = parameters;
    for (int64_t first = 0; first < parameters; first += kTensorElements) {
      const int64_t count = std::min(kTensorElements, parameters - first);
      const std::string name = "w" + std::to_string(shape.tensors++);
      builder.Add(name, MemoryKind::kMaster, param_type_, {count});
      builder.Add(name + ".gradient", MemoryKind::kGradients, grad_type_, {count});
      for (const StateTensorSpec& state : OptimizerStateLayout(spec, name, {count})) {
        builder.Add(state.name, MemoryKind::kOptimizer, state.dtype, state.shape);
      }
    }
    builder.Add(kStepStateName, MemoryKind::kOptimizer, DType::kU8, {sizeof(StepState)});
    builder.Add(kNonfinite, MemoryKind::kWorkspace, DType::kI32, {1});
    builder.Add(kInverseCount, MemoryKind::kWorkspace, DType::kF32, {1});
    builder.Add("ops.workspace", MemoryKind::kWorkspace, DType::kU8,
                {std::max<int64_t>(256, WorkspaceBytes(ops_->device(), shape))});
    arena_ = std::make_unique<Arena>(builder.plan(), device.name);
    ops_->SetWorkspace(arena_->Get("ops.workspace"));
    Fill(shape.tensors);
  }

  // Seconds of the norm and of the update.
  std::pair<double, double> Step() {
    const auto start = std::chrono::steady_clock::now();
    GradNormArgs norm;
    norm.grads = grads_;
    norm.nonfinite = arena_->Get(kNonfinite);
    norm.inverse_count = arena_->Get(kInverseCount);
    norm.clip_norm = 1;
    norm.state = arena_->Get(kStepStateName);
    ops_->GradNorm(norm);
    ops_->Synchronize();
    const auto middle = std::chrono::steady_clock::now();
    AdamWArgs update;
    update.tensors = tensors_;
    update.storage = formats_.storage;
    update.lr = 1e-4f;
    update.seed = 1;
    update.state = norm.state;
    ops_->AdamW(update);
    ops_->Synchronize();
    const auto end = std::chrono::steady_clock::now();
    return {std::chrono::duration<double>(middle - start).count(),
            std::chrono::duration<double>(end - middle).count()};
  }

  StepState State() {
    StepState state;
    ops_->ToHost(arena_->Get(kStepStateName), &state);
    ops_->Synchronize();
    return state;
  }
  double StateBytes() const {
    int64_t bytes = 0;
    for (const AdamWTensor& tensor : tensors_) {
      for (const Moment* moment : {&tensor.m, &tensor.v}) {
        for (const Tensor* part : {&moment->values, &moment->amax, &moment->k16}) {
          bytes += part->empty() ? 0 : part->bytes();
        }
      }
    }
    return static_cast<double>(bytes);
  }
  // State and weights twice, the gradient once.
  double MovedBytes() const {
    double bytes = 2 * StateBytes();
    for (const AdamWTensor& tensor : tensors_) {
      bytes += static_cast<double>(2 * tensor.param.bytes() + tensor.grad.bytes());
    }
    return bytes;
  }
  std::string StateName() const { return OptimizerStateName(formats_); }

 private:
  void Fill(int64_t count) {
    const float one = 1;
    ops_->ToDevice(&one, arena_->Get(kInverseCount));
    for (int64_t i = 0; i < count; ++i) {
      const std::string name = "w" + std::to_string(i);
      AdamWTensor tensor;
      tensor.param = arena_->Get(name);
      tensor.grad = arena_->Get(name + ".gradient");
      tensor.m = {arena_->Get(name + ".m.values"), arena_->Find(name + ".m.amax"),
                  arena_->Find(name + ".m.k16")};
      tensor.v = {arena_->Get(name + ".v.values"), arena_->Find(name + ".v.amax"),
                  arena_->Find(name + ".v.k16")};
      tensor.id = static_cast<uint32_t>(i);
      Randomize(tensor.param, 0.02f);
      Randomize(tensor.grad, 1e-3f);
      tensors_.push_back(tensor);
      grads_.push_back(tensor.grad);
    }
  }

  void Randomize(const Tensor& tensor, float scale) {
    if (noise_.empty()) {
      std::mt19937_64 random(1);
      std::normal_distribution<float> normal;
      noise_.resize(static_cast<size_t>(tensor.numel()));
      for (float& x : noise_) x = normal(random);
    }
    std::vector<float> host(static_cast<size_t>(tensor.numel()));
    for (size_t i = 0; i < host.size(); ++i) host[i] = scale * noise_[i];
    std::vector<uint16_t> half;
    if (tensor.dtype == DType::kBF16) {
      for (const float x : host) half.push_back(Bf16FromFloat(x));
      ops_->ToDevice(half.data(), tensor);
    } else {
      ops_->ToDevice(host.data(), tensor);
    }
    ops_->Synchronize();
  }

  OptimizerFormats formats_;
  std::unique_ptr<Ops> ops_;
  DType param_type_, grad_type_;
  std::unique_ptr<Arena> arena_;
  std::vector<float> noise_;
  std::vector<AdamWTensor> tensors_;
  std::vector<Tensor> grads_;
};

}  // namespace

void RunUpdate(const UpdateOptions& options, Report* report) {
  for (const std::string& state : options.states) {
    UpdateProblem problem(PrecisionOf(options, state), options.device, options.parameters);
    std::vector<double> norm, update;
    for (int64_t step = 0; step < options.warmup + options.steps; ++step) {
      const auto [norm_seconds, update_seconds] = problem.Step();
      if (step < options.warmup) continue;
      norm.push_back(norm_seconds);
      update.push_back(update_seconds);
    }
    Check(problem.State().t == options.warmup + options.steps, "optimizer: an update was skipped");
    const double parameters = static_cast<double>(options.parameters);
    report->Add({{"parameters", options.parameters},
                 {"state", problem.StateName()},
                 {"master", options.master},
                 {"gradients", options.gradients},
                 {"steps", options.steps},
                 {"update_ms", Median(update) * 1e3},
                 {"norm_ms", Median(norm) * 1e3},
                 {"state_bytes_per_parameter", problem.StateBytes() / parameters},
                 {"moved_bytes_per_parameter", problem.MovedBytes() / parameters},
                 {"update_gb_per_second", problem.MovedBytes() / Median(update) * 1e-9}});
  }
  report->PrintTable({"parameters", "state", "master", "gradients", "update_ms", "norm_ms",
                      "state_bytes_per_parameter", "update_gb_per_second"});
}

}  // namespace coat
