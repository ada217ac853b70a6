#include "worker/optim/layout.h"

#include "configs/base/error.h"

namespace coat {
namespace {

MomentStorage Storage(coatrack::v1::OptimizerState state) {
  switch (state) {
    case coatrack::v1::OPTIMIZER_STATE_FP8_DRE: return MomentStorage::kFp8Dre;
    case coatrack::v1::OPTIMIZER_STATE_FP8: return MomentStorage::kFp8;
    case coatrack::v1::OPTIMIZER_STATE_BF16: return MomentStorage::kBf16;
    case coatrack::v1::OPTIMIZER_STATE_FP32: return MomentStorage::kF32;
    default: break;
  }
  throw Error(Code::kInvalidArgument,
              "precision.optimizer_state is not set; apply the defaults of the spec first, or "
              "write fp8_dre, fp8, bf16 or fp32");
}

DType SecondMomentFormat(coatrack::v1::MomentFormats formats) {
  switch (formats) {
    case coatrack::v1::MOMENT_FORMATS_E4M3_E4M3: return DType::kE4M3;
    case coatrack::v1::MOMENT_FORMATS_E4M3_E5M2: return DType::kE5M2;
    default: break;
  }
  throw Error(Code::kInvalidArgument,
              "precision.moment_formats is not set; apply the defaults of the spec first, or "
              "write e4m3_e4m3 or e4m3_e5m2");
}

const char* FormatName(DType format) { return format == DType::kE5M2 ? "e5m2" : "e4m3"; }

void AppendMoment(const std::string& prefix, DType format, MomentStorage storage,
                  const std::vector<int64_t>& shape, std::vector<StateTensorSpec>* out) {
  int64_t elements = 1;
  for (int64_t dim : shape) elements *= dim;
  const int64_t groups = (elements + kMomentGroup - 1) / kMomentGroup;
  out->push_back({prefix + ".values", format, shape});
  if (storage == MomentStorage::kFp8Dre || storage == MomentStorage::kFp8) {
    out->push_back({prefix + ".amax", DType::kF32, {groups}});
  }
  if (storage == MomentStorage::kFp8Dre) out->push_back({prefix + ".k16", DType::kU16, {groups}});
}

}  // namespace

OptimizerFormats ResolveOptimizerFormats(const coatrack::v1::JobSpec& spec) {
  OptimizerFormats formats;
  formats.storage = Storage(spec.precision().optimizer_state());
  switch (formats.storage) {
    case MomentStorage::kBf16: formats.m = formats.v = DType::kBF16; break;
    case MomentStorage::kF32: formats.m = formats.v = DType::kF32; break;
    case MomentStorage::kFp8Dre:
    case MomentStorage::kFp8:
      formats.m = DType::kE4M3;
      formats.v = SecondMomentFormat(spec.precision().moment_formats());
      break;
  }
  return formats;
}

std::string OptimizerStateName(const OptimizerFormats& formats) {
  if (formats.storage == MomentStorage::kBf16) return "bf16";
  if (formats.storage == MomentStorage::kF32) return "fp32";
  const std::string name = formats.storage == MomentStorage::kFp8Dre ? "fp8_dre " : "fp8 ";
  return name + FormatName(formats.m) + "/" + FormatName(formats.v);
}

std::vector<StateTensorSpec> OptimizerStateLayout(const coatrack::v1::JobSpec& spec,
                                                  std::string_view parameter,
                                                  const std::vector<int64_t>& shape) {
  const OptimizerFormats formats = ResolveOptimizerFormats(spec);
  const std::string name(parameter);
  std::vector<StateTensorSpec> out;
  AppendMoment(name + ".m", formats.m, formats.storage, shape, &out);
  AppendMoment(name + ".v", formats.v, formats.storage, shape, &out);
  return out;
}

StateTensorSpec StepStateLayout() {
  return {kStepStateName, DType::kU8, {static_cast<int64_t>(sizeof(StepState))}};
}

}  // namespace coat
