#include "worker/ops/cuda/cuda_ops.h"

namespace coat {
namespace {

class EventMark final : public Mark {
 public:
  explicit EventMark(cudaStream_t stream) : stream_(stream) {
    // The host sleeps while it waits: its cores prepare the next batch or serve other ranks.
    CudaCheck(cudaEventCreateWithFlags(&event_, cudaEventBlockingSync), "cudaEventCreate");
  }
  ~EventMark() override { cudaEventDestroy(event_); }
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;

  void Set() override { CudaCheck(cudaEventRecord(event_, stream_), "Mark::Set"); }
  void Wait() override { CudaCheck(cudaEventSynchronize(event_), "Mark::Wait"); }
  double SecondsSince(const Mark& earlier) const override {
    float ms = 0;
    CudaCheck(cudaEventElapsedTime(&ms, static_cast<const EventMark&>(earlier).event_, event_),
              "Mark::SecondsSince");
    return ms * 1e-3;
  }

 private:
  const cudaStream_t stream_;
  cudaEvent_t event_ = nullptr;
};

}  // namespace

std::unique_ptr<Mark> CudaOps::CreateMark() { return std::make_unique<EventMark>(context_.stream); }

}  // namespace coat
