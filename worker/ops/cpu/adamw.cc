#include "worker/ops/cpu/adamw.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "configs/base/error.h"
#include "worker/ops/cpu/moments.h"
#include "worker/ops/cpu/philox.h"
#include "worker/precision/adamw_update.h"

namespace coat {
namespace {

constexpr int64_t kGroup = kExpansionGroup;
// Partial sums belong to chunks; their number does not depend on the number of threads.
constexpr int64_t kMaxChunks = 256;

int64_t Groups(const AdamWTensor& tensor) { return (tensor.param.numel() + kGroup - 1) / kGroup; }

struct GroupRange {
  int64_t group = 0;
  int64_t first = 0;  // element
  int64_t count = 0;  // 1 to 128
};

void Load(const Tensor& x, const GroupRange& at, MomentGroup<float>* out) {
  if (at.count < kGroup) out->fill(0.0f);
  if (x.dtype == DType::kF32) {
    std::memcpy(out->data(), x.as<const float>() + at.first, sizeof(float) * at.count);
    return;
  }
  const uint16_t* in = x.as<const uint16_t>() + at.first;
  if (at.count == kGroup) {
    for (int64_t i = 0; i < kGroup; ++i) (*out)[i] = FloatFromBf16(in[i]);
  } else {
    for (int64_t i = 0; i < at.count; ++i) (*out)[i] = FloatFromBf16(in[i]);
  }
}

void Store(const MomentGroup<uint16_t>& values, const GroupRange& at, const Tensor& out) {
  std::memcpy(out.as<uint16_t>() + at.first, values.data(), sizeof(uint16_t) * at.count);
}

void Store(const MomentGroup<float>& values, const GroupRange& at, const Tensor& out) {
  std::memcpy(out.as<float>() + at.first, values.data(), sizeof(float) * at.count);
}

MomentGroup<uint16_t> NearestBf16(const MomentGroup<float>& x) {
  MomentGroup<uint16_t> out;
  for (int64_t i = 0; i < kGroup; ++i) out[i] = Bf16FromFloat(x[i]);
  return out;
}

template <typename F>
void LoadFp8Moment(const Moment& moment, MomentStorage storage, const GroupRange& at,
                   MomentGroup<float>* x) {
  alignas(64) MomentGroup<uint8_t> codes;
  if (at.count < kGroup) codes.fill(0);
  std::memcpy(codes.data(), moment.values.as<const uint8_t>() + at.first, at.count);
  const float amax = moment.amax.as<const float>()[at.group];
  if (storage == MomentStorage::kFp8Dre) {
    DecodeExpanded<F>(codes, amax, moment.k16.as<const uint16_t>()[at.group], x);
  } else {
    DecodePlain<F>(codes, amax, x);
  }
}

template <typename F>
void StoreFp8Moment(const Moment& moment, MomentStorage storage, const GroupRange& at,
                    const MomentGroup<float>& x) {
  alignas(64) MomentGroup<uint8_t> codes;
  float* amax = moment.amax.as<float>() + at.group;
  if (storage == MomentStorage::kFp8Dre) {
    EncodeExpanded<F>(x, &codes, amax, moment.k16.as<uint16_t>() + at.group);
  } else {
    EncodePlain<F>(x, &codes, amax);
    KeepNonZero(x, &codes);
  }
  std::memcpy(moment.values.as<uint8_t>() + at.first, codes.data(), at.count);
}

void LoadMoment(const Moment& moment, MomentStorage storage, const GroupRange& at,
                MomentGroup<float>* x) {
  switch (moment.values.dtype) {
    case DType::kE4M3: LoadFp8Moment<E4M3>(moment, storage, at, x); break;
    case DType::kE5M2: LoadFp8Moment<E5M2>(moment, storage, at, x); break;
    default: Load(moment.values, at, x); break;
  }
}

void StoreMoment(const Moment& moment, MomentStorage storage, const GroupRange& at,
                 const MomentGroup<float>& x) {
  switch (moment.values.dtype) {
    case DType::kE4M3: StoreFp8Moment<E4M3>(moment, storage, at, x); break;
    case DType::kE5M2: StoreFp8Moment<E5M2>(moment, storage, at, x); break;
    case DType::kBF16: Store(NearestBf16(x), at, moment.values); break;
    default: Store(x, at, moment.values); break;
  }
}

MomentGroup<uint16_t> StochasticRound(const MomentGroup<float>& x, uint64_t seed, int64_t block,
                                      uint32_t id, int32_t t) {
  constexpr int64_t kBlocks = kGroup / 4;
  alignas(64) std::array<std::array<uint32_t, kBlocks>, 4> words;
  for (int64_t b = 0; b < kBlocks; ++b) {
    const PhiloxBlock random = RoundingWords(seed, block + b, id, t);
    words[0][b] = random.word[0];
    words[1][b] = random.word[1];
    words[2][b] = random.word[2];
    words[3][b] = random.word[3];
  }
  MomentGroup<uint16_t> out;
  for (int64_t b = 0; b < kBlocks; ++b) {
    for (int64_t j = 0; j < 4; ++j) out[4 * b + j] = StochasticBf16(x[4 * b + j], words[j][b]);
  }
  return out;
}

// Pairwise, in place.
float SumGroup(MomentGroup<float>* x) {
  for (int64_t width = kGroup / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) (*x)[i] += (*x)[i + width];
  }
  return (*x)[0];
}

struct PartialSums {
  float update_sq = 0, weight_sq = 0;
};

// What a call shares: everything by value, read by all threads.
struct Update {
  AdamWCoefficients coefficients;
  MomentStorage storage = MomentStorage::kFp8Dre;
  uint64_t seed = 0;
  int32_t t = 0;

