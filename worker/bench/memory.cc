#include "worker/bench/memory.h"

#include <optional>

namespace coat {
namespace {

nlohmann::ordered_json PlanRow(const std::string& model, const std::string& recipe,
                               const MemoryPlan& plan) {
  return {{"model", model},
          {"recipe", recipe},
          {"parameters", plan.parameters},
          {"planned_bytes", plan.total_bytes},
          {"planned", BytesByKind(plan.bytes_by_kind)},
          {"activation_bytes_per_layer", plan.activation_bytes_per_layer}};
}

}  // namespace

bool RunMemory(const StepOptions& options, Report* report) {
  const DeviceType device = options.device.name == "cpu" ? DeviceType::kCpu : DeviceType::kCuda;
  bool all_equal = true;
  for (const std::string& model : options.models) {
    for (const std::string& recipe : options.recipes) {
      const coatrack::v1::JobSpec spec = StepJob(options, model, recipe);
      if (options.steps == 0) {
        report->Add(PlanRow(model, recipe, MakePlan(spec, 0, 1, device)));
        continue;
      }
      BenchEngine engine(spec, options.device,
                         RandomTokens(spec.model().vocab_size(), spec.train().sequence_length()));
      for (int64_t step = 0; step < options.steps; ++step) engine.Step();
      nlohmann::ordered_json row = PlanRow(model, recipe, engine.plan());
      const bool equal = engine.arena().bytes() == engine.plan().total_bytes &&
                         engine.arena().bytes_by_kind() == engine.plan().bytes_by_kind;
      row["arena_bytes"] = engine.arena().bytes();
      row["reserved"] = BytesByKind(engine.arena().bytes_by_kind());
      row["equal"] = equal;
      const std::optional<int64_t> used = engine.ops().device_used_bytes();
      if (used) row["device_used_bytes"] = *used;
      all_equal = all_equal && equal;
      report->Add(row);
    }
  }
  report->PrintTable({"model", "recipe", "planned.weights", "planned.master", "planned.gradients",
                      "planned.optimizer", "planned.activations", "planned.workspace",
                      "planned_bytes", "arena_bytes", "equal", "device_used_bytes"});
  return all_equal;
}

}  // namespace coat
