#include "worker/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <thread>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cpu/philox.h"

namespace coat {
namespace {

constexpr int64_t kChunk = 4 * kMiB;  // elements on the host at a time
constexpr int64_t kPerThread = 64 * kKiB;
// Stochastic rounding counts applied updates in the last word; no update has this number.
constexpr uint32_t kInitializationStream = 0xFFFFFFFFu;

// Four independent normal values.
void NormalBlock(uint64_t seed, uint32_t id, int64_t block, double std, float out[4]) {
  const auto index = static_cast<uint64_t>(block);
  const PhiloxBlock random =
      Philox({{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), id,
               kInitializationStream}},
             seed);
  for (int pair = 0; pair < 2; ++pair) {
    const double radius = (random.word[2 * pair] + 0.5) * 0x1p-32;
    const double turn = random.word[2 * pair + 1] * 0x1p-32;
    const double length = std * std::sqrt(-2.0 * std::log(radius));
    const double angle = 2.0 * std::numbers::pi * turn;
    out[2 * pair] = static_cast<float>(length * std::cos(angle));
    out[2 * pair + 1] = static_cast<float>(length * std::sin(angle));
  }
}

void FillParallel(uint64_t seed, uint32_t id, double std, int64_t first, int64_t count,
                  float* out) {
  const int64_t threads =
      std::clamp<int64_t>(count / kPerThread, 1, std::max(1u, std::thread::hardware_concurrency()));
  const int64_t share = RoundUp(CeilDiv(count, threads), 4);
  std::vector<std::jthread> workers;
  for (int64_t begin = share; begin < count; begin += share) {
    workers.emplace_back([=] {
      NormalValues(seed, id, std, first + begin, std::min(share, count - begin), out + begin);
    });
  }
  NormalValues(seed, id, std, first, std::min(share, count), out);
}

}  // namespace

void NormalValues(uint64_t seed, uint32_t id, double std, int64_t first, int64_t count,
                  float* out) {
  float values[4];
  int64_t current = -1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t element = first + i;
    if (element / 4 != current) {
      current = element / 4;
      NormalBlock(seed, id, current, std, values);
    }
    out[i] = values[element % 4];
  }
}

void InitializeParameters(const std::vector<ParameterDecl>& decls,
                          const std::vector<Parameter>& parameters, uint64_t seed, Ops* ops) {
  Check(decls.size() == parameters.size(), "initialize: parameters and declarations differ");
  std::vector<float> values;
  std::vector<uint16_t> rounded;
  for (size_t p = 0; p < parameters.size(); ++p) {
    const Tensor& master = parameters[p].master;
    const int64_t elements = master.numel();
    for (int64_t first = 0; first < elements; first += kChunk) {
      const int64_t count = std::min(kChunk, elements - first);
      values.assign(static_cast<size_t>(count), 1.0f);
      if (!decls[p].is_gain()) {
        FillParallel(seed, parameters[p].id, decls[p].init_std, first, count, values.data());
      }
      const void* host = values.data();
      if (master.dtype == DType::kBF16) {
        rounded.resize(values.size());
        std::transform(values.begin(), values.end(), rounded.begin(), Bf16FromFloat);
        host = rounded.data();
      }
      void* place = master.as<std::byte>() + first * ElementBytes(master.dtype);
      ops->ToDevice(host, Tensor(place, master.dtype, {count}));
      ops->Synchronize();  // the host buffer is used again
    }
  }
}

}  // namespace coat
