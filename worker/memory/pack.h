// Places of tensors that live only during part of a microbatch.
#pragma once

#include <cstdint>
#include <vector>

namespace coat {

struct PackItem {
  int64_t bytes = 0;  // > 0
  int first = 0;      // stages it lives in, both inclusive
  int last = 0;
  int64_t offset = 0;  // out, a multiple of the alignment
};

// Gives every item an offset such that items which live at the same time never overlap; returns the
// bytes of the pool, a multiple of `alignment`. Largest first, each at the lowest free place: never
// worse than giving every item a place of its own.
int64_t Pack(int64_t alignment, std::vector<PackItem>* items);

}  // namespace coat
