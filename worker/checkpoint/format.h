// The files of a checkpoint directory.
//
// rank-00000.safetensors, rank-00001.safetensors, ... (format: github.com/huggingface/safetensors):
//   8 bytes   header length H, little endian; at most 100,000,000
//   H bytes   JSON object, padded with spaces so that data starts at a multiple of 64:
//             entry name -> {"dtype", "shape", "data_offsets": [begin, end]}, offsets from the end
//             of the header; the entries tile the data without gap or overlap
//   data      little endian, row-major, 64-bit types none, larger elements first
// A tensor written whole is an entry with its logical name and shape. A slice of one is an entry
// `name#first` of shape [count]: elements [first, first + count) of the flattened tensor.
//
// manifest.json: {"manifest": M, "sha256": SHA-256 of M as printed by nlohmann::json::dump()}, M:
//   format        "coatrack-checkpoint/1"
//   step, attempt, time_ms, finite, spec_hash, weights_hash, state (text -> text)
//   files         list of {name, bytes, header_bytes, header_sha256}; header_bytes = 8 + H
//   tensors       logical name -> {dtype, shape, parts: list of {file, entry, first, count, offset,
//                 sha256}}; offset in the file, bytes = count x element size; parts in order of
//                 `first`, together the whole tensor
// Header and parts of a file are all its bytes, so the checksums cover everything and a bad one
// names tensor and place.
//
// Directories: step-<N>.attempt-<K> complete; .tmp-step-<N>.attempt-<K> being written, with one
// rank-*.json a finished shard (its part of M); .trash-step-<N>.attempt-<K>[.n] being removed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "configs/base/status.h"
#include "worker/checkpoint/checkpoint.h"

namespace coat {

inline constexpr int64_t kSliceMultiple = 128;  // NUMERICS.md section 5: shard boundaries
inline constexpr char kManifestName[] = "manifest.json";

struct FilePart {
  int file = 0;  // index into Manifest::files
  std::string entry;
  int64_t first = 0;   // element of the flattened tensor
  int64_t count = 0;   // elements
  int64_t offset = 0;  // byte in the file
  std::string sha256;
};

struct TensorRecord {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<FilePart> parts;
};

struct FileRecord {
  std::string name;
  int64_t bytes = 0;
  int64_t header_bytes = 0;
  std::string header_sha256;
};

struct Manifest {
  CheckpointInfo info;  // without path and bytes
  std::vector<FileRecord> files;
  std::map<std::string, TensorRecord> tensors;
};

// Elements of a shape. Error(kDataLoss) starting with `where` on a negative size or an overflow.
int64_t ShapeElements(const std::vector<int64_t>& shape, const std::string& where);

// Text of manifest.json, and back. Parsing checks the checksum, that every part lies inside its
// file and that the parts of each tensor cover it exactly once. Error(kDataLoss) starting with
// `where`, the path of the file.
std::string WriteManifest(const Manifest& manifest);
Manifest ParseManifest(const std::string& text, const std::string& where);

// The same for a shard's own description, which stands beside it until the commit: a manifest of
// one file, whose tensors need not be whole.
Manifest ParseShardRecord(const std::string& text, const std::string& where);

// Throws Error(code) unless the parts of every tensor, sorted here, cover it exactly once.
void SortAndCheckCoverage(Manifest* manifest, Code code, const std::string& where);

std::string ShardName(int rank);        // "rank-00003.safetensors"
std::string ShardRecordName(int rank);  // "rank-00003.json"

struct DirectoryName {
  enum class Kind { kComplete, kTemporary, kTrash } kind;
  int64_t step = 0;
  int32_t attempt = 0;
};
std::string CompleteName(int64_t step, int32_t attempt);
std::string TemporaryName(int64_t step, int32_t attempt);
std::string TrashName(int64_t step, int32_t attempt);
std::optional<DirectoryName> ParseDirectoryName(const std::string& name);

}  // namespace coat
