// Checkpoint directories: <dir>/step-<N>.attempt-<K>/ with one safetensors file a rank that writes,
// and manifest.json, written last (DESIGN.md section 5, PROTOCOLS.md section 4). format.h describes
// the files. Failures are Error: kResourceExhausted (disk full, quota, file size limit), kIo, and
// kDataLoss for what is torn or corrupt; messages name the file.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/tensor/tensor.h"

namespace coat {

struct HostTensor {  // a whole logical tensor, or a slice of one
  std::string name;  // logical name
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // logical shape
  int64_t first = 0;           // first element of the slice in the flattened logical tensor
  int64_t count = 0;           // elements of the slice
  const void* data = nullptr;  // on save: the slice's first element, for TensorBytes
};

// Calls `sink` with consecutive pieces of a slice's `bytes` bytes.
using BytesSink = std::function<void(const void* data, int64_t bytes)>;
using TensorBytes =
    std::function<void(const HostTensor& tensor, int64_t bytes, const BytesSink& sink)>;
// Of slices whose `data` is host memory.
void HostBytes(const HostTensor& tensor, int64_t bytes, const BytesSink& sink);

struct CheckpointInfo {
  std::string path;  // directory
  int64_t step = 0;
  int32_t attempt = 0;
  int64_t bytes = 0;    // of the shards
  int64_t time_ms = 0;  // of the commit, since 1970; given by the caller
  bool finite = true;   // losses up to it were finite
  std::string spec_hash;
  std::string weights_hash;
  std::map<std::string, std::string> state;  // t, data position, seed, spec: JSON scalars as text
};

// What rank `rank` writes of state that every rank holds: all ranks' answers together cover each
// element once. Tensors stay whole unless one is larger than a fair share of the bytes; such a one
// is cut at multiples of 128 elements. No rank gets more than a fair share plus the largest piece.
// Pure; `tensors` must be the same on all ranks, `data` apart (null stays null, so that data can
// be fetched for the rank's own pieces alone).
std::vector<HostTensor> AssignToRank(const std::vector<HostTensor>& tensors, int rank,
                                     int world_size);

// Saving is one barrier apart: every rank writes its shard into the temporary directory, then rank
// 0 commits (manifest with sizes and SHA-256, fsync of files and folders, rename).
std::string TemporaryDir(const std::string& dir, int64_t step, int32_t attempt);
// Creates the directory if needed. A failed write removes this rank's file, to free the disk.
// Error(kInvalidArgument) naming the tensor for a slice outside its shape or one given twice.
void WriteShard(const std::string& temporary_dir, int rank, const std::vector<HostTensor>& tensors,
                const TensorBytes& read = HostBytes);
// `info.path` and `info.bytes` are filled in. Error(kFailedPrecondition) when a rank's shard is
// missing or the shards do not cover a tensor exactly once; Error(kAlreadyExists) when a complete
// checkpoint of this step and attempt stands there. The older checkpoints are never touched.
CheckpointInfo Commit(const std::string& dir, CheckpointInfo info, int world_size);
// Removes what a failed save left. Does nothing when there is nothing.
void DiscardTemporary(const std::string& dir, int64_t step, int32_t attempt);

// Newest first: by step, then by attempt. Torn or corrupt directories are left out and described
// in `skipped` (one line each: directory, file, reason). Reads manifests, file sizes and headers;
// data checksums are CheckpointReader's part. A missing `dir` is an empty list.
std::vector<CheckpointInfo> ListCheckpoints(const std::string& dir,
                                            std::vector<std::string>* skipped);

// Reads tensors of a checkpoint, whatever number of ranks wrote it. Verifies all checksums once,
// in the constructor (one read of all files). Files stay open, so deleting the directory
// afterwards harms no reader. Read may be called from several threads.
class CheckpointReader {
 public:
  // Error(kDataLoss) naming file and offset when torn or corrupt; Error(kNotFound).
  explicit CheckpointReader(const std::string& path);
  ~CheckpointReader();
  CheckpointReader(const CheckpointReader&) = delete;
  CheckpointReader& operator=(const CheckpointReader&) = delete;
  const CheckpointInfo& info() const;
  std::vector<std::string> Names() const;  // sorted
  bool Has(const std::string& name) const;
  // Error(kNotFound) when there is no such tensor.
  HostTensor Describe(const std::string& name) const;
  // Copies elements [first, first + count) of the flattened logical tensor.
  // Error(kInvalidArgument) when the range leaves the tensor.
  void Read(const std::string& name, int64_t first, int64_t count, void* out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The newest checkpoint whose every checksum holds, opened; null when there is none. Those passed
// over are described in `skipped`.
std::unique_ptr<CheckpointReader> OpenNewest(const std::string& dir,
                                             std::vector<std::string>* skipped);

// Deletes what retention allows (PROTOCOLS.md 4): keeps the `keep` newest, the newest complete one,
// the newest finite one, pinned ones (path or directory name) and those of a higher attempt;
// renames to .trash-* first. Also removes trash, and temporary directories of lower attempts and
// of this attempt's steps up to its newest committed one. Torn directories stay for people to see.
// Only rank 0 of the current attempt calls it, after a commit. Error(kIo) for what can't be
// removed; the checkpoints to keep are safe then, and the next call tries again.
void ApplyRetention(const std::string& dir, int keep, int32_t attempt,
                    const std::vector<std::string>& pinned);

}  // namespace coat
