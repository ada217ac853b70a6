// One number that says whether weights are the same.
#pragma once

#include <string>
#include <vector>

#include "worker/model/model.h"
#include "worker/ops/ops.h"

namespace coat {

inline constexpr int64_t kHashChunkBytes = 16 << 20;

// SHA-256 (lower-case hex) over, for every parameter in order, its name, a zero byte and the
// SHA-256 (hex) of each kHashChunkBytes of its master weights, the last chunk of a parameter being
// short. The same for any number of threads and on every device. From a GPU the chunks pass through
// 2 x threads pinned buffers, copied while earlier ones are hashed. Waits for the device.
std::string WeightsHash(const std::vector<Parameter>& parameters, Ops* ops, int threads);

}  // namespace coat
