#include "worker/bench/quant.h"

#include "worker/bench/moment_pairs.h"

namespace coat {
namespace {

std::vector<float> ToHost(Ops* ops, const Tensor& tensor) {
  std::vector<float> host(static_cast<size_t>(tensor.numel()));
  ops->ToHost(tensor, host.data());
  ops->Synchronize();
  return host;
}

// Adds the moments of all parameters as they are now.
void Record(BenchEngine* engine, const std::vector<MomentPair>& pairs,
            std::vector<UpdateError>* errors) {
  for (const Parameter& parameter : engine->model().parameters()) {
    const std::vector<float> m =
        ToHost(&engine->ops(), engine->arena().Get(parameter.name + ".m.values"));
    const std::vector<float> v =
        ToHost(&engine->ops(), engine->arena().Get(parameter.name + ".v.values"));
    for (size_t i = 0; i < pairs.size(); ++i) AddUpdateError(pairs[i], m, v, &(*errors)[i]);
  }
}

const char* FormatName(DType format) { return format == DType::kE4M3 ? "e4m3" : "e5m2"; }

}  // namespace

double RunQuant(const QuantOptions& options, Report* report) {
  coatrack::v1::JobSpec spec = BenchJob(options.shape, options.steps);
  for (const std::string& pattern : options.text) spec.mutable_data()->add_text(pattern);
  spec.mutable_precision()->set_optimizer_state(coatrack::v1::OPTIMIZER_STATE_FP32);
  spec = CompleteJob(spec);
  BenchEngine engine(spec, options.device, OpenDataset(spec, options.data_root, nullptr));

  const std::vector<MomentPair> pairs = PaperPairs();
  std::vector<UpdateError> errors(pairs.size());
  double loss = 0;
  for (int64_t step = 1; step <= options.steps; ++step) {
    loss = engine.Step().loss;
    if (step == options.steps / 2 || step == options.steps) Record(&engine, pairs, &errors);
  }

  double expanded_ratio = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const MomentPair& pair = pairs[i];
    const double ratio = errors[0].mean() / errors[i].mean();
    if (pair.codec == MomentCodec::kExpanded && pair.m == DType::kE4M3 && pair.v == DType::kE4M3) {
      expanded_ratio = ratio;
    }
    report->Add({{"model", options.shape.preset},
                 {"parameters", engine.plan().parameters},
                 {"steps", options.steps},
                 {"loss", loss},
                 {"m", FormatName(pair.m)},
                 {"v", FormatName(pair.v)},
                 {"codec", MomentCodecName(pair.codec)},
                 {"error", errors[i].mean()},
                 {"relative_error", errors[i].relative()},
                 {"bytes_per_parameter", pair.bytes_per_parameter()},
                 {"ratio", ratio}});
  }
  report->PrintTable(
      {"m", "v", "codec", "error", "relative_error", "bytes_per_parameter", "ratio"});
  return expanded_ratio;
}

}  // namespace coat
