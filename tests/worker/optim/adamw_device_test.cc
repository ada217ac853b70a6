// AdamW and GradNorm of every device against the CPU's, from the same state (NUMERICS 6).
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <numeric>

#include "tests/support/ops_fixture.h"
#include "tests/worker/optim/adamw_problem.h"

namespace coat {
namespace {

class DeviceAdamW : public OpsTest {
 protected:
  struct Mirror {  // a host vector and its copy on the device
    void* host;
    int64_t bytes;
    std::unique_ptr<DeviceMemory> memory;
  };

  Tensor ToDevice(const Tensor& host) {
    if (host.empty()) return host;
    Mirror mirror{host.data, host.bytes(), ReserveDeviceMemory(GetParam(), host.bytes())};
    Tensor view = host;
    view.data = mirror.memory->data();
    ops().ToDevice(host.data, view);
    ops().Synchronize();
    mirrors_.push_back(std::move(mirror));
    return view;
  }

  void StepOnDevice(AdamWProblem* problem) {
    AdamWTensor tensor = problem->View();
    for (Tensor* view :
         {&tensor.param, &tensor.grad, &tensor.m.values, &tensor.m.amax, &tensor.m.k16,
          &tensor.v.values, &tensor.v.amax, &tensor.v.k16, &tensor.copy, &tensor.amax}) {
      *view = ToDevice(*view);
    }
    AdamWArgs args = problem->args;
    args.tensors = std::span(&tensor, 1);
    args.state = ToDevice(Tensor(&problem->state, DType::kU8, {sizeof(StepState)}));
    ops().AdamW(args);
    for (const Mirror& mirror : mirrors_) {
      ops().ToHost(Tensor(mirror.memory->data(), DType::kU8, {mirror.bytes}), mirror.host);
    }
    ops().Synchronize();
    mirrors_.clear();
  }

  std::vector<Mirror> mirrors_;
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceAdamW, ::testing::ValuesIn(TestDevices()), DeviceCaseName);

// Codes as numbers on a line: -1 and +1 are neighbours of 0.
int Ordinal(char code) {
  const int magnitude = code & 0x7f;
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

void ExpectCodesClose(const std::vector<char>& a, const std::vector<char>& b, const char* what) {
  int64_t differ = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const int distance = std::abs(Ordinal(a[i]) - Ordinal(b[i]));
    ASSERT_LE(distance, 1) << what << " code " << i;
    differ += distance;
  }
  EXPECT_LE(static_cast<double>(differ), 1e-3 * static_cast<double>(a.size())) << what;
}

// The moments before the update may be decoded with an error of 2^-21.
void ExpectAmaxClose(const std::vector<float>& a, const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0x1p-20 * b[i]) << "group " << i;
}

TEST_P(DeviceAdamW, AgreesWithTheCpu) {
  ThreadPool pool(1);
  for (const StateOption& option : kStateOptions) {
    for (const DType param : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(std::string(option.name) + " " + DTypeName(param));
      AdamWProblem cpu(100'003, option, param);  // the last group is short
      cpu.args.lr = 1e-3f;
      cpu.args.weight_decay = 0.1f;
      cpu.args.seed = 11;
      cpu.RandomParams(1);
      for (uint64_t step = 0; step < 3; ++step) {
        cpu.RandomGrads(2 + step);
        for (int64_t i = 0; i < 300; ++i) cpu.SetGrad(i, 0);  // groups that stay zero, and mixed
        cpu.SetGrad(5000, 40.0f);                             // one extreme element
        cpu.Step(pool);
      }
      cpu.RandomGrads(9);
      cpu.state.clip_factor = 0.5f;
      AdamWProblem device = cpu;
      cpu.Step(pool);
      StepOnDevice(&device);
      EXPECT_EQ(device.state.t, cpu.state.t);
      EXPECT_EQ(device.m_k16, cpu.m_k16);
      EXPECT_EQ(device.v_k16, cpu.v_k16);
      ExpectAmaxClose(device.m_amax, cpu.m_amax);
      ExpectAmaxClose(device.v_amax, cpu.v_amax);
      if (option.m == DType::kE4M3) {
        ExpectCodesClose(device.m, cpu.m, "m");
        ExpectCodesClose(device.v, cpu.v, "v");
      }
      double worst = 0;
      for (int64_t i = 0; i < cpu.count; ++i) {
        worst = std::max(worst, std::fabs(static_cast<double>(device.Param(i)) - cpu.Param(i)));
      }
      // The step is at most lr (1 / sqrt(1 - beta2) + wd): 2^-18 of it, and one ulp of a weight,
      // which for BF16 may be rounded the other way.
      EXPECT_LE(worst, param == DType::kF32 ? 5e-3 * 0x1p-18 + 0x1p-26 : 0x1p-10);
    }
  }
}

TEST_P(DeviceAdamW, ASkippedStepKeepsEveryBit) {
  for (const StateOption& option : kStateOptions) {
    AdamWProblem problem(1000, option, DType::kF32);
    problem.RandomParams(1);
    problem.RandomGrads(2);
    problem.state.apply = 0;
    const std::string before = problem.Bytes();
    StepOnDevice(&problem);
    EXPECT_EQ(problem.Bytes(), before) << option.name;
  }
}

TEST_P(DeviceAdamW, GradNormAgreesWithFp64) {
  std::vector<float> grad = Normal(300'001, 0.01, 5);
  double squares = 0;
  for (const float x : grad) squares += static_cast<double>(x) * x;
  StepState state;
  float inverse = 0.1f;
  int32_t nonfinite = 0;
  const Tensor view = ToDevice(Tensor(grad.data(), DType::kF32, {300'001}));
  GradNormArgs args;
  args.grads = std::span(&view, 1);
  args.nonfinite = ToDevice(Tensor(&nonfinite, DType::kI32, {1}));
  args.inverse_count = ToDevice(Tensor(&inverse, DType::kF32, {1}));
  args.clip_norm = 1.0f;
  args.state = ToDevice(Tensor(&state, DType::kU8, {sizeof(StepState)}));
  ops().GradNorm(args);
  ops().ToHost(args.state, &state);
  ops().Synchronize();
  EXPECT_NEAR(state.grad_norm, std::sqrt(squares), 1e-5 * std::sqrt(squares));
  EXPECT_FLOAT_EQ(state.clip_factor, std::min(1.0f, 1.0f / (state.grad_norm + 1e-6f)));
  EXPECT_EQ(state.apply, 1);
  mirrors_.clear();
}

}  // namespace
}  // namespace coat
