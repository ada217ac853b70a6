#include "worker/ops/cuda/gemm_plans.h"

#include <algorithm>
#include <vector>

#include "configs/base/error.h"

namespace coat {
namespace {

constexpr int kCandidates = 8;
constexpr int kTimedRuns = 3;

cudaDataType_t CudaType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return CUDA_R_32F;
    case DType::kBF16: return CUDA_R_16BF;
    case DType::kE4M3: return CUDA_R_8F_E4M3;
    case DType::kE5M2: return CUDA_R_8F_E5M2;
    default: throw Error(Code::kInternal, std::string("Gemm: no type ") + DTypeName(dtype));
  }
}

bool IsFp8(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

int Alignment(const void* p) {
  const auto address = reinterpret_cast<uintptr_t>(p);
  return static_cast<int>(std::min<uintptr_t>(256, address & (~address + 1)));
}

int64_t K(const GemmArgs& args) { return args.a_transposed ? args.a.rows() : args.a.cols(); }

std::string Describe(const GemmArgs& args) {
  return "cublasLtMatmul " + std::to_string(args.c.rows()) + " x " + std::to_string(args.c.cols()) +
         " x " + std::to_string(K(args)) + ", " + DTypeName(args.a.dtype) + " x " +
         DTypeName(args.b.dtype) + " -> " + DTypeName(args.c.dtype) +
         (args.accumulate ? ", accumulating" : "");
}

[[noreturn]] void Refuse(const GemmArgs& args, cublasStatus_t status) {
  throw Error(Code::kInternal, Describe(args) + ": " + cublasLtGetStatusString(status));
}

template <typename T>
void Set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what, const T& value) {
  CublasCheck(cublasLtMatmulDescSetAttribute(desc, what, &value, sizeof value), "Gemm descriptor");
}

template <typename T>
void Prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what,
            const T& value) {
  CublasCheck(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value),
              "Gemm preference");
}

}  // namespace

GemmPlans::GemmPlans(const CudaContext* context) : context_(context) {
  CublasCheck(cublasLtCreate(&handle_), "cublasLtCreate");
}

