// Independent FP64 references and comparisons for the operator tests.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "worker/tensor/tensor.h"

namespace coat {

// A format by its definition, not by the codec under test.
struct Fp8Format {
  int mantissa_bits = 3, bias = 7;
  int max_code = 0x7E;
  double max_value = 448;
};
inline Fp8Format FormatOf(DType dtype) {
  return dtype == DType::kE4M3 ? Fp8Format{3, 7, 0x7E, 448} : Fp8Format{2, 15, 0x7B, 57344};
}

// Value of a magnitude code up to max_code.
inline double CodeMagnitude(const Fp8Format& format, int code) {
  const int exponent = code >> format.mantissa_bits;
  const int mantissa = code & ((1 << format.mantissa_bits) - 1);
  if (exponent == 0) return std::ldexp(mantissa, 1 - format.bias - format.mantissa_bits);
  return std::ldexp((1 << format.mantissa_bits) + mantissa,
                    exponent - format.bias - format.mantissa_bits);
}

// Nearest code by bisection over all values; a tie takes the even code.
inline uint8_t NearestCode(DType dtype, double y) {
  const Fp8Format format = FormatOf(dtype);
  if (!std::isfinite(y)) return 0x7F;
  const double magnitude = std::min(std::fabs(y), format.max_value);
  int low = 0, high = format.max_code;  // CodeMagnitude(low) <= magnitude
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (CodeMagnitude(format, middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - CodeMagnitude(format, low);
  const double above = CodeMagnitude(format, high) - magnitude;
  const int nearest = below < above || (below == above && low % 2 == 0) ? low : high;
  return static_cast<uint8_t>(nearest | (std::signbit(y) ? 0x80 : 0));
}

inline double CodeValue(DType dtype, uint8_t code) {
  const Fp8Format format = FormatOf(dtype);
  const int magnitude = code & 0x7F;
  double value = CodeMagnitude(format, magnitude);
  if (magnitude > format.max_code) {
    value = dtype == DType::kE5M2 && magnitude == 0x7C ? INFINITY : NAN;
  }
  return code & 0x80 ? -value : value;
}

// Nearest BF16 value, ties to even, for values inside its normal range.
inline double NearestBf16(double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, 8 - exponent)), exponent - 8);
}

// NUMERICS 1: s = max(RN(amax / F_max), 2^-126), 1 for zero.
inline float ReferenceScale(DType dtype, float amax) {
  if (amax == 0 || !std::isfinite(amax)) return 1.0f;
  const float quotient = amax / static_cast<float>(FormatOf(dtype).max_value);
  return std::max(quotient, 0x1p-126f);
}

// A 1x16 quantized row of `segments` parts, by the definition.
struct ReferenceGroups {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> values;  // dequantized
};
inline ReferenceGroups QuantizeRows(const std::vector<float>& x, int64_t rows, int64_t cols,
                                    int segments) {
  ReferenceGroups out;
  out.codes.resize(x.size());
  out.values.resize(x.size());
  const int64_t part = cols / segments;
  for (int64_t start = 0; start < rows * cols; start += part) {
    for (int64_t group = 0; group < part; group += 16) {
      const int64_t begin = start + group, end = start + std::min(group + 16, part);
      float amax = 0;
      for (int64_t i = begin; i < end; ++i) amax = std::max(amax, std::fabs(x[i]));
      const float scale = static_cast<float>(NearestBf16(ReferenceScale(DType::kE4M3, amax)));
      out.scales.push_back(scale);
      for (int64_t i = begin; i < end; ++i) {
        out.codes[i] = NearestCode(DType::kE4M3, x[i] * (1.0f / scale));
        out.values[i] = static_cast<float>(CodeValue(DType::kE4M3, out.codes[i])) * scale;
      }
    }
  }
  return out;
}

// Normal values, reproducible.
inline std::vector<float> Normal(int64_t count, double sigma, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0, sigma);
  std::vector<float> out(static_cast<size_t>(count));
  for (float& x : out) x = static_cast<float>(normal(generator));
  return out;
}

inline std::vector<float> NormalBf16(int64_t count, double sigma, uint64_t seed) {
  std::vector<float> out = Normal(count, sigma, seed);
  for (float& x : out) x = static_cast<float>(NearestBf16(x));
  return out;
}

inline std::vector<double> Widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

// (f(x + h e_i) - f(x - h e_i)) / 2h.
inline double CentralDifference(const std::function<double(const std::vector<double>&)>& f,
                                std::vector<double> x, size_t i, double h = 1e-5) {
  const double middle = x[i];
  x[i] = middle + h;
  const double above = f(x);
  x[i] = middle - h;
  return (above - f(x)) / (2 * h);
}

// error / bound; infinite for NaN, so that a maximum cannot lose it.
inline double ErrorRatio(double error, double bound) {
  if (error == 0) return 0;
  return std::isnan(error) ? INFINITY : error / bound;
}

// |got - want| <= relative |want| + absolute for every element; prints the worst one.
template <typename Got, typename Want>
void ExpectClose(const std::vector<Got>& got, const std::vector<Want>& want, double relative,
                 double absolute, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double worst = 0;
  size_t place = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double bound = relative * std::fabs(static_cast<double>(want[i])) + absolute;
    const double error = std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i]));
    const double ratio = ErrorRatio(error, bound);
    if (ratio > worst) {
      worst = ratio;
      place = i;
    }
  }
  EXPECT_LE(worst, 1.0) << what << ": worst at " << place << " of " << got.size() << ", got "
                        << (got.empty() ? 0 : got[place]) << ", want "
                        << (want.empty() ? 0 : want[place]);
}

}  // namespace coat
