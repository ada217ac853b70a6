// Checkpoint directories: <dir>/step-<N>.attempt-<K>/ with one safetensors file a rank that writes,
// and manifest.json, written last (DESIGN.md section 5, PROTOCOLS.md section 4).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "worker/tensor/tensor.h"

namespace coat {

struct HostTensor {           // a whole logical tensor, or a slice of one, in host memory
  std::string name;           // logical name
  DType dtype = DType::kF32;
  std::vector<int64_t> shape; // logical shape
  int64_t first = 0;          // first element of the slice in the flattened logical tensor
  int64_t count = 0;          // elements of the slice
  const void* data = nullptr; // on save
};

struct CheckpointInfo {
  std::string path;      // directory
  int64_t step = 0;
  int32_t attempt = 0;
  int64_t bytes = 0;
  int64_t time_ms = 0;
  bool finite = true;    // losses up to it were finite
  std::string spec_hash;
  std::string weights_hash;
  std::map<std::string, std::string> state;  // t, data position, seed, spec: JSON scalars as text
};

// Saving is one barrier apart: every rank writes its shard into the temporary directory, then rank
// 0 commits (manifest with sizes and SHA-256, fsync of files and folders, rename).
std::string TemporaryDir(const std::string& dir, int64_t step, int32_t attempt);
void WriteShard(const std::string& temporary_dir, int rank, const std::vector<HostTensor>& tensors);
CheckpointInfo Commit(const std::string& dir, CheckpointInfo info, int world_size);

// Newest first. Torn or corrupt directories are left out and described in `skipped`.
std::vector<CheckpointInfo> ListCheckpoints(const std::string& dir,
                                            std::vector<std::string>* skipped);

// Reads tensors of a checkpoint, whatever number of ranks wrote it. Verifies checksums once.
class CheckpointReader {
 public:
  // Error(kDataLoss) naming file and offset when torn or corrupt.
  explicit CheckpointReader(const std::string& path);
  ~CheckpointReader();
  const CheckpointInfo& info() const;
  bool Has(const std::string& name) const;
  HostTensor Describe(const std::string& name) const;
  // Copies elements [first, first + count) of the flattened logical tensor.
  void Read(const std::string& name, int64_t first, int64_t count, void* out) const;

 private:
  struct Impl;
  Impl* impl_;
};

// Deletes what retention allows (PROTOCOLS.md 4): keeps the `keep` newest, the newest complete one,
// the newest finite one, pinned ones and those of a higher attempt; renames to .trash-* first;
// also removes abandoned temporary and trash directories of lower attempts.
void ApplyRetention(const std::string& dir, int keep, int32_t attempt,
                    const std::vector<std::string>& pinned);

}  // namespace coat
