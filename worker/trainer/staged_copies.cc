#include "worker/trainer/staged_copies.h"

#include <algorithm>

#include "configs/base/error.h"
#include "configs/base/units.h"

namespace coat {
namespace {

Tensor Bytes(const void* device, int64_t offset, int64_t bytes) {
  return Tensor(static_cast<char*>(const_cast<void*>(device)) + offset, DType::kU8, {bytes});
}

}  // namespace

StagedCopies::StagedCopies(Ops* ops, int64_t piece_bytes) : ops_(ops), piece_bytes_(piece_bytes) {
  Check(piece_bytes > 0 && piece_bytes % 8 == 0, "StagedCopies: pieces of a multiple of 8 bytes");
}

StagedCopies::~StagedCopies() {
  for (const auto& mark : copied_) {
    if (mark != nullptr) mark->Wait();
  }
}

void StagedCopies::Reserve() {
  if (memory_ != nullptr) return;
  memory_ = ops_->HostBuffer(2 * piece_bytes_);
  for (auto& mark : copied_) mark = ops_->CreateMark();
}

void* StagedCopies::piece(int64_t i) const { return memory_.get() + i % 2 * piece_bytes_; }

void StagedCopies::FromDevice(const void* device, int64_t bytes, const Sink& sink) {
  if (bytes == 0) return;
  if (ops_->device() == DeviceType::kCpu) return sink(device, bytes);
  Reserve();
  const int64_t pieces = CeilDiv(bytes, piece_bytes_);
  const auto size = [&](int64_t i) { return std::min(piece_bytes_, bytes - i * piece_bytes_); };
  const auto queue = [&](int64_t i) {
    ops_->ToHost(Bytes(device, i * piece_bytes_, size(i)), piece(i));
    copied_[i % 2]->Set();
  };
  queue(0);
  for (int64_t i = 0; i < pieces; ++i) {
    if (i + 1 < pieces) queue(i + 1);
    copied_[i % 2]->Wait();
    sink(piece(i), size(i));
  }
}

void StagedCopies::ToDevice(void* device, int64_t bytes, const Source& source) {
  if (bytes == 0) return;
  if (ops_->device() == DeviceType::kCpu) return source(0, bytes, device);
  Reserve();
  for (int64_t i = 0; i * piece_bytes_ < bytes; ++i) {
    const int64_t offset = i * piece_bytes_;
    const int64_t size = std::min(piece_bytes_, bytes - offset);
    copied_[i % 2]->Wait();
    source(offset, size, piece(i));
    ops_->ToDevice(piece(i), Bytes(device, offset, size));
    copied_[i % 2]->Set();
  }
}

}  // namespace coat
