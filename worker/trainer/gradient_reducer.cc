#include "worker/trainer/gradient_reducer.h"

#include <algorithm>
#include <utility>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/memory/device_memory.h"

namespace coat {

std::vector<Tensor> JoinNeighbours(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> joined;
  for (const Tensor& tensor : tensors) {
    Check(tensor.contiguous(), "gradients are contiguous");
    if (!joined.empty() && joined.back().dtype == tensor.dtype) {
      Tensor& last = joined.back();
      char* const begin = last.as<char>();
      char* const end = begin + RoundUp(last.bytes(), kArenaAlignment);
      if (end == tensor.data) {
        const int64_t elements = (tensor.as<char>() - begin) / ElementBytes(last.dtype);
        last = Tensor(begin, last.dtype, {elements + tensor.numel()});
        continue;
      }
    }
    joined.emplace_back(tensor.data, tensor.dtype, std::initializer_list<int64_t>{tensor.numel()});
  }
  return joined;
}

GradientReducer::GradientReducer(const std::vector<Parameter>& parameters, Collectives* collectives,
                                 int64_t bucket_bytes)
    : collectives_(collectives), bucket_bytes_(bucket_bytes) {
  for (const Parameter& parameter : parameters) gradients_.push_back(parameter.grad);
}

void GradientReducer::Ready(int64_t first, int64_t count) {
  for (int64_t i = first; i < first + count; ++i) {
    const Tensor& gradient = gradients_.at(static_cast<size_t>(i));
    bucket_.push_back(gradient);
    waiting_bytes_ += gradient.bytes();
  }
  reported_ += count;
  if (waiting_bytes_ >= bucket_bytes_) Flush();
}

void GradientReducer::Flush() {
  std::sort(bucket_.begin(), bucket_.end(),
            [](const Tensor& a, const Tensor& b) { return a.as<char>() < b.as<char>(); });
  for (const Tensor& sum : JoinNeighbours(bucket_)) collectives_->StartAllReduceSum(sum);
  bucket_.clear();
  waiting_bytes_ = 0;
}

void GradientReducer::Finish() {
  Check(std::exchange(reported_, 0) == static_cast<int64_t>(gradients_.size()),
        "gradients of a step were not reported, or more than once");
  Flush();
  collectives_->Finish();
}

}  // namespace coat
