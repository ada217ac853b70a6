// Element-wise formulas that a forward, its recomputation and its amax must round alike: one
// inline function each, FP32, shared by host and device. fma only where written (NUMERICS 1, 3).
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/precision/bf16.h"
#include "worker/precision/host_device.h"

namespace coat {

// x = c s of a 1x16 quantized input.
COAT_HOST_DEVICE float Dequantize(float code_value, float scale) { return code_value * scale; }

// y = (x rstd) gamma; x is BF16 or Dequantize(c, s).
COAT_HOST_DEVICE float NormValue(float x, float rstd, float gamma) { return (x * rstd) * gamma; }

// e^x within 1.1 ulp (tests/worker/precision/fused_test.cc) for -86.6 <= x <= 88.72; 0 below,
// infinity above, NaN for NaN.
COAT_HOST_DEVICE float Exp(float x) {
  const float low = -86.6f;
  const float high = 88.72283f;  // e^high is the largest finite FP32 result
  const float clamped = x < low ? low : (x > high ? high : x);
  // n = round(x / ln 2) sits in the low bits of `shifted`; t = x - n ln 2, |t| <= ln(2)/2.
  const float magic = 12582912.0f;  // 1.5 2^23
  const float shifted = fmaf(clamped, 1.44269504f, magic);
  const float n = shifted - magic;
  float t = fmaf(n, -0x1.62e400p-1f, clamped);
  t = fmaf(n, -0x1.7f7d1cp-20f, t);
  float p = fmaf(0x1.6a1a70p-10f, t, 0x1.123fc6p-7f);
  p = fmaf(p, t, 0x1.555916p-5f);
  p = fmaf(p, t, 0x1.55548ap-3f);
  p = fmaf(p, t, 0x1.fffffcp-2f);
  p = fmaf(p * t, t, t) + 1.0f;
  // 2^n as 2 2^(n-1): n reaches 128.
  const float power = BitsFloat((FloatBits(shifted) + 126u) << 23);
  float e = (p * power) * 2.0f;
  e = x < low ? 0.0f : e;
  return x > high ? BitsFloat(kInfinityBits) : e;
}

COAT_HOST_DEVICE float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

// silu(gate) up.
COAT_HOST_DEVICE float SwigluValue(float gate, float up) {
  return (gate / (1.0f + Exp(-gate))) * up;
}

struct SwigluGradient {
  float gate = 0, up = 0;
};

// Derivatives of SwigluValue times dy.
COAT_HOST_DEVICE SwigluGradient SwigluBackwardValue(float gate, float up, float dy) {
  const float sigmoid = Sigmoid(gate);
  const float silu = gate * sigmoid;
  SwigluGradient out;
  out.gate = (dy * up) * fmaf(silu, 1.0f - sigmoid, sigmoid);
  out.up = dy * silu;
  return out;
}

struct RopePair {
  float first = 0, second = 0;  // elements i and i + dh/2
};

// Rotation by the angle of (cos, sin); pass -sin for the backward.
COAT_HOST_DEVICE RopePair Rotate(RopePair x, float cos, float sin) {
  RopePair out;
  out.first = fmaf(x.first, cos, -(x.second * sin));
  out.second = fmaf(x.second, cos, x.first * sin);
  return out;
}

}  // namespace coat
