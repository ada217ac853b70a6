// Dynamic range expansion of optimizer moments (COAT, arXiv 2410.19313, section 4; NUMERICS 5).
//
// A group of 128 values x shares a = max |x| and k = k16 / 16. With F the largest value of the
// format and c a code read as its FP8 value:
//   decode: 0 -> 0, else x = sign(c) a (|c| / F)^(1/k)
//   encode: 1. a = 0: all codes 0, k = 1
//           2. b = min |x| over non-zero x; a = b: k = 1
//           3. k16 = clamp(floor(16 log2(F^2 / 2) / log2(a / b)), 1, 1024), in FP64
//           4. q = |x| / a (IEEE, FP32), y = F exp2(k log2 q), c = sign(x) RNE(y); a non-zero x
//              never takes code 0 but the smallest code
// x must be finite. Shared by the CPU and the CUDA backend. Every operation is an IEEE operation
// written once, without contraction, so both backends get the same k16, and the same codes where
// they use the functions of step 4 below. A backend may use other FP32 log2 and exp2 as long as
// codes differ by at most one in at most 1e-3 of the elements (NUMERICS 6).
#pragma once

#include <cstdint>

#include "worker/precision/bf16.h"
#include "worker/precision/fp8.h"
#include "worker/precision/host_device.h"

