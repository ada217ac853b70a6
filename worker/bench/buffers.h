// Named tensors in one arena, filled with random values: what the operators are measured on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "worker/memory/arena.h"
#include "worker/ops/ops.h"

namespace coat {

// Thread-compatible. Declare everything with Add, then Build, then Get.
class Buffers {
 public:
  // A matrix, or a vector with rows 1. FP8 matrices are padded as operands of a GEMM (ops.h).
  void Add(const std::string& name, DType dtype, int64_t rows, int64_t cols);
  // Reserves everything and `workspace_bytes` of scratch, which becomes that of `ops`; fills all
  // but I32 with normal noise (FP8: of standard deviation 32, so that all binades occur; U8, U16:
  // zero).
  void Build(const std::string& device, int64_t workspace_bytes, Ops* ops);
  Tensor Get(const std::string& name) const;     // (rows, cols)
  Tensor Vector(const std::string& name) const;  // (rows cols)

 private:
  MemoryPlan plan_;
  std::map<std::string, PlannedTensor> declared_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace coat
