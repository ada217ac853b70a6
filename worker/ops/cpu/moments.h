// One group of 128 optimizer moments between its stored form and FP32 (NUMERICS 5). Elements past
// the end of a short group are zero: they change neither a, b nor k. Free of branches per element,
// so that the loops vectorize.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "worker/precision/expansion.h"

namespace coat {

template <typename T>
using MomentGroup = std::array<T, kExpansionGroup>;

// The largest and the smallest non-zero magnitude of finite values; both 0 when all are zero.
struct MagnitudeRange {
  float largest = 0, smallest = 0;
};
inline MagnitudeRange FindMagnitudeRange(const MomentGroup<float>& x) {
  uint32_t most = 0, least = 0xFFFFFFFFu;
  for (int i = 0; i < kExpansionGroup; ++i) {
    const uint32_t magnitude = MagnitudeBits(x[i]);
    most = std::max(most, magnitude);
    least = std::min(least, magnitude - 1u);  // zero wraps to the top
  }
  return {BitsFloat(most), most == 0 ? 0.0f : BitsFloat(least + 1u)};
}

template <typename F>
void EncodeExpanded(const MomentGroup<float>& x, MomentGroup<uint8_t>* codes, float* a,
                    uint16_t* k16) {
  const MagnitudeRange range = FindMagnitudeRange(x);
  *a = range.largest;
  if (range.largest == 0) {
    *k16 = kExpansionOne;
    codes->fill(0);
    return;
  }
  *k16 = ExpansionK16<F>(range.largest, range.smallest);
  const float k = static_cast<float>(*k16) * 0.0625f;
  const float largest = range.largest;
  for (int i = 0; i < kExpansionGroup; ++i) {
    (*codes)[i] = static_cast<uint8_t>(ExpansionEncode<F>(x[i], largest, k));
  }
}

template <typename F>
void DecodeExpanded(const MomentGroup<uint8_t>& codes, float a, uint16_t k16,
                    MomentGroup<float>* x) {
  const float inverse_k = 16.0f / static_cast<float>(k16);
  if (ExpansionIsWide<F>(inverse_k)) {
    for (int i = 0; i < kExpansionGroup; ++i) {
      const float ratio = kExpansionTable<F>.log2_ratio[codes[i] & 0x7Fu];
      (*x)[i] = ExpansionDecodeWide(codes[i], ratio, a, inverse_k);
    }
    return;
  }
  for (int i = 0; i < kExpansionGroup; ++i) {
    const float ratio = kExpansionTable<F>.log2_ratio[codes[i] & 0x7Fu];
    (*x)[i] = ExpansionDecode(codes[i], ratio, a, inverse_k);
  }
}

// No expansion: the quantizer of NUMERICS 1, one FP32 scale a group.
template <typename F>
void EncodePlain(const MomentGroup<float>& x, MomentGroup<uint8_t>* codes, float* scale) {
  *scale = TensorScale<F>(FindMagnitudeRange(x).largest);
  const float inverse = InverseScale(*scale);
  for (int i = 0; i < kExpansionGroup; ++i) (*codes)[i] = Fp8Encode<F>(x[i] * inverse);
}

// What the optimizer state adds to it: a non-zero value takes the smallest code instead of zero, as
// with expansion. (A v that became zero under an m that did not would divide m by eps.)
inline void KeepNonZero(const MomentGroup<float>& x, MomentGroup<uint8_t>* codes) {
  for (int i = 0; i < kExpansionGroup; ++i) {
    const uint32_t bits = FloatBits(x[i]);
    const uint32_t code = (*codes)[i];
    const uint32_t smallest = ((bits >> 24) & 0x80u) | 1u;
    const uint32_t keep = (bits << 1) == 0 ? 0u : 0xFFu;
    (*codes)[i] = static_cast<uint8_t>(((code & 0x7Fu) == 0 ? smallest : code) & keep);
  }
}

template <typename F>
void DecodePlain(const MomentGroup<uint8_t>& codes, float scale, MomentGroup<float>* x) {
  for (int i = 0; i < kExpansionGroup; ++i) (*x)[i] = Fp8Decode<F>(codes[i]) * scale;
}

}  // namespace coat
