// Where tests of a GPU run, and what becomes of them elsewhere. Link coat_test_gpu.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "configs/base/error.h"
#include "worker/ops/ops.h"

namespace coat::testing {

struct GpuDecision {
  enum Choice { kRun, kSkip, kFail };
  Choice choice = kRun;
  std::string reason;  // why not to run
};

// `node`: the machine has an NVIDIA device node; `built`: CUDA is compiled in; `error`: of creating
// the backend, empty when it works. A machine that has a GPU must not skip what needs one.
inline GpuDecision DecideGpu(bool node, bool built, const std::string& error) {
  if (error.empty()) return {GpuDecision::kRun, ""};
  if (node && built) return {GpuDecision::kFail, "this machine has a GPU, but: " + error};
  return {GpuDecision::kSkip, "NOT RUN, needs a GPU: " + error};
}

inline const GpuDecision& GpuOfThisMachine() {
  static const GpuDecision decision = [] {
    std::string error;
    try {
      CreateOps("cuda:0", 1);
    } catch (const Error& e) {
      error = e.what();
    }
    return DecideGpu(std::filesystem::exists("/dev/nvidia0"), COAT_TEST_WITH_CUDA, error);
  }();
  return decision;
}

// Looked for once. At most 4: more are not asked for.
inline int CountGpus() {
  static const int gpus = [] {
    int count = 0;
    try {
      for (; count < 4; ++count) CreateOps("cuda:" + std::to_string(count), 1);
    } catch (const Error&) {
      // the one behind the last
    }
    return count;
  }();
  return gpus;
}

// "cpu", and "cuda:0" where there is one: then a backend that does not start fails its cases.
inline std::vector<std::string> TestDevices() {
  if (GpuOfThisMachine().choice == GpuDecision::kSkip) return {"cpu"};
  return {"cpu", "cuda:0"};
}

}  // namespace coat::testing

// First line of a test, or of its SetUp, that needs a GPU.
#define COAT_NEEDS_GPU()                                          \
  do {                                                            \
    const auto& decision = ::coat::testing::GpuOfThisMachine();   \
    if (decision.choice == ::coat::testing::GpuDecision::kFail) { \
      FAIL() << decision.reason;                                  \
    }                                                             \
    if (decision.choice == ::coat::testing::GpuDecision::kSkip) { \
      GTEST_SKIP() << decision.reason;                            \
    }                                                             \
  } while (false)

// Likewise where a test needs several; how many there are is no fault of a machine.
#define COAT_NEEDS_GPUS(needed)                                                             \
  do {                                                                                      \
    COAT_NEEDS_GPU();                                                                       \
    const int found = ::coat::testing::CountGpus();                                         \
    if (found < (needed)) {                                                                 \
      GTEST_SKIP() << "NOT RUN, needs " << (needed) << " GPUs, this machine has " << found; \
    }                                                                                       \
  } while (false)