  // Returns the largest magnitude (bits) of the new weights of the group.
  uint32_t Group(const AdamWTensor& tensor, const GroupRange& at, PartialSums* sums) const;
};

uint32_t Update::Group(const AdamWTensor& tensor, const GroupRange& at, PartialSums* sums) const {
  alignas(64) MomentGroup<float> p, g, m, v, step;
  Load(tensor.param, at, &p);
  Load(tensor.grad, at, &g);
  LoadMoment(tensor.m, storage, at, &m);
  LoadMoment(tensor.v, storage, at, &v);
  const AdamWCoefficients c = coefficients;
  const float weight_decay = tensor.decay ? c.weight_decay : 0.0f;
  for (int64_t i = 0; i < kGroup; ++i) {
    step[i] = AdamWElement(c, weight_decay, p[i], g[i], &m[i], &v[i]);
    p[i] -= step[i];
  }
  StoreMoment(tensor.m, storage, at, m);
  StoreMoment(tensor.v, storage, at, v);

  if (tensor.param.dtype == DType::kBF16) {
    const int64_t block = (tensor.element_offset + at.first) / 4;
    const MomentGroup<uint16_t> rounded = StochasticRound(p, seed, block, tensor.id, t);
    Store(rounded, at, tensor.param);
    for (int64_t i = 0; i < kGroup; ++i) p[i] = FloatFromBf16(rounded[i]);
    for (int64_t i = at.count; i < kGroup; ++i) p[i] = 0.0f;
  } else {
    Store(p, at, tensor.param);
  }
  if (!tensor.copy.empty()) Store(NearestBf16(p), at, tensor.copy);

  uint32_t largest = 0;
  for (int64_t i = 0; i < kGroup; ++i) largest = std::max(largest, MagnitudeBits(p[i]));
  for (int64_t i = 0; i < kGroup; ++i) step[i] *= step[i];
  for (int64_t i = 0; i < kGroup; ++i) p[i] *= p[i];
  sums->update_sq += SumGroup(&step);
  sums->weight_sq += SumGroup(&p);
  return largest;
}

void RaiseMaximum(uint32_t* place, uint32_t value) {
  std::atomic_ref<uint32_t> maximum(*place);
  uint32_t seen = maximum.load(std::memory_order_relaxed);
  while (seen < value && !maximum.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// Groups [begin, end) of all tensors, counted through.
PartialSums RunChunk(const Update& update, std::span<const AdamWTensor> tensors, int64_t begin,
                     int64_t end) {
  PartialSums sums;
  int64_t before = 0;  // groups of earlier tensors
  for (const AdamWTensor& tensor : tensors) {
    const int64_t groups = Groups(tensor);
    const int64_t first = std::max(begin - before, int64_t{0});
    const int64_t last = std::min(end - before, groups);
    before += groups;
    if (first >= last) continue;
    uint32_t largest = 0;
    for (int64_t group = first; group < last; ++group) {
      const int64_t element = group * kGroup;
      const GroupRange at{group, element, std::min(kGroup, tensor.param.numel() - element)};
      largest = std::max(largest, update.Group(tensor, at, &sums));
    }
    if (!tensor.amax.empty()) RaiseMaximum(tensor.amax.as<uint32_t>(), largest);
  }
  return sums;
}

void CheckMoment(const Moment& moment, MomentStorage storage, const AdamWTensor& tensor) {
  const bool fp8 = storage == MomentStorage::kFp8Dre || storage == MomentStorage::kFp8;
  const DType dtype = moment.values.dtype;
  const bool dtype_fits =
      fp8 ? dtype == DType::kE4M3 || dtype == DType::kE5M2
          : dtype == (storage == MomentStorage::kBf16 ? DType::kBF16 : DType::kF32);
  Check(dtype_fits, "AdamW: a moment's element type does not fit the storage");
  Check(moment.values.numel() == tensor.param.numel() && moment.values.contiguous(),
        "AdamW: a moment has another shape than param");
  if (fp8) Check(moment.amax.numel() == Groups(tensor), "AdamW: amax must have one value a group");
  if (storage == MomentStorage::kFp8Dre) {
    Check(moment.k16.numel() == Groups(tensor), "AdamW: k16 must have one value a group");
  }
}

void CheckTensor(const AdamWTensor& tensor, MomentStorage storage) {
  const auto real = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; };
  Check(real(tensor.param.dtype) && tensor.param.contiguous(),
        "AdamW: param must be a contiguous F32 or BF16 tensor");
  Check(real(tensor.grad.dtype) && tensor.grad.contiguous() &&
            tensor.grad.numel() == tensor.param.numel(),
        "AdamW: grad must be a contiguous F32 or BF16 tensor of param's shape");
  Check(tensor.element_offset % kGroup == 0, "AdamW: element_offset must be a multiple of 128");
  Check(tensor.copy.empty() || (tensor.copy.dtype == DType::kBF16 && tensor.copy.contiguous() &&
                                tensor.copy.numel() == tensor.param.numel()),
        "AdamW: copy must be a contiguous BF16 tensor of param's shape");
  CheckMoment(tensor.m, storage, tensor);
  CheckMoment(tensor.v, storage, tensor);
}

}  // namespace

void CpuAdamW(const AdamWArgs& args, ThreadPool& pool) {
  Check(args.state.bytes() == static_cast<int64_t>(sizeof(StepState)),
        "AdamW: state must be a StepState");
  StepState& state = *args.state.as<StepState>();
  int64_t groups = 0;
  for (const AdamWTensor& tensor : args.tensors) {
    CheckTensor(tensor, args.storage);
    groups += Groups(tensor);
  }
  if (state.apply == 0) return;

  Update update;
  update.t = state.t + 1;
  update.coefficients = MakeAdamWCoefficients(args.lr, args.beta1, args.beta2, args.eps,
                                              args.weight_decay, state.clip_factor, update.t);
  update.storage = args.storage;
  update.seed = args.seed;
  for (const AdamWTensor& tensor : args.tensors) {
    if (!tensor.amax.empty()) *tensor.amax.as<float>() = 0.0f;
  }

  std::array<PartialSums, kMaxChunks> partials{};
  const int64_t grain = std::max<int64_t>(16, (groups + kMaxChunks - 1) / kMaxChunks);
  pool.ParallelFor(groups, grain, [&](int64_t begin, int64_t end) {
    partials[begin / grain] = RunChunk(update, args.tensors, begin, end);
  });

  PartialSums total;
  for (const PartialSums& partial : partials) {
    total.update_sq += partial.update_sq;
    total.weight_sq += partial.weight_sq;
  }
  state.update_sq = total.update_sq;
  state.weight_sq = total.weight_sq;
  state.t = update.t;
}

}  // namespace coat
