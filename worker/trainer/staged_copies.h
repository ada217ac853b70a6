// Copies between a device and the host that are larger than the host should hold at once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "worker/ops/ops.h"

namespace coat {

// Two pieces of pinned host memory take turns: one is copied while the other is worked on. On the
// CPU the device's memory is handed over as it is. Thread-compatible; gone before the operators.
class StagedCopies {
 public:
  static constexpr int64_t kPieceBytes = int64_t{32} << 20;
  // Gets consecutive pieces; `data` is valid during the call.
  using Sink = std::function<void(const void* data, int64_t bytes)>;
  // Writes the bytes [offset, offset + bytes) of the whole to `out`.
  using Source = std::function<void(int64_t offset, int64_t bytes, void* out)>;

  // `piece_bytes`: a multiple of 8, so that no element is cut.
  explicit StagedCopies(Ops* ops, int64_t piece_bytes = kPieceBytes);
  ~StagedCopies();
  StagedCopies(const StagedCopies&) = delete;
  StagedCopies& operator=(const StagedCopies&) = delete;

  // In order with the operators; all is handed over on return. What `sink` throws goes through.
  void FromDevice(const void* device, int64_t bytes, const Sink& sink);
  // In order with the operators, which may be queued on return.
  void ToDevice(void* device, int64_t bytes, const Source& source);

 private:
  void Reserve();
  void* piece(int64_t i) const;

  Ops* const ops_;
  const int64_t piece_bytes_;
  std::shared_ptr<std::byte> memory_;  // two pieces, from the first use on
  std::array<std::unique_ptr<Mark>, 2> copied_;
};

}  // namespace coat
