#include "worker/bench/step.h"

#include <cmath>

#include "configs/base/error.h"
#include "configs/spec/words.h"

namespace coat {
namespace {

nlohmann::ordered_json Measure(const StepOptions& options, const std::string& model,
                               const coatrack::v1::JobSpec& spec) {
  BenchEngine engine(spec, options.device,
                     RandomTokens(spec.model().vocab_size(), spec.train().sequence_length()));
  std::vector<double> seconds;
  double first_loss = 0, last_loss = 0;
  int64_t step = 0;
  for (const BenchEngine::StepResult& result : engine.Steps(options.warmup + options.steps)) {
    CheckLoss(result.loss, step, model, EnumWord(spec.precision().recipe()));
    if (step == 0) first_loss = result.loss;
    last_loss = result.loss;
    if (step >= options.warmup) seconds.push_back(result.seconds);
    ++step;
  }
  const double median = Median(seconds);
  const auto& precision = spec.precision();
  const double tokens =
      static_cast<double>(spec.train().global_batch() * spec.train().sequence_length());
  return {{"model", model},
          {"parameters", engine.plan().parameters},
          {"recipe", EnumWord(precision.recipe())},
          {"save", EnumWord(precision.save())},
          {"batch", spec.train().global_batch()},
          {"micro_batch", spec.train().micro_batch()},
          {"sequence_length", spec.train().sequence_length()},
          {"steps", options.steps},
          {"step_ms", median * 1e3},
          {"tokens_per_second", tokens / median},
          {"tflops", TrainFlopsPerToken(spec) * tokens / median * 1e-12},
          {"bytes", BytesByKind(engine.arena().bytes_by_kind())},
          {"arena_bytes", engine.arena().bytes()},
          {"fp8_weights", EnumWord(precision.fp8_weights())},
          {"gradients", EnumWord(precision.gradients())},
          {"master", EnumWord(precision.master())},
          {"optimizer_state", engine.optimizer().StateName()},
          {"first_loss", first_loss},
          {"last_loss", last_loss}};
}

}  // namespace

coatrack::v1::JobSpec StepJob(const StepOptions& options, const std::string& model,
                              const std::string& recipe) {
  BenchShape shape = options.shape;
  shape.preset = model;
  std::vector<std::string> settings = {"precision.recipe=" + recipe};
  settings.insert(settings.end(), options.settings.begin(), options.settings.end());
  return CompleteJob(BenchTokenJob(shape, options.warmup + options.steps, settings));
}

void CheckLoss(double loss, int64_t step, const std::string& model, const std::string& recipe) {
  if (std::isfinite(loss)) return;
  throw Error(
      Code::kFailedPrecondition,
      "step " + std::to_string(step + 1) + " of " + model + ", recipe " + recipe +
          ": the loss is not finite, so the times mean nothing; lower optimizer.lr by --set");
}

void RunStep(const StepOptions& options, Report* report) {
  for (const std::string& model : options.models) {
    for (const std::string& recipe : options.recipes) {
      report->Add(Measure(options, model, StepJob(options, model, recipe)));
    }
  }
  report->PrintTable({"model", "recipe", "batch", "step_ms", "tokens_per_second", "tflops",
                      "bytes.weights", "bytes.master", "bytes.gradients", "bytes.optimizer",
                      "bytes.activations", "bytes.workspace", "arena_bytes", "optimizer_state"});
}

}  // namespace coat
