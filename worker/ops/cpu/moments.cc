#include "worker/ops/cpu/moments.h"

#include <algorithm>

namespace coat {

MagnitudeRange FindMagnitudeRange(const MomentGroup<float>& x) {
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

template <typename F>
void EncodePlain(const MomentGroup<float>& x, MomentGroup<uint8_t>* codes, float* scale) {
  *scale = TensorScale<F>(FindMagnitudeRange(x).largest);
  const float inverse = InverseScale(*scale);
  for (int i = 0; i < kExpansionGroup; ++i) (*codes)[i] = Fp8Encode<F>(x[i] * inverse);
}

template <typename F>
void DecodePlain(const MomentGroup<uint8_t>& codes, float scale, MomentGroup<float>* x) {
  for (int i = 0; i < kExpansionGroup; ++i) (*x)[i] = Fp8Decode<F>(codes[i]) * scale;
}

void KeepNonZero(const MomentGroup<float>& x, MomentGroup<uint8_t>* codes) {
  for (int i = 0; i < kExpansionGroup; ++i) {
    const uint32_t bits = FloatBits(x[i]);
    const uint32_t code = (*codes)[i];
    const uint32_t smallest = ((bits >> 24) & 0x80u) | 1u;
    const uint32_t keep = (bits << 1) == 0 ? 0u : 0xFFu;
    (*codes)[i] = static_cast<uint8_t>(((code & 0x7Fu) == 0 ? smallest : code) & keep);
  }
}

template void EncodeExpanded<E4M3>(const MomentGroup<float>&, MomentGroup<uint8_t>*, float*,
                                   uint16_t*);
template void DecodeExpanded<E4M3>(const MomentGroup<uint8_t>&, float, uint16_t,
                                   MomentGroup<float>*);
template void EncodePlain<E4M3>(const MomentGroup<float>&, MomentGroup<uint8_t>*, float*);
template void DecodePlain<E4M3>(const MomentGroup<uint8_t>&, float, MomentGroup<float>*);
template void EncodeExpanded<E5M2>(const MomentGroup<float>&, MomentGroup<uint8_t>*, float*,
                                   uint16_t*);
template void DecodeExpanded<E5M2>(const MomentGroup<uint8_t>&, float, uint16_t,
                                   MomentGroup<float>*);
template void EncodePlain<E5M2>(const MomentGroup<float>&, MomentGroup<uint8_t>*, float*);
template void DecodePlain<E5M2>(const MomentGroup<uint8_t>&, float, MomentGroup<float>*);

}  // namespace coat
