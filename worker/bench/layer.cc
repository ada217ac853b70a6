#include "worker/bench/layer.h"

#include <memory>
#include <utility>

#include "worker/bench/timed_ops.h"

namespace coat {
namespace {

std::unique_ptr<Dataset> TokensOf(const coatrack::v1::JobSpec& spec) {
  return RandomTokens(spec.model().vocab_size(), spec.train().sequence_length());
}

double UntimedMs(const StepOptions& options, const coatrack::v1::JobSpec& spec) {
  BenchEngine engine(spec, options.device, TokensOf(spec));
  std::vector<double> ms;
  for (int64_t step = 0; step < options.warmup + options.steps; ++step) {
    const double seconds = engine.Step().seconds;
    if (step >= options.warmup) ms.push_back(seconds * 1e3);
  }
  return Median(ms);
}

std::vector<OperatorTime> TimeOperators(const StepOptions& options,
                                        const coatrack::v1::JobSpec& spec) {
  TimedOps* timed = nullptr;
  const int64_t tokens = spec.train().micro_batch() * spec.train().sequence_length();
  BenchEngine engine(spec, options.device, TokensOf(spec), [&](std::unique_ptr<Ops> inner) {
    auto wrapped = std::make_unique<TimedOps>(std::move(inner), tokens);
    timed = wrapped.get();
    return wrapped;
  });
  for (int64_t step = 0; step < options.warmup; ++step) engine.Step();
  timed->Reset();
  for (int64_t step = 0; step < options.steps; ++step) engine.Step();
  return timed->Times();
}

}  // namespace

void RunLayer(const StepOptions& options, Report* report) {
  for (const std::string& model : options.models) {
    for (const std::string& recipe : options.recipes) {
      const coatrack::v1::JobSpec spec = StepJob(options, model, recipe);
      const double step_ms = UntimedMs(options, spec);
      const std::vector<OperatorTime> times = TimeOperators(options, spec);
      double sum = 0;
      for (const OperatorTime& time : times) sum += time.seconds;
      const auto steps = static_cast<double>(options.steps);
      for (const OperatorTime& time : times) {
        report->Add({{"model", model},
                     {"recipe", recipe},
                     {"operator", time.name},
                     {"calls", static_cast<double>(time.calls) / steps},
                     {"ms", time.seconds / steps * 1e3},
                     {"share", time.seconds / sum}});
      }
      report->Add({{"model", model},
                   {"recipe", recipe},
                   {"operator", "step"},
                   {"step_ms", step_ms},
                   {"operators_ms", sum / steps * 1e3}});
    }
  }
  report->PrintTable(
      {"model", "recipe", "operator", "calls", "ms", "share", "step_ms", "operators_ms"});
}

}  // namespace coat
