#include "worker/optim/moment_health.h"

#include <algorithm>
#include <vector>

#include "worker/ops/cpu/moments.h"
#include "worker/precision/bf16.h"

namespace coat {
namespace {

constexpr int64_t kSampledGroups = 16;

// Groups [first, first + count) of a tensor; the last one may be short.
struct Slice {
  int64_t first = 0, count = 0;
  int64_t begin() const { return first * kMomentGroup; }
};

template <typename T>
std::vector<T> Download(Ops* ops, const Tensor& tensor, int64_t begin, int64_t count) {
  const Tensor part(tensor.as<char>() + begin * ElementBytes(tensor.dtype), tensor.dtype, {count});
  std::vector<T> host(static_cast<size_t>(count));
  ops->ToHost(part, host.data());
  ops->Synchronize();
  return host;
}

struct Counters {
  double values = 0, nonzero = 0, saturated = 0, flushed = 0, error_sq = 0, value_sq = 0;
  float scale_min = 0, scale_max = 0;

  void Scale(float scale) {
    scale_min = scale_max == 0 ? scale : std::min(scale_min, scale);
    scale_max = std::max(scale_max, scale);
  }
  HealthCounters Result() const {
    return {static_cast<float>(values),
            static_cast<float>(nonzero),
            static_cast<float>(saturated),
            static_cast<float>(flushed),
            static_cast<float>(error_sq),
            static_cast<float>(value_sq),
            scale_min,
            scale_max};
  }
};

// The stored form of one moment of a slice, decoded group by group.
template <typename F>
class Fp8Slice {
 public:
  Fp8Slice(Ops* ops, const Moment& moment, const Slice& slice, int64_t elements)
      : codes_(Download<uint8_t>(ops, moment.values, slice.begin(), elements)),
        amax_(Download<float>(ops, moment.amax, slice.first, slice.count)) {
    if (!moment.k16.empty()) {
      k16_ = Download<uint16_t>(ops, moment.k16, slice.first, slice.count);
    }
  }

  MomentGroup<float> Decode(int64_t group) const {
    MomentGroup<uint8_t> codes{};
    const size_t begin = static_cast<size_t>(group * kMomentGroup);
    std::copy_n(codes_.begin() + static_cast<int64_t>(begin),
                std::min<size_t>(kMomentGroup, codes_.size() - begin), codes.begin());
    return DecodeCodes(codes, amax_[group], k16_.empty() ? kExpansionOne : k16_[group]);
  }

  void Compare(const MomentGroup<float>& x, int64_t elements, Counters* counters) const {
    MomentGroup<uint8_t> codes;
    float amax = 0;
    uint16_t k16 = kExpansionOne;
    if (k16_.empty()) {
      EncodePlain<F>(x, &codes, &amax);
      KeepNonZero(x, &codes);
    } else {
      EncodeExpanded<F>(x, &codes, &amax, &k16);
    }
    const MomentGroup<float> stored = DecodeCodes(codes, amax, k16);
    if (FindMagnitudeRange(x).largest > 0) counters->Scale(amax);
    for (int64_t i = 0; i < elements; ++i) {
      const uint32_t magnitude = codes[i] & 0x7Fu;
      const double error = static_cast<double>(x[i]) - stored[i];
      counters->values += 1;
      counters->nonzero += x[i] != 0;
      counters->saturated += magnitude == F::kMaxCode;
      counters->flushed += x[i] != 0 && magnitude == 0;
      counters->error_sq += error * error;
      counters->value_sq += static_cast<double>(x[i]) * x[i];
    }
  }

 private:
  MomentGroup<float> DecodeCodes(const MomentGroup<uint8_t>& codes, float amax,
                                 uint16_t k16) const {
    MomentGroup<float> x;
    if (k16_.empty()) {
      DecodePlain<F>(codes, amax, &x);
    } else {
      DecodeExpanded<F>(codes, amax, k16, &x);
    }
    return x;
  }

  std::vector<uint8_t> codes_;
  std::vector<float> amax_;
  std::vector<uint16_t> k16_;
};

std::vector<float> Gradient(Ops* ops, const Tensor& grad, int64_t begin, int64_t elements) {
  if (grad.dtype == DType::kF32) return Download<float>(ops, grad, begin, elements);
  std::vector<float> out;
  for (const uint16_t x : Download<uint16_t>(ops, grad, begin, elements)) {
    out.push_back(FloatFromBf16(x));
  }
  return out;
}

template <typename FM, typename FV>
void SampleTensor(Ops* ops, const AdamWTensor& tensor, const AdamWCoefficients& coefficients,
                  Counters* m_counters, Counters* v_counters) {
  const int64_t groups = (tensor.param.numel() + kMomentGroup - 1) / kMomentGroup;
  Slice slice;
  slice.count = std::min(groups, kSampledGroups);
  slice.first = (groups - slice.count) / 2;
  const int64_t elements =
      std::min(slice.count * kMomentGroup, tensor.param.numel() - slice.begin());
  const std::vector<float> grad = Gradient(ops, tensor.grad, slice.begin(), elements);
  const Fp8Slice<FM> m_slice(ops, tensor.m, slice, elements);
  const Fp8Slice<FV> v_slice(ops, tensor.v, slice, elements);
  for (int64_t group = 0; group < slice.count; ++group) {
    MomentGroup<float> m = m_slice.Decode(group), v = v_slice.Decode(group);
    const int64_t begin = group * kMomentGroup;
    const int64_t size = std::min(kMomentGroup, elements - begin);
    for (int64_t i = 0; i < size; ++i) {
      AdamWElement(coefficients, 0.0f, 0.0f, grad[begin + i], &m[i], &v[i]);
    }
    m_slice.Compare(m, size, m_counters);
    v_slice.Compare(v, size, v_counters);
  }
}

}  // namespace

MomentHealth SampleMomentHealth(Ops* ops, const OptimizerFormats& formats,
                                std::span<const AdamWTensor> tensors,
                                const AdamWCoefficients& coefficients) {
  if (formats.storage == MomentStorage::kBf16 || formats.storage == MomentStorage::kF32) return {};
  Counters m, v;
  for (const AdamWTensor& tensor : tensors) {
    if (formats.v == DType::kE4M3) {
      SampleTensor<E4M3, E4M3>(ops, tensor, coefficients, &m, &v);
    } else {
      SampleTensor<E4M3, E5M2>(ops, tensor, coefficients, &m, &v);
    }
  }
  return {m.Result(), v.Result()};
}

}  // namespace coat
