// What the host can still give to this process.
#pragma once

#include <cstdint>
#include <string>

namespace coat {

// Bytes: the least of what is available in RAM and what each control group above this process
// leaves (its limit minus what it uses and could not give back: the page cache can be given back).
int64_t AvailableHostBytes();

// The same over files below `root`, which stands for "/": proc/meminfo, proc/self/cgroup,
// sys/fs/cgroup/... (version 2, or the memory controller of version 1).
int64_t AvailableHostBytes(const std::string& root);

}  // namespace coat
