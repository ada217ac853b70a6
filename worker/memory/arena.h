// One reservation of exactly the plan's bytes; a step allocates nothing.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "worker/memory/plan.h"

namespace coat {

// Not thread-safe while being built; views are plain pointers afterwards.
class Arena {
 public:
  // Reserves plan.total_bytes on the device ("cpu" or "cuda:..."), touches every page, zeroes it.
  // Errors: Error(kOutOfDeviceMemory) with bytes asked and available.
  Arena(const MemoryPlan& plan, const std::string& device);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  Tensor Get(std::string_view name) const;                  // Error(kInternal) when not in the plan
  Tensor Find(std::string_view name) const;                 // empty when not in the plan
  int64_t bytes() const;                                    // what was reserved
  std::array<int64_t, kMemoryKinds> bytes_by_kind() const;  // counted from handed-out offsets

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coat
