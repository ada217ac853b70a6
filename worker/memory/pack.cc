#include "worker/memory/pack.h"

#include <algorithm>
#include <numeric>

#include "configs/base/units.h"

namespace coat {
namespace {

bool Meet(const PackItem& a, const PackItem& b) { return a.first <= b.last && b.first <= a.last; }

}  // namespace

int64_t Pack(int64_t alignment, std::vector<PackItem>* items) {
  std::vector<size_t> order(items->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return (*items)[a].bytes > (*items)[b].bytes; });
  int64_t pool = 0;
  std::vector<const PackItem*> placed;  // by offset
  for (const size_t index : order) {
    PackItem& item = (*items)[index];
    const int64_t size = RoundUp(item.bytes, alignment);
    int64_t offset = 0;
    for (const PackItem* other : placed) {
      if (!Meet(item, *other)) continue;
      if (offset + size <= other->offset) break;
      offset = std::max(offset, other->offset + RoundUp(other->bytes, alignment));
    }
    item.offset = offset;
    pool = std::max(pool, offset + size);
    const auto after = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [](int64_t value, const PackItem* other) { return value < other->offset; });
    placed.insert(after, &item);
  }
  return pool;
}

}  // namespace coat
