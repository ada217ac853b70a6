// coat-bench memory: planned against reserved bytes of a rank, by kind.
#pragma once

#include "worker/bench/report.h"
#include "worker/bench/step.h"

namespace coat {

// Adds a row per model and recipe of `options`: planned_bytes and planned by kind; arena_bytes and
// reserved by kind, read back from the arena after `steps` steps have run in it; equal (planned
// and reserved agree to the byte in every kind); activation_bytes_per_layer; device_used_bytes on a
// GPU (all processes and libraries). With steps 0 nothing is reserved and the plan of the device
// alone is printed. Returns whether all rows agree.
bool RunMemory(const StepOptions& options, Report* report);

}  // namespace coat
