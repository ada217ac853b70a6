// Shapes and element types every backend demands of its arguments, checked at each call.
#pragma once

#include "worker/ops/ops.h"

namespace coat {

// Each throws Error(kInternal) naming operator, argument, what was expected and what came.
void CheckArgs(const EmbeddingArgs& args);
void CheckArgs(const EmbeddingBackwardArgs& args);
void CheckArgs(const AddNormArgs& args);
void CheckArgs(const NormApplyArgs& args);
void CheckArgs(const NormBackwardArgs& args);
void CheckArgs(const AmaxArgs& args);
void CheckArgs(const AmaxToScaleArgs& args);
void CheckArgs(const QuantizeArgs& args);
void CheckArgs(const TransposeArgs& args);
void CheckArgs(const CastArgs& args);
void CheckArgs(const GemmArgs& args);
void CheckArgs(const RopeArgs& args);
void CheckArgs(const AttentionArgs& args);
void CheckArgs(const AttentionBackwardArgs& args);
void CheckArgs(const GateUpQuantizeArgs& args);
void CheckArgs(const SwigluArgs& args);
void CheckArgs(const SwigluBackwardArgs& args);
void CheckArgs(const CrossEntropyArgs& args);
void CheckArgs(const SumArgs& args);
void CheckArgs(const MeasureArgs& args);

// Groups of 16 in a row of `cols` elements: segments * ceil(cols / segments / 16).
int64_t GroupsPerRow(int64_t cols, int segments);

}  // namespace coat
