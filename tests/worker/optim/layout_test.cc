#include "worker/optim/layout.h"

#include <gtest/gtest.h>

#include <map>

#include "configs/base/error.h"

namespace coat {
namespace {

coatrack::v1::JobSpec Spec(coatrack::v1::OptimizerState state,
                           coatrack::v1::MomentFormats formats) {
  coatrack::v1::JobSpec spec;
  spec.mutable_precision()->set_optimizer_state(state);
  spec.mutable_precision()->set_moment_formats(formats);
  return spec;
}

double BytesPerParameter(const coatrack::v1::JobSpec& spec) {
  int64_t bytes = 0;
  for (const StateTensorSpec& tensor : OptimizerStateLayout(spec, "w", {1024, 512})) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.shape) elements *= dim;
    bytes += elements * ElementBytes(tensor.dtype);
  }
  return static_cast<double>(bytes) / (1024 * 512);
}

TEST(LayoutTest, BytesPerParameter) {
  using namespace coatrack::v1;  // NOLINT: enum names
  const auto formats = MOMENT_FORMATS_E4M3_E4M3;
  EXPECT_EQ(BytesPerParameter(Spec(OPTIMIZER_STATE_FP8_DRE, formats)), 2.09375);
  EXPECT_EQ(BytesPerParameter(Spec(OPTIMIZER_STATE_FP8, formats)), 2.0625);
  EXPECT_EQ(BytesPerParameter(Spec(OPTIMIZER_STATE_BF16, formats)), 4.0);
  EXPECT_EQ(BytesPerParameter(Spec(OPTIMIZER_STATE_FP32, formats)), 8.0);
}

TEST(LayoutTest, NamesTypesAndShapes) {
  const auto layout = OptimizerStateLayout(
      Spec(coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MOMENT_FORMATS_E4M3_E5M2),
      "layers.0.qkv", {3, 43});
  std::map<std::string, StateTensorSpec> by_name;
  for (const StateTensorSpec& tensor : layout) by_name[tensor.name] = tensor;
  ASSERT_EQ(by_name.size(), 6u);
  EXPECT_EQ(by_name.at("layers.0.qkv.m.values").dtype, DType::kE4M3);
  EXPECT_EQ(by_name.at("layers.0.qkv.v.values").dtype, DType::kE5M2);
  EXPECT_EQ(by_name.at("layers.0.qkv.v.values").shape, (std::vector<int64_t>{3, 43}));
  EXPECT_EQ(by_name.at("layers.0.qkv.m.amax").dtype, DType::kF32);
  EXPECT_EQ(by_name.at("layers.0.qkv.m.amax").shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(by_name.at("layers.0.qkv.v.k16").dtype, DType::kU16);
  EXPECT_EQ(by_name.at("layers.0.qkv.v.k16").shape, (std::vector<int64_t>{2}));
}

TEST(LayoutTest, StateNames) {
  using namespace coatrack::v1;  // NOLINT: enum names
  const auto name = [](OptimizerState state, MomentFormats formats) {
    return OptimizerStateName(ResolveOptimizerFormats(Spec(state, formats)));
  };
  EXPECT_EQ(name(OPTIMIZER_STATE_FP8_DRE, MOMENT_FORMATS_E4M3_E4M3), "fp8_dre e4m3/e4m3");
  EXPECT_EQ(name(OPTIMIZER_STATE_FP8, MOMENT_FORMATS_E4M3_E5M2), "fp8 e4m3/e5m2");
  EXPECT_EQ(name(OPTIMIZER_STATE_BF16, MOMENT_FORMATS_UNSPECIFIED), "bf16");
  EXPECT_EQ(name(OPTIMIZER_STATE_FP32, MOMENT_FORMATS_UNSPECIFIED), "fp32");
}

TEST(LayoutTest, UnsetFieldsAreNamed) {
  const auto message = [](const coatrack::v1::JobSpec& spec) -> std::string {
    try {
      ResolveOptimizerFormats(spec);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message({}).find("precision.optimizer_state"), std::string::npos);
  EXPECT_NE(
      message(Spec(coatrack::v1::OPTIMIZER_STATE_FP8_DRE, coatrack::v1::MOMENT_FORMATS_UNSPECIFIED))
          .find("precision.moment_formats"),
      std::string::npos);
}

}  // namespace
}  // namespace coat
