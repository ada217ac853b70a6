#include <algorithm>
#include <numeric>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/format.h"

namespace coat {
namespace {

int64_t Bytes(const HostTensor& tensor) { return tensor.count * ElementBytes(tensor.dtype); }

HostTensor Slice(const HostTensor& tensor, int64_t first, int64_t count) {
  HostTensor slice = tensor;
  slice.first = tensor.first + first;
  slice.count = count;
  if (tensor.data != nullptr) {
    slice.data = static_cast<const char*>(tensor.data) + first * ElementBytes(tensor.dtype);
  }
  return slice;
}

// Every tensor in pieces of at most `most_bytes`, cut at multiples of kSliceMultiple.
std::vector<HostTensor> CutLarge(const std::vector<HostTensor>& tensors, int64_t most_bytes) {
  std::vector<HostTensor> pieces;
  for (const HostTensor& tensor : tensors) {
    if (Bytes(tensor) <= most_bytes) {
      pieces.push_back(tensor);
      continue;
    }
    int64_t most = std::max<int64_t>(most_bytes / ElementBytes(tensor.dtype), 1);
    int64_t count = CeilDiv(tensor.count, CeilDiv(tensor.count, most));
    count = RoundUp(count, kSliceMultiple);
    for (int64_t first = 0; first < tensor.count; first += count) {
      pieces.push_back(Slice(tensor, first, std::min(count, tensor.count - first)));
    }
  }
  return pieces;
}

}  // namespace

std::vector<HostTensor> AssignToRank(const std::vector<HostTensor>& tensors, int rank,
                                     int world_size) {
  Check(world_size > 0 && rank >= 0 && rank < world_size, "rank outside the world size");
  int64_t total = 0;
  for (const HostTensor& tensor : tensors) total += Bytes(tensor);
  std::vector<HostTensor> pieces = CutLarge(tensors, CeilDiv(total, world_size));

  // Largest first, each to the rank with the least so far.
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return Bytes(pieces[a]) > Bytes(pieces[b]); });
  std::vector<int64_t> load(static_cast<size_t>(world_size), 0);
  std::vector<HostTensor> mine;
  for (size_t piece : order) {
    auto least = std::min_element(load.begin(), load.end());
    *least += Bytes(pieces[piece]);
    if (least - load.begin() == rank) mine.push_back(pieces[piece]);
  }
  return mine;
}

}  // namespace coat
