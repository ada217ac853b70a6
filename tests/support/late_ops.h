// A device that is as late as it may be.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "worker/ops/cpu/cpu_ops.h"

namespace coat {

// What is copied is there only when the host has waited for it: bytes for the host are those of the
// call, bytes for the device those that the host has put there by then. Each mark is a second
// behind the one before. Operators run at once.
class LateOps final : public CpuOps {
 public:
  LateOps() : CpuOps(1) {}

  DeviceType device() const override { return DeviceType::kCuda; }
  void ToHost(const Tensor& from, void* host) override {
    const char* bytes = from.as<char>();
    copies_.push_back({std::vector<char>(bytes, bytes + from.bytes()), nullptr, host});
  }
  void ToDevice(const void* host, const Tensor& to) override {
    copies_.push_back({std::vector<char>(static_cast<size_t>(to.bytes())), host, to.data});
  }
  void Synchronize() override { Deliver(copies_.size()); }
  std::unique_ptr<Mark> CreateMark() override { return std::make_unique<LateMark>(this); }

 private:
  struct Copy {
    std::vector<char> bytes;
    const void* from;  // null: `bytes`
    void* to;
  };
  class LateMark final : public Mark {
   public:
    explicit LateMark(LateOps* ops) : ops_(ops) {}
    void Set() override {
      behind_ = ops_->copies_.size();
      seconds_ = ++ops_->seconds_;
    }
    void Wait() override { ops_->Deliver(behind_); }
    double SecondsSince(const Mark& earlier) const override {
      return seconds_ - static_cast<const LateMark&>(earlier).seconds_;
    }

   private:
    LateOps* ops_;
    size_t behind_ = 0;
    double seconds_ = 0;
  };

  void Deliver(size_t count) {
    for (; delivered_ < count; ++delivered_) {
      const Copy& copy = copies_[delivered_];
      std::memcpy(copy.to, copy.from == nullptr ? copy.bytes.data() : copy.from, copy.bytes.size());
    }
  }

  std::vector<Copy> copies_;
  size_t delivered_ = 0;
  double seconds_ = 0;
};

}  // namespace coat
