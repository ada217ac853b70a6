// Sums gradients over the ranks while backward still computes others.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/collectives/collectives.h"
#include "worker/model/model.h"

namespace coat {

// Gradients wait for each other until they are so many bytes: a sum costs about as much time to
// begin as some MiB take to travel.
inline constexpr int64_t kBucketBytes = int64_t{32} << 20;

// Tensors of one type that follow each other without a gap but alignment, as one.
std::vector<Tensor> JoinNeighbours(const std::vector<Tensor>& tensors);

// In a step, each parameter is reported once, in the same order on all ranks; then Finish. The sums
// are those of Collectives::AllReduceSum of each gradient. Thread-compatible; the collectives
// outlive it.
class GradientReducer {
 public:
  GradientReducer(const std::vector<Parameter>& parameters, Collectives* collectives,
                  int64_t bucket_bytes = kBucketBytes);

  // Parameters [first, first + count) have their gradients of this step: Model::WatchGradients.
  void Ready(int64_t first, int64_t count);
  // All gradients are summed (Collectives::Finish). Error(kInternal) when one was not reported.
  void Finish();

 private:
  void Flush();

  std::vector<Tensor> gradients_;
  Collectives* collectives_;
  const int64_t bucket_bytes_;
  std::vector<Tensor> bucket_;
  int64_t waiting_bytes_ = 0;
  int64_t reported_ = 0;
};

}  // namespace coat
