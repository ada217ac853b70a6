#include "worker/ops/cuda/cuda_ops.h"

#include <cstdio>

#include "configs/base/error.h"
#include "configs/base/units.h"

namespace coat {
namespace {

constexpr int64_t kBlasBytes = 64 * kMiB;

std::string UuidText(const cudaUUID_t& uuid) {  // GPU-8-4-4-4-12, as nvidia-smi prints it
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += digits;
  }
  return text;
}

}  // namespace

int FindCudaDevice(const std::string& device) {
  const std::string wanted = device.substr(device.find(':') + 1);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    throw Error(Code::kFailedPrecondition, "device " + device + ": no CUDA device here (" +
                                               cudaGetErrorString(status) + "); use device cpu");
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    CudaCheck(cudaGetDeviceProperties(&properties, i), "cudaGetDeviceProperties");
    if (wanted == std::to_string(i) || wanted == UuidText(properties.uuid)) return i;
  }
  throw Error(Code::kFailedPrecondition, "device " + device + " is not one of the " +
                                             std::to_string(count) + " CUDA devices here");
}

CudaOps::CudaOps(const std::string& device) {
  context_.device = FindCudaDevice(device);
  CudaCheck(cudaSetDevice(context_.device), "cudaSetDevice");
  CudaCheck(cudaDeviceGetAttribute(&context_.multiprocessors, cudaDevAttrMultiProcessorCount,
                                   context_.device),
            "cudaDeviceGetAttribute");
  CudaCheck(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking), "cudaStreamCreate");
  gemm_ = std::make_unique<GemmPlans>(&context_);
  attention_ = CreateAttentionPlans(&context_);
}

CudaOps::~CudaOps() {
  cudaStreamSynchronize(context_.stream);
  attention_.reset();
  gemm_.reset();
  cudaStreamDestroy(context_.stream);
}

void CudaOps::SetWorkspace(const Tensor& workspace) {
  const int64_t bytes = workspace.bytes();
  if (bytes < kBlasBytes + kAdamWTableBytes) {
    throw Error(Code::kInternal, "SetWorkspace: " + FormatBytes(bytes) + " is less than " +
                                     FormatBytes(kBlasBytes + kAdamWTableBytes));
  }
  context_.workspace = workspace;
  context_.blas_bytes = kBlasBytes;
  adamw_table_ = workspace.as<uint8_t>() + kBlasBytes;
  context_.scratch = adamw_table_ + kAdamWTableBytes;
  context_.scratch_bytes = bytes - kBlasBytes - kAdamWTableBytes;
  uploaded_.clear();
}

// Pointers never change between steps, so the table travels once.
const AdamWEntry* CudaOps::UploadAdamWTable(const std::vector<AdamWEntry>& table) {
  const auto bytes = static_cast<int64_t>(table.size() * sizeof(AdamWEntry));
  if (bytes > kAdamWTableBytes) {
    throw Error(Code::kInternal, "AdamW: " + std::to_string(table.size()) +
                                     " tensors do not fit the table of the workspace");
  }
  const auto* raw = reinterpret_cast<const uint8_t*>(table.data());
  std::vector<uint8_t> content(raw, raw + bytes);
  if (content != uploaded_) {
    CudaCheck(cudaMemcpyAsync(adamw_table_, content.data(), static_cast<size_t>(bytes),
                              cudaMemcpyHostToDevice, context_.stream),
              "AdamW table");
    CudaCheck(cudaStreamSynchronize(context_.stream), "AdamW table");
    uploaded_ = std::move(content);
  }
  return reinterpret_cast<const AdamWEntry*>(adamw_table_);
}

void CudaOps::Zero(const Tensor& x) {
  if (x.empty() || x.bytes() == 0) return;
  CudaCheck(cudaMemsetAsync(x.data, 0, static_cast<size_t>(x.bytes()), context_.stream), "Zero");
}

void CudaOps::Copy(const Tensor& from, const Tensor& to) {
  Check(from.bytes() == to.bytes(), "Copy: sizes differ");
  if (from.bytes() == 0) return;
  CudaCheck(cudaMemcpyAsync(to.data, from.data, static_cast<size_t>(from.bytes()),
                            cudaMemcpyDeviceToDevice, context_.stream),
            "Copy");
}

void CudaOps::ToDevice(const void* host, const Tensor& to) {
  if (to.bytes() == 0) return;
  CudaCheck(cudaMemcpyAsync(to.data, host, static_cast<size_t>(to.bytes()), cudaMemcpyHostToDevice,
                            context_.stream),
            "ToDevice");
}

void CudaOps::ToHost(const Tensor& from, void* host) {
  if (from.bytes() == 0) return;
  CudaCheck(cudaMemcpyAsync(host, from.data, static_cast<size_t>(from.bytes()),
                            cudaMemcpyDeviceToHost, context_.stream),
            "ToHost");
}

void CudaOps::Synchronize() { CudaCheck(cudaStreamSynchronize(context_.stream), "Synchronize"); }

}  // namespace coat
