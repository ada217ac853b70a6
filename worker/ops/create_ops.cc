#include <chrono>
#include <string>
#include <utility>

#include "configs/base/error.h"
#include "worker/ops/cpu/cpu_ops.h"
#include "worker/ops/create_cuda.h"
#include "worker/ops/ops.h"

namespace coat {
namespace {

class ClockMark final : public Mark {
 public:
  void Set() override { time_ = std::chrono::steady_clock::now(); }
  void Wait() override {}
  double SecondsSince(const Mark& earlier) const override {
    return std::chrono::duration<double>(time_ - static_cast<const ClockMark&>(earlier).time_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

class CallAgain final : public Recording {
 public:
  explicit CallAgain(std::function<void()> body) : body_(std::move(body)) {}
  void Replay() override { body_(); }
  int64_t operations() const override { return 0; }

 private:
  std::function<void()> body_;
};

}  // namespace

std::unique_ptr<Mark> Ops::CreateMark() { return std::make_unique<ClockMark>(); }

std::unique_ptr<Recording> Ops::Record(std::function<void()> body) {
  return std::make_unique<CallAgain>(std::move(body));
}

std::shared_ptr<std::byte> Ops::HostBuffer(int64_t bytes) {
  return {new std::byte[static_cast<size_t>(bytes)], std::default_delete<std::byte[]>()};
}

std::unique_ptr<Ops> CreateOps(const std::string& device, int threads) {
  if (device == "cpu") return std::make_unique<CpuOps>(threads);
  if (device.starts_with("cuda:")) return CreateCudaOps(device, threads);
  throw Error(Code::kFailedPrecondition,
              "device \"" + device + "\" is unknown; use \"cpu\" or \"cuda:<uuid or index>\"");
}

}  // namespace coat
