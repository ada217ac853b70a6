#include "worker/collectives/nccl.h"

#include <nccl.h>

#include <atomic>

#include "configs/base/error.h"

namespace coat {
namespace {

ncclDataType_t NcclType(DType dtype) {
  switch (dtype) {
    case DType::kF32: return ncclFloat32;
    case DType::kBF16: return ncclBfloat16;
    case DType::kI32: return ncclInt32;
    case DType::kU8: return ncclUint8;
    default: throw Error(Code::kInternal, std::string("NCCL: no type ") + DTypeName(dtype));
  }
}

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(std::unique_ptr<Collectives> control, void* stream)
      : control_(std::move(control)), stream_(static_cast<cudaStream_t>(stream)) {
    ncclUniqueId id{};
    if (rank() == 0) Guard(ncclGetUniqueId(&id), "ncclGetUniqueId");
    control_->Broadcast(Tensor(&id, DType::kU8, {static_cast<int64_t>(sizeof id)}), 0);
    Guard(ncclCommInitRank(&comm_, world_size(), id, rank()), "ncclCommInitRank");
  }
  ~NcclCollectives() override {
    if (comm_ != nullptr) ncclCommAbort(comm_);
  }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  int rank() const override { return control_->rank(); }
  int world_size() const override { return control_->world_size(); }
  uint64_t sequence() const override { return own_calls_ + control_->sequence(); }

  void AllReduceSum(const Tensor& x) override {
    if (OnHost(x)) return control_->AllReduceSum(x);
    ++own_calls_;
    if (x.numel() == 0) return;
    Guard(ncclAllReduce(x.data, x.data, static_cast<size_t>(x.numel()), NcclType(x.dtype), ncclSum,
                        comm_, stream_),
          "all-reduce");
    CheckPeers();
  }

  void Broadcast(const Tensor& x, int root) override {
    if (OnHost(x)) return control_->Broadcast(x, root);
    ++own_calls_;
    if (x.bytes() == 0) return;
    Guard(ncclBroadcast(x.data, x.data, static_cast<size_t>(x.bytes()), ncclUint8, root, comm_,
                        stream_),
          "broadcast");
    CheckPeers();
  }

  std::vector<int64_t> AllGather(int64_t value) override { return control_->AllGather(value); }

  void Barrier() override {
    if (cudaStreamSynchronize(stream_) != cudaSuccess) {
      throw Error(Code::kCollective, "rank " + std::to_string(rank()) + ": barrier: CUDA failed");
    }
    CheckPeers();
    control_->Barrier();
  }

 private:
  static bool OnHost(const Tensor& x) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, x.data) != cudaSuccess) {
      (void)cudaGetLastError();
      return true;
    }
    return attributes.type == cudaMemoryTypeHost || attributes.type == cudaMemoryTypeUnregistered;
  }

  // Errors of peers arrive asynchronously.
  void CheckPeers() const {
    ncclResult_t status = ncclSuccess;
    Guard(ncclCommGetAsyncError(comm_, &status), "ncclCommGetAsyncError");
    Guard(status, "a peer");
  }

  void Guard(ncclResult_t status, const char* what) const {
    if (status == ncclSuccess || status == ncclInProgress) return;
    throw Error(Code::kCollective, "rank " + std::to_string(rank()) + ", collective call " +
                                       std::to_string(sequence()) + ": NCCL " + what + ": " +
                                       ncclGetErrorString(status));
  }

  std::unique_ptr<Collectives> control_;
  cudaStream_t stream_;
  ncclComm_t comm_ = nullptr;
  std::atomic<uint64_t> own_calls_{0};
};

}  // namespace

std::unique_ptr<Collectives> CreateNcclCollectives(std::unique_ptr<Collectives> control,
                                                   void* stream) {
  if (control->world_size() == 1) return control;
  return std::make_unique<NcclCollectives>(std::move(control), stream);
}

}  // namespace coat
