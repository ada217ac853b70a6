// Starting values of the weights.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/model/model.h"
#include "worker/model/parameters.h"
#include "worker/ops/ops.h"

namespace coat {

// Elements [first, first + count) of N(0, std) for stored tensor `id`: Philox words of counter
// (element / 4, id), Box-Muller in FP64. Depends on nothing else: not on the caller's chunks,
// threads, ranks or device.
void NormalValues(uint64_t seed, uint32_t id, double std, int64_t first, int64_t count, float* out);

// Fills the masters: gains 1, the others N(0, ParameterDecl::init_std).
void InitializeParameters(const std::vector<ParameterDecl>& decls,
                          const std::vector<Parameter>& parameters, uint64_t seed, Ops* ops);

}  // namespace coat
