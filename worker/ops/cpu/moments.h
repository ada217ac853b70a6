// One group of 128 optimizer moments between its stored form and FP32 (NUMERICS 5). F is E4M3 or
// E5M2 (fp8.h). Elements past the end of a short group are zero: they change neither a, b nor k.
// Values are finite. Functions, not inline: one copy, compiled for the kernels' instruction set.
#pragma once

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
MagnitudeRange FindMagnitudeRange(const MomentGroup<float>& x);

// Storage fp8_dre: with dynamic range expansion (expansion.h).
template <typename F>
void EncodeExpanded(const MomentGroup<float>& x, MomentGroup<uint8_t>* codes, float* a,
                    uint16_t* k16);
template <typename F>
void DecodeExpanded(const MomentGroup<uint8_t>& codes, float a, uint16_t k16,
                    MomentGroup<float>* x);

// The quantizer of NUMERICS 1, one FP32 scale a group.
template <typename F>
void EncodePlain(const MomentGroup<float>& x, MomentGroup<uint8_t>* codes, float* scale);
template <typename F>
void DecodePlain(const MomentGroup<uint8_t>& codes, float scale, MomentGroup<float>* x);

// What storage fp8 adds to EncodePlain: a non-zero value takes the smallest code instead of zero,
// as with expansion. (A v that became zero under an m that did not would divide m by eps.)
void KeepNonZero(const MomentGroup<float>& x, MomentGroup<uint8_t>* codes);

}  // namespace coat
