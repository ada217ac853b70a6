#include "worker/memory/plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/memory/device_memory.h"
#include "worker/memory/pack.h"
#include "worker/memory/refuse.h"
#include "worker/model/declare.h"
#include "worker/ops/workspace.h"
#include "worker/optim/layout.h"

namespace coat {
namespace {

using coatrack::v1::JobSpec;

MemoryKind KindOf(TensorRole role) {
  switch (role) {
    case TensorRole::kMaster: return MemoryKind::kMaster;
    case TensorRole::kGradient: return MemoryKind::kGradients;
    case TensorRole::kWeightCopy: return MemoryKind::kWeights;
    case TensorRole::kSaved: return MemoryKind::kActivations;
    case TensorRole::kTransient:
    case TensorRole::kBuffer: return MemoryKind::kWorkspace;
  }
  throw Error(Code::kInternal, "memory plan: unknown role");
}

PlannedTensor Planned(const TensorDecl& decl, int64_t bytes) {
  PlannedTensor planned;
  planned.name = decl.name;
  planned.kind = KindOf(decl.role);
  planned.dtype = decl.dtype;
  planned.shape = decl.shape;
  planned.ld = decl.ld;
  planned.bytes = RoundUp(bytes, kArenaAlignment);
  return planned;
}

PlannedTensor Contiguous(std::string name, MemoryKind kind, DType dtype,
                         std::vector<int64_t> shape) {
  PlannedTensor planned;
  planned.name = std::move(name);
  planned.kind = kind;
  planned.dtype = dtype;
  planned.ld = shape.back();
  int64_t elements = 1;
  for (const int64_t dim : shape) elements *= dim;
  planned.shape = std::move(shape);
  planned.bytes = RoundUp(elements * ElementBytes(dtype), kArenaAlignment);
  return planned;
}

WorkspaceShape OperatorShape(const JobSpec& spec, const ModelShape& shape, DeviceType device) {
  WorkspaceShape out = shape.workspace();
  for (const ParameterDecl& p : DeclareParameters(shape)) {
    int64_t elements = 1;
    for (const int64_t dim : p.shape) elements *= dim;
    out.parameters += elements;
    ++out.tensors;
  }
  out.deterministic = IsDeterministic(spec, device);
  return out;
}

class Planner {
 public:
  Planner(const JobSpec& spec, DeviceType device) : spec_(spec), shape_(ResolveShape(spec)) {
    Model();
    Optimizer();
    Add(Contiguous("ops.workspace", MemoryKind::kWorkspace, DType::kU8,
                   {WorkspaceBytes(device, OperatorShape(spec, shape_, device))}));
    Place();
  }
  MemoryPlan Take() { return std::move(plan_); }

 private:
  void Add(PlannedTensor planned) {
    by_kind_[static_cast<size_t>(planned.kind)].push_back(std::move(planned));
  }
  void Model();
  void Optimizer();
  void Place();

  const JobSpec& spec_;
  const ModelShape shape_;
  std::array<std::vector<PlannedTensor>, kMemoryKinds> by_kind_;
  std::vector<PlannedTensor> transients_;  // offsets inside the pool
  MemoryPlan plan_;
};

constexpr char kPoolName[] = "transients";

void Planner::Model() {
  std::vector<PackItem> items;
  int64_t saved_bytes = 0;
  for (const TensorDecl& decl : DeclareModel(spec_)) {
    const int64_t bytes = StorageBytes(decl);
    if (decl.role == TensorRole::kTransient) {
      items.push_back({bytes, static_cast<int>(decl.first), static_cast<int>(decl.last), 0});
      transients_.push_back(Planned(decl, 0));
      continue;
    }
    Add(Planned(decl, bytes));
    if (decl.role == TensorRole::kSaved) saved_bytes += RoundUp(bytes, kArenaAlignment);
  }
  const int64_t pool = Pack(kArenaAlignment, &items);
  for (size_t i = 0; i < items.size(); ++i) transients_[i].offset = items[i].offset;
  Add(Contiguous(kPoolName, MemoryKind::kWorkspace, DType::kU8, {pool}));
  plan_.activation_bytes_per_layer = saved_bytes / shape_.layers;
}

void Planner::Optimizer() {
  for (const ParameterDecl& parameter : DeclareParameters(shape_)) {
    int64_t elements = 1;
    for (const int64_t dim : parameter.shape) elements *= dim;
    plan_.parameters += elements;
    for (StateTensorSpec& state : OptimizerStateLayout(spec_, parameter.name, parameter.shape)) {
      Add(Contiguous(std::move(state.name), MemoryKind::kOptimizer, state.dtype,
                     std::move(state.shape)));
    }
  }
  StateTensorSpec step = StepStateLayout();
  Add(Contiguous(std::move(step.name), MemoryKind::kOptimizer, step.dtype, std::move(step.shape)));
}

void Planner::Place() {
  int64_t pool_offset = 0;
  for (size_t kind = 0; kind < by_kind_.size(); ++kind) {
    for (PlannedTensor& planned : by_kind_[kind]) {
      planned.offset = plan_.total_bytes;
      if (planned.name == kPoolName) pool_offset = planned.offset;
      plan_.total_bytes += planned.bytes;
      plan_.bytes_by_kind[kind] += planned.bytes;
      plan_.tensors.push_back(std::move(planned));
    }
  }
  for (PlannedTensor& planned : transients_) {
    planned.offset += pool_offset;
    plan_.tensors.push_back(std::move(planned));
  }
}

}  // namespace

MemoryPlan MakePlan(const JobSpec& spec, int rank, int world_size, DeviceType device) {
  Check(world_size >= 1 && rank >= 0 && rank < world_size, "memory plan: no such rank");
  RefuseInvalid(spec);
  return Planner(spec, device).Take();
}

JobSpec Bf16Counterpart(const JobSpec& spec) {
  JobSpec out = spec;
  auto* precision = out.mutable_precision();
  precision->set_recipe(coatrack::v1::RECIPE_BF16);
  precision->set_optimizer_state(coatrack::v1::OPTIMIZER_STATE_FP32);
  precision->set_moment_formats(coatrack::v1::MOMENT_FORMATS_E4M3_E4M3);  // of FP8 states alone
  precision->clear_overrides();
  return out;
}

}  // namespace coat
