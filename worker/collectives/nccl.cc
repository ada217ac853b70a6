#include "worker/collectives/nccl.h"

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

void CudaOk(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Error(Code::kInternal, std::string(what) + ": " + cudaGetErrorString(status));
}

class Event {
 public:
  Event() { CudaOk(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(cudaStream_t stream) { CudaOk(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void Delay(cudaStream_t stream) const {
    CudaOk(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  void Wait() const { CudaOk(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  // Negative when this one came first.
  double SecondsSince(const Event& other) const {
    float ms = 0;
    CudaOk(cudaEventElapsedTime(&ms, other.event_, event_), "cudaEventElapsedTime");
    return ms * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclCollectives final : public Collectives {
 public:
  NcclCollectives(std::unique_ptr<Collectives> control, void* stream)
      : control_(std::move(control)), stream_(static_cast<cudaStream_t>(stream)) {
    ncclUniqueId id{};
    if (rank() == 0) Guard(ncclGetUniqueId(&id), "ncclGetUniqueId");
    control_->Broadcast(Tensor(&id, DType::kU8, {static_cast<int64_t>(sizeof id)}), 0);
    Guard(ncclCommInitRank(&comm_, world_size(), id, rank()), "ncclCommInitRank");
    // Its small kernels get in between the blocks of a long backward kernel.
    int least = 0, greatest = 0;
    CudaOk(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    CudaOk(cudaStreamCreateWithPriority(&beside_, cudaStreamNonBlocking, greatest),
           "cudaStreamCreateWithPriority");
  }
  ~NcclCollectives() override {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    if (beside_ != nullptr) cudaStreamDestroy(beside_);
  }
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  int rank() const override { return control_->rank(); }
  int world_size() const override { return control_->world_size(); }
  uint64_t sequence() const override { return own_calls_ + control_->sequence(); }

  void AllReduceSum(const Tensor& x) override {
    CheckIdle("AllReduceSum");
    if (OnHost(x)) return control_->AllReduceSum(x);
    Reduce(x, stream_);
  }

  // On a second stream, behind what the operators have queued so far.
  void StartAllReduceSum(const Tensor& x) override {
    if (OnHost(x)) return control_->StartAllReduceSum(x);
    if (started_ == sums_.size()) sums_.push_back(std::make_unique<Sum>());
    Sum& sum = *sums_[started_++];
    ready_.Record(stream_);
    ready_.Delay(beside_);
    sum.begin.Record(beside_);
    Reduce(x, beside_);
    sum.end.Record(beside_);
  }

  void Finish() override {
    control_->Finish();
    finished_ = started_;
    if (std::exchange(started_, 0) == 0) return;
    asked_.Record(stream_);
    sums_[finished_ - 1]->end.Delay(stream_);
  }

  ReduceTimes reduce_times() const override {
    ReduceTimes times = control_->reduce_times();
    if (finished_ == 0) return times;
    const Event& last = sums_[finished_ - 1]->end;
    last.Wait();
    asked_.Wait();
    for (size_t i = 0; i < finished_; ++i) {
      times.busy_seconds += sums_[i]->end.SecondsSince(sums_[i]->begin);
    }
    times.waited_seconds += std::max(0.0, last.SecondsSince(asked_));
    return times;
  }

  void Broadcast(const Tensor& x, int root) override {
    CheckIdle("Broadcast");
    if (OnHost(x)) return control_->Broadcast(x, root);
    ++own_calls_;
    if (x.bytes() == 0) return;
    Guard(ncclBroadcast(x.data, x.data, static_cast<size_t>(x.bytes()), ncclUint8, root, comm_,
                        stream_),
          "broadcast");
    CheckPeers();
  }

  // Waits for the other ranks, not for the device.
  std::vector<int64_t> AllGather(int64_t value) override {
    CheckIdle("AllGather");
    return control_->AllGather(value);
  }

  void Barrier() override {
    CheckIdle("Barrier");
    if (cudaStreamSynchronize(stream_) != cudaSuccess) {
      throw Error(Code::kCollective, "rank " + std::to_string(rank()) + ": barrier: CUDA failed");
    }
    CheckPeers();
    control_->Barrier();
  }

 private:
  struct Sum {
    Event begin, end;
  };

  void Reduce(const Tensor& x, cudaStream_t stream) {
    ++own_calls_;
    if (x.numel() == 0) return;
    Guard(ncclAllReduce(x.data, x.data, static_cast<size_t>(x.numel()), NcclType(x.dtype), ncclSum,
                        comm_, stream),
          "all-reduce");
    CheckPeers();
  }

  void CheckIdle(const char* call) const {
    Check(started_ == 0, std::string(call) + ": sums were started and not finished");
  }

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
  cudaStream_t stream_;            // of the operators
  cudaStream_t beside_ = nullptr;  // of the sums that run beside them
  ncclComm_t comm_ = nullptr;
  Event ready_, asked_;
  std::vector<std::unique_ptr<Sum>> sums_;  // used again after each Finish
  size_t started_ = 0, finished_ = 0;       // of sums_: since the last Finish, and before it
  std::atomic<uint64_t> own_calls_{0};
};

}  // namespace

std::unique_ptr<Collectives> CreateNcclCollectives(std::unique_ptr<Collectives> control,
                                                   void* stream, Alone alone) {
  if (control->world_size() == 1 && alone == Alone::kNoDetour) return control;
  return std::make_unique<NcclCollectives>(std::move(control), stream);
}

}  // namespace coat
