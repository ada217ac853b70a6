#include <cstring>
#include <string>

#include "configs/base/error.h"
#include "worker/ops/cpu/cpu_ops.h"

namespace coat {

void CpuOps::Zero(const Tensor& x) { std::memset(x.data, 0, static_cast<size_t>(x.bytes())); }

void CpuOps::Copy(const Tensor& from, const Tensor& to) {
  Check(from.bytes() == to.bytes(), "Copy: from has " + std::to_string(from.bytes()) +
                                        " bytes, to has " + std::to_string(to.bytes()));
  std::memmove(to.data, from.data, static_cast<size_t>(to.bytes()));
}

void CpuOps::ToDevice(const void* host, const Tensor& to) {
  std::memcpy(to.data, host, static_cast<size_t>(to.bytes()));
}

void CpuOps::ToHost(const Tensor& from, void* host) {
  std::memcpy(host, from.data, static_cast<size_t>(from.bytes()));
}

void CpuOps::Synchronize() {}

}  // namespace coat