namespace coat {

inline constexpr int kExpansionGroup = 128;
inline constexpr uint16_t kExpansionOne = 16;  // k16 of k = 1

// log2 x for normal x > 0 in FP64, from IEEE operations alone (the libraries of host and device
// differ in the last bit). Relative error below 2^-50.
COAT_HOST_DEVICE constexpr double PreciseLog2(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t shifted = bits - 0x3FE6A09E667F3BCDull;  // mantissa in [sqrt(1/2), sqrt(2))
  const int64_t exponent = static_cast<int64_t>(shifted) >> 52;
  const uint64_t mantissa_bits = bits - (static_cast<uint64_t>(exponent) << 52);
  const double mantissa = __builtin_bit_cast(double, mantissa_bits);
  // log m = 2 (t + t^3/3 + t^5/5 + ...), |t| < 0.1716: the first term left out is below 2^-60.
  const double t = (mantissa - 1.0) / (mantissa + 1.0);
  const double t2 = t * t;
  double sum = 0.0;
  for (int n = 23; n >= 3; n -= 2) sum = (sum + 1.0 / n) * t2;
  const double log = 2.0 * (t + t * sum);
  return static_cast<double>(exponent) + log * 1.4426950408889634;
}

// log2 x for finite x > 0, subnormal ones included (finite, but meaningless for 0). The polynomial
// has a relative error below 1.4e-7, the sum with the exponent one more rounding.
COAT_HOST_DEVICE float FastLog2(float x) {
  constexpr uint32_t kSmallestNormal = 0x00800000u;
  const bool subnormal = FloatBits(x) < kSmallestNormal;
  const uint32_t scaled = FloatBits(x * (subnormal ? 0x1p24f : 1.0f));
  const uint32_t positive = scaled < kSmallestNormal ? kSmallestNormal : scaled;
  const int32_t exponent = static_cast<int32_t>(positive - 0x3F3504F3u) >> 23;
  const float f = BitsFloat(positive - (static_cast<uint32_t>(exponent) << 23)) - 1.0f;
  float p = 0.12583537f;
  p = p * f - 0.20726894f;
  p = p * f + 0.21571584f;
  p = p * f - 0.23894495f;
  p = p * f + 0.28791624f;
  p = p * f - 0.36070368f;
  p = p * f + 0.48091063f;
  p = p * f - 0.72134733f;
  p = p * f + 1.442695f;
  return static_cast<float>(exponent - (subnormal ? 24 : 0)) + p * f;
}

// exp2 z for -125 <= z <= 125: relative error below 1.1e-7, exact for integers.
COAT_HOST_DEVICE float FastExp2(float z) {
  const float shifted = z + 0x1.8p23f;  // its low bits are the nearest integer
  const uint32_t integer = FloatBits(shifted) << 23;
  const float r = z - (shifted - 0x1.8p23f);
  float p = 0.00015353362f;
  p = p * r + 0.0013398875f;
  p = p * r + 0.009618437f;
  p = p * r + 0.055503324f;
  p = p * r + 0.24022648f;
  p = p * r + 0.6931472f;
  p = p * r + 1.0f;
  return BitsFloat(FloatBits(p) + integer);
}

// log2(|c| / F) of the magnitudes of all codes: what decoding needs of a code. [0] is not used.
struct ExpansionTable {
  float log2_ratio[128];
};
template <typename F>
constexpr ExpansionTable MakeExpansionTable() {
  ExpansionTable table{};
  for (uint32_t code = 1; code <= F::kMaxCode; ++code) {
    const uint32_t first_normal = 1u << F::kMantissaBits;
    const int exponent = static_cast<int>(code >> F::kMantissaBits);
    const uint32_t fraction = code & (first_normal - 1);
    const uint32_t digits = exponent == 0 ? fraction : fraction + first_normal;
    const int power = (exponent == 0 ? 1 : exponent) - F::kBias - F::kMantissaBits;
    const double unit = __builtin_bit_cast(double, static_cast<uint64_t>(1023 + power) << 52);
    table.log2_ratio[code] = static_cast<float>(PreciseLog2(digits * unit / F::kMaxValue));
  }
  return table;
}
template <typename F>
inline constexpr ExpansionTable kExpansionTable = MakeExpansionTable<F>();

// Steps 1 to 3. `b` is the smallest non-zero magnitude; 0 when there is none.
template <typename F>
COAT_HOST_DEVICE uint16_t ExpansionK16(float a, float b) {
  if (a == b) return kExpansionOne;
  constexpr double kMax = F::kMaxValue;
  constexpr double kRange16 = 16.0 * PreciseLog2(kMax * kMax / 2);
  const double k16 = kRange16 / PreciseLog2(static_cast<double>(a) / static_cast<double>(b));
  if (k16 >= 1024.0) return 1024;
  return k16 < 1.0 ? uint16_t{1} : static_cast<uint16_t>(k16);
}

// Step 4 for one element; k = k16 / 16 (exact in FP32).
template <typename F>
COAT_HOST_DEVICE uint32_t ExpansionEncode(float x, float a, float k) {
  const uint32_t bits = FloatBits(x);
  const uint32_t q = FloatBits(BitsFloat(bits & 0x7FFFFFFFu) / a);  // 0: the quotient underflowed
  const float y = F::kMaxValue * FastExp2(k * FastLog2(BitsFloat(q)));
  const uint32_t code = Fp8Encode<F>(y) & (q == 0 ? 0u : 0xFFu);
  const uint32_t non_zero = (code > 1u ? code : 1u) | ((bits >> 24) & 0x80u);
  return non_zero & ((bits << 1) == 0 ? 0u : 0xFFu);
}

// `inverse_k` = 16 / k16 in FP32, `log2_ratio` the table's value of the code's magnitude.
// Valid while inverse_k * log2_ratio >= -125 (ExpansionIsWide false).
COAT_HOST_DEVICE float ExpansionDecode(uint32_t code, float log2_ratio, float a, float inverse_k) {
  const float x = a * FastExp2(log2_ratio * inverse_k);
  const uint32_t bits = FloatBits(x) | ((code & 0x80u) << 24);
  return BitsFloat(bits & ((code & 0x7Fu) == 0 ? 0u : 0xFFFFFFFFu));
}

// True where (|c|/F)^(1/k) of the smallest code leaves the normal range of FP32.
template <typename F>
COAT_HOST_DEVICE bool ExpansionIsWide(float inverse_k) {
  constexpr float kSmallest = kExpansionTable<F>.log2_ratio[1];
  return kSmallest * inverse_k < -125.0f;
}
// The same number as ExpansionDecode, rounded once from FP64, for any k16.
COAT_HOST_DEVICE float ExpansionDecodeWide(uint32_t code, float log2_ratio, float a,
                                           float inverse_k) {
  if ((code & 0x7Fu) == 0) return 0.0f;
  const float z = log2_ratio * inverse_k;
  const float shifted = z + 0x1.8p23f;
  const float whole = shifted - 0x1.8p23f;
  const double power =
      __builtin_bit_cast(double, static_cast<uint64_t>(1023 + static_cast<int64_t>(whole)) << 52);
  const double x = static_cast<double>(a) * FastExp2(z - whole) * power;
  return static_cast<float>((code & 0x80u) != 0 ? -x : x);
}

}  // namespace coat
