// What the row kernels of the norms share.
#pragma once

#include <algorithm>

#include "worker/ops/cuda/device.cuh"

namespace coat {

// Groups of 16 a row has, threads of a block and groups a thread holds in registers.
struct RowShape {
  int64_t cols = 0;
  int groups = 0;
  int threads = 0;
  int per_thread = 0;  // 1, 2 or 4
  bool whole = false;  // made of whole groups
};

// Registers of a thread, so that the largest block of that many groups a thread has enough: 1024
// threads with four groups, 512 otherwise. 96: five of the usual blocks of 128 on a multiprocessor.
constexpr int MaxRowRegisters(int per_thread) {
  return per_thread == 1 ? 96 : (per_thread == 2 ? 128 : 64);
}

inline RowShape MakeRowShape(int64_t cols) {
  RowShape shape;
  shape.cols = cols;
  shape.groups = static_cast<int>((cols + kGroup - 1) / kGroup);
  shape.per_thread = shape.groups <= 512 ? 1 : (shape.groups <= 1024 ? 2 : 4);
  const int threads = (shape.groups + shape.per_thread - 1) / shape.per_thread;
  shape.threads = std::min(1024, (threads + 31) / 32 * 32);
  shape.whole = cols % kGroup == 0;
  return shape;
}

// Calls launch.operator()<per_thread, whole>().
template <typename Launch>
void ForRowShape(const RowShape& shape, const Launch& launch) {
  const auto with_whole = [&]<int kPerThread>() {
    if (shape.whole) {
      launch.template operator()<kPerThread, true>();
    } else {
      launch.template operator()<kPerThread, false>();
    }
  };
  switch (shape.per_thread) {
    case 1: return with_whole.template operator()<1>();
    case 2: return with_whole.template operator()<2>();
    default: return with_whole.template operator()<4>();
  }
}

}  // namespace coat
