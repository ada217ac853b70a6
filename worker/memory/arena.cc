#include "worker/memory/arena.h"

#include "configs/base/error.h"
#include "worker/memory/device_memory.h"

namespace coat {
namespace {

// Hashes std::string and string_view alike, so that a look-up copies no name.
struct NameHash {
  using is_transparent = void;
  size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};

Tensor View(const PlannedTensor& planned, std::byte* base) {
  Tensor tensor;
  tensor.data = base + planned.offset;
  tensor.dtype = planned.dtype;
  tensor.rank = static_cast<int>(planned.shape.size());
  for (size_t i = 0; i < planned.shape.size(); ++i) tensor.shape[i] = planned.shape[i];
  tensor.ld = planned.ld;
  return tensor;
}

}  // namespace

struct Arena::Impl {
  std::unique_ptr<DeviceMemory> memory;
  int64_t bytes = 0;
  std::array<int64_t, kMemoryKinds> by_kind{};
  std::unordered_map<std::string, Tensor, NameHash, std::equal_to<>> tensors;
};

Arena::Arena(const MemoryPlan& plan, const std::string& device) : impl_(std::make_unique<Impl>()) {
  impl_->memory = ReserveDeviceMemory(device, plan.total_bytes);
  impl_->bytes = plan.total_bytes;
  auto* base = static_cast<std::byte*>(impl_->memory->data());
  impl_->tensors.reserve(plan.tensors.size());
  for (const PlannedTensor& planned : plan.tensors) {
    Check(planned.shape.size() <= 4, "arena: tensor " + planned.name + " has over 4 dimensions");
    Check(planned.offset % kArenaAlignment == 0 && planned.offset >= 0 &&
              planned.offset + planned.bytes <= plan.total_bytes,
          "arena: tensor " + planned.name + " lies outside the plan");
    const bool fresh = impl_->tensors.emplace(planned.name, View(planned, base)).second;
    Check(fresh, "arena: two tensors are called " + planned.name);
    impl_->by_kind[static_cast<size_t>(planned.kind)] += planned.bytes;
  }
}

Arena::~Arena() = default;

Tensor Arena::Find(std::string_view name) const {
  const auto found = impl_->tensors.find(name);
  return found == impl_->tensors.end() ? Tensor() : found->second;
}

Tensor Arena::Get(std::string_view name) const {
  const Tensor tensor = Find(name);
  Check(!tensor.empty(), "arena: the plan has no tensor called " + std::string(name));
  return tensor;
}

int64_t Arena::bytes() const { return impl_->bytes; }

std::array<int64_t, kMemoryKinds> Arena::bytes_by_kind() const { return impl_->by_kind; }

}  // namespace coat
