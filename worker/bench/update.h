// coat-bench optimizer: time and state bytes of gradient norm and AdamW alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/bench/engine.h"
#include "worker/bench/report.h"

namespace coat {

struct UpdateOptions {
  BenchDevice device;
  int64_t parameters = 1 << 20;
  std::vector<std::string> states = {"fp8_dre", "fp8", "bf16", "fp32"};
  std::string master = "fp32";     // or bf16_sr
  std::string gradients = "fp32";  // or bf16
  std::string formats = "e4m3_e4m3";
  int64_t steps = 20;
  int64_t warmup = 3;
};

// Adds a row per optimizer state: update_ms and norm_ms (medians), state_bytes_per_parameter,
// moved_bytes_per_parameter (read and written by the update) and update_gb_per_second. Weights and
// gradients are random, in tensors of at most 16 Mi elements.
void RunUpdate(const UpdateOptions& options, Report* report);

}  // namespace coat
