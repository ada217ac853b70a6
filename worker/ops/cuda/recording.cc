#include <utility>

#include "configs/base/error.h"
#include "worker/ops/cuda/cuda_ops.h"

namespace coat {
namespace {

[[noreturn]] void CannotRecord(const std::string& why) {
  (void)cudaGetLastError();  // a failed capture leaves its error behind
  throw Error(Code::kFailedPrecondition, "the device cannot record these operators: " + why);
}

class GraphRecording final : public Recording {
 public:
  GraphRecording(cudaGraph_t graph, cudaStream_t stream) : stream_(stream) {
    size_t nodes = 0;
    cudaError_t status = cudaGraphGetNodes(graph, nullptr, &nodes);
    if (status == cudaSuccess) status = cudaGraphInstantiate(&executable_, graph, 0);
    if (status != cudaSuccess) CannotRecord(cudaGetErrorString(status));
    operations_ = static_cast<int64_t>(nodes);
  }
  ~GraphRecording() override { cudaGraphExecDestroy(executable_); }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;

  void Replay() override { CudaCheck(cudaGraphLaunch(executable_, stream_), "Replay"); }
  int64_t operations() const override { return operations_; }

 private:
  const cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
  int64_t operations_ = 0;
};

}  // namespace

// Only calls of this thread go into the graph; other threads may use the device meanwhile.
std::unique_ptr<Recording> CudaOps::Record(std::function<void()> body) {
  CudaCheck(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeThreadLocal), "Record");
  std::string why;
  try {
    body();
  } catch (const std::exception& e) {
    why = e.what();
  }
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(context_.stream, &graph);
  if (why.empty() && status != cudaSuccess) why = cudaGetErrorString(status);
  const std::unique_ptr<std::remove_pointer_t<cudaGraph_t>, decltype(&cudaGraphDestroy)> owner(
      graph, &cudaGraphDestroy);
  if (!why.empty()) CannotRecord(why);
  return std::make_unique<GraphRecording>(graph, context_.stream);
}

}  // namespace coat
