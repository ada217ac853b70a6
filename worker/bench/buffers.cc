#include "worker/bench/buffers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/precision/bf16.h"
#include "worker/precision/fp8.h"

namespace coat {
namespace {

constexpr char kScratch[] = "ops.workspace";
constexpr size_t kNoise = (size_t{1} << 20) + 7;  // odd, so that rows of a matrix differ

bool IsFp8(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

PlannedTensor Place(const std::string& name, int64_t bytes, MemoryPlan* plan) {
  PlannedTensor tensor;
  tensor.name = name;
  tensor.kind = MemoryKind::kWorkspace;
  tensor.dtype = DType::kU8;
  tensor.shape = {bytes};
  tensor.ld = bytes;
  tensor.offset = plan->total_bytes;
  tensor.bytes = RoundUp(std::max<int64_t>(bytes, 1), 256);
  plan->total_bytes += tensor.bytes;
  plan->bytes_by_kind[static_cast<size_t>(tensor.kind)] += tensor.bytes;
  plan->tensors.push_back(tensor);
  return tensor;
}

// One element of `dtype` for a standard normal x.
void Encode(float x, DType dtype, std::byte* out) {
  switch (dtype) {
    case DType::kF32: std::memcpy(out, &x, sizeof(x)); return;
    case DType::kBF16: {
      const uint16_t bits = Bf16FromFloat(x);
      std::memcpy(out, &bits, sizeof(bits));
      return;
    }
    case DType::kE4M3: *out = static_cast<std::byte>(Fp8Encode<E4M3>(32 * x)); return;
    case DType::kE5M2: *out = static_cast<std::byte>(Fp8Encode<E5M2>(32 * x)); return;
    default: throw Error(Code::kInternal, "bench: no noise of this element type");
  }
}

std::vector<std::byte> Noise(DType dtype) {
  const auto size = static_cast<size_t>(ElementBytes(dtype));
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<std::byte> noise(kNoise * size);
  for (size_t i = 0; i < kNoise; ++i) Encode(normal(random), dtype, noise.data() + i * size);
  return noise;
}

}  // namespace

void Buffers::Add(const std::string& name, DType dtype, int64_t rows, int64_t cols) {
  const int64_t ld = IsFp8(dtype) ? RoundUp(cols, 16) : cols;
  const int64_t stored_rows = IsFp8(dtype) ? RoundUp(rows, 16) : rows;
  PlannedTensor tensor = Place(name, stored_rows * ld * ElementBytes(dtype), &plan_);
  tensor.dtype = dtype;
  tensor.shape = {rows, cols};
  tensor.ld = ld;
  declared_[name] = tensor;
}

void Buffers::Build(const std::string& device, int64_t workspace_bytes, Ops* ops) {
  Place(kScratch, std::max<int64_t>(workspace_bytes, 256), &plan_);
  arena_ = std::make_unique<Arena>(plan_, device);
  ops->SetWorkspace(arena_->Get(kScratch));
  std::map<DType, std::vector<std::byte>> noise;
  for (const auto& [name, planned] : declared_) {
    const DType dtype = planned.dtype;
    if (dtype == DType::kI32 || dtype == DType::kU8 || dtype == DType::kU16) continue;
    if (!noise.contains(dtype)) noise[dtype] = Noise(dtype);
    const std::vector<std::byte>& values = noise[dtype];
    const Tensor tensor = Get(name);
    const auto row_bytes = static_cast<size_t>(tensor.ld * ElementBytes(dtype));
    const auto used = static_cast<size_t>(tensor.cols() * ElementBytes(dtype));
    std::vector<std::byte> host(static_cast<size_t>(tensor.bytes()));
    size_t at = 0;
    for (size_t begin = 0; begin < host.size(); begin += row_bytes) {
      for (size_t done = 0; done < used;) {
        const size_t count = std::min(used - done, values.size() - at);
        std::memcpy(host.data() + begin + done, values.data() + at, count);
        done += count;
        at = (at + count) % values.size();
      }
    }
    ops->ToDevice(host.data(), tensor);
    ops->Synchronize();
  }
}

Tensor Buffers::Get(const std::string& name) const {
  const PlannedTensor& planned = declared_.at(name);
  return Tensor(arena_->Get(name).data, planned.dtype, {planned.shape[0], planned.shape[1]},
                planned.ld);
}

Tensor Buffers::Vector(const std::string& name) const {
  const PlannedTensor& planned = declared_.at(name);
  return Tensor(arena_->Get(name).data, planned.dtype, {planned.shape[0] * planned.shape[1]});
}

}  // namespace coat
