#include "worker/bench/moment_pairs.h"

#include <algorithm>
#include <cmath>

#include "configs/base/error.h"
#include "worker/ops/cpu/moments.h"

namespace coat {
namespace {

template <typename F>
void RoundTrip(MomentCodec codec, const MomentGroup<float>& x, MomentGroup<float>* out) {
  MomentGroup<uint8_t> codes;
  float amax = 0;
  if (codec == MomentCodec::kExpanded) {
    uint16_t k16 = 0;
    EncodeExpanded<F>(x, &codes, &amax, &k16);
    DecodeExpanded<F>(codes, amax, k16, out);
    return;
  }
  EncodePlain<F>(x, &codes, &amax);
  if (codec == MomentCodec::kPlainNonZero) KeepNonZero(x, &codes);
  DecodePlain<F>(codes, amax, out);
}

MomentGroup<float> Reconstruct(DType format, MomentCodec codec, const MomentGroup<float>& x) {
  MomentGroup<float> out;
  if (format == DType::kE4M3) {
    RoundTrip<E4M3>(codec, x, &out);
  } else {
    RoundTrip<E5M2>(codec, x, &out);
  }
  return out;
}

double UpdateOf(float m, float v) { return v == 0 ? 0.0 : m / std::sqrt(static_cast<double>(v)); }

}  // namespace

const char* MomentCodecName(MomentCodec codec) {
  switch (codec) {
    case MomentCodec::kPlain: return "plain";
    case MomentCodec::kPlainNonZero: return "plain_nonzero";
    case MomentCodec::kExpanded: return "expanded";
  }
  throw Error(Code::kInternal, "unknown moment codec");
}

double MomentPair::bytes_per_parameter() const {
  const double group_bytes = codec == MomentCodec::kExpanded ? 4 + 2 : 4;
  return 2 * (1 + group_bytes / kExpansionGroup);
}

std::vector<MomentPair> PaperPairs() {
  std::vector<MomentPair> pairs;
  for (const DType m : {DType::kE4M3, DType::kE5M2}) {
    for (const DType v : {DType::kE4M3, DType::kE5M2}) {
      for (const MomentCodec codec :
           {MomentCodec::kPlain, MomentCodec::kPlainNonZero, MomentCodec::kExpanded}) {
        pairs.push_back({m, v, codec});
      }
    }
  }
  return pairs;
}

double UpdateError::mean() const {
  return elements == 0 ? 0 : squared_error / static_cast<double>(elements);
}

double UpdateError::relative() const { return squared == 0 ? 0 : squared_error / squared; }

void AddUpdateError(const MomentPair& pair, std::span<const float> m, std::span<const float> v,
                    UpdateError* error) {
  Check(m.size() == v.size(), "update error: m and v differ in length");
  for (size_t first = 0; first < m.size(); first += kExpansionGroup) {
    const size_t count = std::min<size_t>(kExpansionGroup, m.size() - first);
    MomentGroup<float> m_group{}, v_group{};
    std::copy_n(m.begin() + static_cast<int64_t>(first), count, m_group.begin());
    std::copy_n(v.begin() + static_cast<int64_t>(first), count, v_group.begin());
    const MomentGroup<float> m_stored = Reconstruct(pair.m, pair.codec, m_group);
    const MomentGroup<float> v_stored = Reconstruct(pair.v, pair.codec, v_group);
    for (size_t i = 0; i < count; ++i) {
      const double u = UpdateOf(m_group[i], v_group[i]);
      const double difference = u - UpdateOf(m_stored[i], v_stored[i]);
      error->squared_error += difference * difference;
      error->squared += u * u;
    }
    error->elements += static_cast<int64_t>(count);
  }
}

}  // namespace coat
