// cuBLASLt plans, one per shape: the fastest of the top heuristics, timed once at first use.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <tuple>

#include "worker/ops/cuda/context.h"

namespace coat {

class GemmPlans {
 public:
  explicit GemmPlans(const CudaContext* context);
  ~GemmPlans();
  GemmPlans(const GemmPlans&) = delete;
  GemmPlans& operator=(const GemmPlans&) = delete;

  // False when cuBLASLt has no algorithm for the shape: the caller takes the plain kernel.
  bool Run(const GemmArgs& args);

 private:
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
    cublasLtMatmulAlgo_t algo{};
    bool found = false;
  };
  // m, n, k, lds, dtypes, flags, alignments of the three pointers.
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int, int, int, int,
                         int, int, int>;

  static Key MakeKey(const GemmArgs& args);
  Plan MakePlan(const GemmArgs& args);
  void Choose(const GemmArgs& args, Plan* plan);
  cublasStatus_t Launch(const GemmArgs& args, const Plan& plan, const cublasLtMatmulAlgo_t& algo,
                        void* c);

  const CudaContext* context_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

// c = a b^T by a plain tiled kernel, for any shape and type GemmArgs allows.
void SimpleGemm(const GemmArgs& args, cudaStream_t stream);

}  // namespace coat
