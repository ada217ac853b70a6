// The FP8 codec and the scale rules of NUMERICS 1, shared by host and device. Free of branches, so
// that loops over it vectorize.
#pragma once

#include <cstdint>

#include "worker/precision/bf16.h"
#include "worker/precision/host_device.h"

namespace coat {

// OCP "fn": no infinity, NaN is 0x7F and 0xFF.
struct E4M3 {
  static constexpr int kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr uint32_t kMaxCode = 0x7E;
  static constexpr uint32_t kFirstNan = 0x7F;       // smallest magnitude that is NaN
  static constexpr uint32_t kInfinityCode = 0x100;  // none
  static constexpr float kMaxValue = 448.0f;
};

struct E5M2 {
  static constexpr int kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr uint32_t kMaxCode = 0x7B;
  static constexpr uint32_t kFirstNan = 0x7D;
  static constexpr uint32_t kInfinityCode = 0x7C;  // decoded, never produced
  static constexpr float kMaxValue = 57344.0f;
};

inline constexpr uint32_t kNotFiniteCode = 0x7F;  // of infinity and NaN, whatever their sign

// Nearest code of y, ties to even, saturating at F_max. Zero keeps its sign.
template <typename F>
COAT_HOST_DEVICE uint8_t Fp8Encode(float y) {
  constexpr int kShift = 23 - F::kMantissaBits;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - F::kBias) << F::kMantissaBits;
  constexpr uint32_t kMinNormalBits = static_cast<uint32_t>(128 - F::kBias) << 23;
  // 2^23 smallest subnormals: adding it rounds to a multiple of the smallest subnormal.
  constexpr uint32_t kMagicBits = static_cast<uint32_t>(127 + 24 - F::kBias - F::kMantissaBits)
                                  << 23;
  const uint32_t bits = FloatBits(y);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  const uint32_t half = (1u << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1u);
  const uint32_t normal = ((magnitude + half) >> kShift) - kRebias;
  const uint32_t subnormal = FloatBits(BitsFloat(magnitude) + BitsFloat(kMagicBits)) - kMagicBits;
  uint32_t code = magnitude < kMinNormalBits ? subnormal : normal;
  code = code > F::kMaxCode ? F::kMaxCode : code;
  code |= (bits >> 24) & 0x80u;
  return static_cast<uint8_t>(magnitude >= kInfinityBits ? kNotFiniteCode : code);
}

template <typename F>
COAT_HOST_DEVICE float Fp8Decode(uint8_t code) {
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - F::kBias) << 23;
  const uint32_t magnitude = code & 0x7Fu;
  // A subnormal code decodes to half its value plus 2^-bias, without a subnormal FP32 operand.
  const float normal = BitsFloat((magnitude << (23 - F::kMantissaBits)) + kRebias);
  const float subnormal = (normal - BitsFloat(kRebias)) * 2.0f;
  float value = magnitude < (1u << F::kMantissaBits) ? subnormal : normal;
  value = magnitude == F::kInfinityCode ? BitsFloat(kInfinityBits) : value;
  value = magnitude >= F::kFirstNan ? BitsFloat(0x7FC00000u) : value;
  return BitsFloat(FloatBits(value) | (static_cast<uint32_t>(code & 0x80u) << 24));
}

// s = max(RN(amax / F_max), 2^-126); 1 for amax 0 and for an amax that is not finite. amax >= 0.
template <typename F>
COAT_HOST_DEVICE float TensorScale(float amax) {
  const float smallest = BitsFloat(0x00800000u);
  const uint32_t bits = FloatBits(amax);
  const float quotient = amax / F::kMaxValue;
  const float scale = quotient > smallest ? quotient : smallest;
  return bits == 0 || bits >= kInfinityBits ? 1.0f : scale;
}

// BF16 bits of the scale of a 1x16 group of E4M3 codes.
COAT_HOST_DEVICE uint16_t GroupScale(float amax) { return Bf16FromFloat(TensorScale<E4M3>(amax)); }

// r = RN(1 / s): what a value is multiplied by before it is encoded.
COAT_HOST_DEVICE float InverseScale(float scale) { return 1.0f / scale; }

}  // namespace coat
