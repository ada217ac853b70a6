// The AdamW update of one element (NUMERICS 5), shared by host and device: FP32, IEEE operations in
// the order written, so that both backends give the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "worker/precision/host_device.h"

namespace coat {

struct AdamWCoefficients {
  float grad_factor = 1;  // clip factor
  float beta1 = 0, one_minus_beta1 = 0;
  float beta2 = 0, one_minus_beta2 = 0;
  float correction1 = 1, correction2 = 1;  // 1 / (1 - beta^t)
  float lr = 0, eps = 0, weight_decay = 0;
};

// 1 / (1 - beta^t) for t >= 1: FP64 by repeated squaring (pow differs between libraries).
COAT_HOST_DEVICE float BiasCorrection(float beta, int32_t t) {
  double power = 1.0;
  double square = beta;
  for (uint32_t rest = static_cast<uint32_t>(t); rest != 0; rest >>= 1) {
    if ((rest & 1u) != 0) power *= square;
    square *= square;
  }
  return static_cast<float>(1.0 / (1.0 - power));
}

// Of the t-th applied update, t >= 1.
COAT_HOST_DEVICE AdamWCoefficients MakeAdamWCoefficients(float lr, float beta1, float beta2,
                                                         float eps, float weight_decay,
                                                         float grad_factor, int32_t t) {
  AdamWCoefficients c;
  c.grad_factor = grad_factor;
  c.beta1 = beta1;
  c.one_minus_beta1 = 1.0f - beta1;
  c.beta2 = beta2;
  c.one_minus_beta2 = 1.0f - beta2;
  c.correction1 = BiasCorrection(beta1, t);
  c.correction2 = BiasCorrection(beta2, t);
  c.lr = lr;
  c.eps = eps;
  c.weight_decay = weight_decay;
  return c;
}

// m, v: inout. Returns the step d, to be subtracted from p: lr (mhat / (sqrt(vhat) + eps) + wd p);
// `weight_decay` is 0 for tensors that are not decayed.
COAT_HOST_DEVICE float AdamWElement(const AdamWCoefficients& c, float weight_decay, float p,
                                    float g, float* m, float* v) {
  const float scaled = g * c.grad_factor;
  *m = c.beta1 * *m + c.one_minus_beta1 * scaled;
  *v = c.beta2 * *v + c.one_minus_beta2 * (scaled * scaled);
  const float ratio = (*m * c.correction1) / (sqrtf(*v * c.correction2) + c.eps);
  return c.lr * (ratio + weight_decay * p);
}

}  // namespace coat
