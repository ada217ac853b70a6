// BF16 as 16 bits: conversion by round to nearest even, shared by host and device.
#pragma once

#include <cstdint>
#include <cstring>

#include "worker/precision/host_device.h"

namespace coat {

COAT_HOST_DEVICE uint32_t FloatBits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

COAT_HOST_DEVICE float BitsFloat(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// Bits of |x|. As unsigned numbers they order like magnitudes, with infinity and then NaN on top;
// amax partials are maxima of these bits (NUMERICS 1).
COAT_HOST_DEVICE uint32_t MagnitudeBits(float x) { return FloatBits(x) & 0x7FFFFFFFu; }

inline constexpr uint32_t kInfinityBits = 0x7F800000u;  // magnitudes from here on: not finite

// Every NaN becomes 0x7FFF; values from 0x1.ffp127 on become infinity.
COAT_HOST_DEVICE uint16_t Bf16FromFloat(float x) {
  const uint32_t bits = FloatBits(x);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7FFFFFFFu) > kInfinityBits ? 0x7FFFu : rounded);
}

COAT_HOST_DEVICE float FloatFromBf16(uint16_t bits) {
  return BitsFloat(static_cast<uint32_t>(bits) << 16);
}

COAT_HOST_DEVICE float RoundToBf16(float x) { return FloatFromBf16(Bf16FromFloat(x)); }

}  // namespace coat