GemmPlans::~GemmPlans() {
  for (auto& [key, plan] : plans_) {
    if (plan.operation != nullptr) cublasLtMatmulDescDestroy(plan.operation);
    for (cublasLtMatrixLayout_t layout : {plan.a, plan.b, plan.c}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

GemmPlans::Key GemmPlans::MakeKey(const GemmArgs& args) {
  const int flags = (args.a_transposed ? 1 : 0) | (args.b_transposed ? 2 : 0) |
                    (args.accumulate ? 4 : 0) | (args.fast_accumulation ? 8 : 0);
  return {args.c.rows(),
          args.c.cols(),
          K(args),
          args.a.ld,
          args.b.ld,
          args.c.ld,
          static_cast<int>(args.a.dtype),
          static_cast<int>(args.b.dtype),
          static_cast<int>(args.c.dtype),
          flags,
          Alignment(args.a.data),
          Alignment(args.b.data),
          Alignment(args.c.data)};
}

// cuBLASLt is column-major: it computes c^T (n x m) with our b as its A and our a as its B.
GemmPlans::Plan GemmPlans::MakePlan(const GemmArgs& args) {
  Plan plan;
  CublasCheck(cublasLtMatmulDescCreate(&plan.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              "cublasLtMatmulDescCreate");
  Set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSA, args.b_transposed ? CUBLAS_OP_N : CUBLAS_OP_T);
  Set(plan.operation, CUBLASLT_MATMUL_DESC_TRANSB, args.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (IsFp8(args.a.dtype)) {
    const int8_t fast = args.fast_accumulation ? 1 : 0;
    Set(plan.operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, fast);
  }
  const auto layout = [](const Tensor& x, cublasLtMatrixLayout_t* out) {
    CublasCheck(cublasLtMatrixLayoutCreate(out, CudaType(x.dtype), static_cast<uint64_t>(x.cols()),
                                           static_cast<uint64_t>(x.rows()), x.ld),
                "cublasLtMatrixLayoutCreate");
  };
  layout(args.b, &plan.a);
  layout(args.a, &plan.b);
  layout(args.c, &plan.c);
  return plan;
}

cublasStatus_t GemmPlans::Launch(const GemmArgs& args, const Plan& plan,
                                 const cublasLtMatmulAlgo_t& algo, void* c) {
  if (IsFp8(args.a.dtype)) {
    Set(plan.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
        static_cast<const void*>(args.b_scale.data));
    Set(plan.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
        static_cast<const void*>(args.a_scale.data));
  }
  const float alpha = 1.0f;
  const float beta = args.accumulate ? 1.0f : 0.0f;
  return cublasLtMatmul(handle_, plan.operation, &alpha, args.b.data, plan.a, args.a.data, plan.b,
                        &beta, c, plan.c, c, plan.c, &algo, context_->workspace.data,
                        static_cast<size_t>(context_->blas_bytes), context_->stream);
}

void GemmPlans::Choose(const GemmArgs& args, Plan* plan) {
  if (IsFp8(args.a.dtype)) {  // heuristics look at the scales
    Set(plan->operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
        static_cast<const void*>(args.b_scale.data));
    Set(plan->operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
        static_cast<const void*>(args.a_scale.data));
  }
  cublasLtMatmulPreference_t preference = nullptr;
  CublasCheck(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  Prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         static_cast<uint64_t>(context_->blas_bytes));
  // Split sums are added up in FP32, never in the output's type.
  Prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  Prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
         static_cast<uint32_t>(Alignment(args.b.data)));
  Prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
         static_cast<uint32_t>(Alignment(args.a.data)));
  Prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
         static_cast<uint32_t>(Alignment(args.c.data)));
  Prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
         static_cast<uint32_t>(Alignment(args.c.data)));
  std::vector<cublasLtMatmulHeuristicResult_t> results(kCandidates);
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan->operation, plan->a, plan->b, plan->c, plan->c,
                                     preference, kCandidates, results.data(), &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) return;
  // An accumulating product must not be repeated on its target: it is timed on scratch memory.
  void* target = args.c.data;
  if (args.accumulate) target = context_->scratch;
  plan->algo = results[0].algo;
  if (args.accumulate && args.c.bytes() > context_->scratch_bytes) {
    plan->found = true;
    return;
  }
  cudaEvent_t start = nullptr, stop = nullptr;
  CudaCheck(cudaEventCreate(&start), "cudaEventCreate");
  CudaCheck(cudaEventCreate(&stop), "cudaEventCreate");
  float best_ms = 1e30f;
  cublasStatus_t launched = CUBLAS_STATUS_SUCCESS;
  for (int i = 0; i < count; ++i) {
    launched = Launch(args, *plan, results[static_cast<size_t>(i)].algo, target);
    if (launched != CUBLAS_STATUS_SUCCESS) continue;
    CudaCheck(cudaEventRecord(start, context_->stream), "cudaEventRecord");
    for (int run = 0; run < kTimedRuns; ++run) {
      CublasCheck(Launch(args, *plan, results[static_cast<size_t>(i)].algo, target), "Gemm");
    }
    CudaCheck(cudaEventRecord(stop, context_->stream), "cudaEventRecord");
    CudaCheck(cudaEventSynchronize(stop), "cudaEventSynchronize");
    float ms = 0;
    CudaCheck(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
    if (ms < best_ms) {
      plan->found = true;
      best_ms = ms;
      plan->algo = results[static_cast<size_t>(i)].algo;
    }
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  if (!plan->found) Refuse(args, launched);
}

bool GemmPlans::Run(const GemmArgs& args) {
  if (args.c.rows() == 0 || args.c.cols() == 0) return true;
  const Key key = MakeKey(args);
  auto it = plans_.find(key);
  if (it == plans_.end()) {
    Plan plan = MakePlan(args);
    Choose(args, &plan);
    it = plans_.emplace(key, plan).first;
  }
  if (!it->second.found) return false;
  const cublasStatus_t status = Launch(args, it->second, it->second.algo, args.c.data);
  if (status != CUBLAS_STATUS_SUCCESS) Refuse(args, status);
  return true;
}

}  // namespace coat
