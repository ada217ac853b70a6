#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "configs/base/error.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/directory.h"
#include "worker/checkpoint/file_io.h"
#include "worker/checkpoint/format.h"

namespace coat {
namespace {

[[noreturn]] void Refuse(const std::string& where, const std::string& what) {
  throw Error(Code::kFailedPrecondition, where + ": " + what);
}

Manifest ReadShardRecord(const std::string& temporary, int rank) {
  std::string path = temporary + "/" + ShardRecordName(rank);
  if (::access(path.c_str(), F_OK) != 0) {
    Refuse(temporary, "rank " + std::to_string(rank) + " has not written its shard");
  }
  Manifest shard = ParseShardRecord(ReadFile(path), path);
  if (shard.files.size() != 1 || shard.files[0].name != ShardName(rank)) {
    Refuse(path, "does not describe " + ShardName(rank));
  }
  return shard;
}

// Adds a rank's part. File numbers of the parts become positions in manifest->files.
void Merge(Manifest shard, const std::string& where, Manifest* manifest) {
  auto file = static_cast<int>(manifest->files.size());
  manifest->info.bytes += shard.files[0].bytes;
  manifest->files.push_back(std::move(shard.files[0]));
  for (auto& [name, tensor] : shard.tensors) {
    auto [found, is_new] = manifest->tensors.try_emplace(name);
    TensorRecord& all = found->second;
    if (is_new) {
      all.dtype = tensor.dtype;
      all.shape = tensor.shape;
    } else if (all.dtype != tensor.dtype || all.shape != tensor.shape) {
      Refuse(where, "tensor `" + name + "`: ranks disagree on shape or element type");
    }
    for (FilePart& part : tensor.parts) {
      part.file = file;
      all.parts.push_back(std::move(part));
    }
  }
}

// What does not belong to the checkpoint: shard records, and files of a failed save.
void RemoveOthers(const std::string& temporary, const Manifest& manifest) {
  for (const std::string& name : ListFolder(temporary)) {
    bool keep = name == kManifestName;
    for (const FileRecord& file : manifest.files) keep = keep || file.name == name;
    if (!keep) RemoveTree(temporary + "/" + name);
  }
}

// A torn directory of the same name makes way; a complete one is not replaced.
void MakeWay(const std::string& dir, int64_t step, int32_t attempt) {
  std::string path = dir + "/" + CompleteName(step, attempt);
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0) return;
  bool complete = true;
  try {
    ReadManifest(path);
  } catch (const Error& error) {
    if (error.code() != Code::kDataLoss) throw;
    complete = false;
  }
  if (complete) {
    throw Error(Code::kAlreadyExists, path +
                                          ": a complete checkpoint of this step and attempt "
                                          "exists; start a new attempt");
  }
  MoveToTrash(dir, step, attempt);
}

}  // namespace

CheckpointInfo Commit(const std::string& dir, CheckpointInfo info, int world_size) {
  std::string temporary = TemporaryDir(dir, info.step, info.attempt);
  std::string path = dir + "/" + CompleteName(info.step, info.attempt);
  Manifest manifest;
  manifest.info = std::move(info);
  manifest.info.bytes = 0;
  for (int rank = 0; rank < world_size; ++rank) {
    Merge(ReadShardRecord(temporary, rank), temporary, &manifest);
    const FileRecord& file = manifest.files.back();
    int64_t bytes = InputFile(temporary + "/" + file.name).bytes();
    if (bytes != file.bytes) {
      Refuse(temporary + "/" + file.name, "has " + std::to_string(bytes) + " bytes, " +
                                              std::to_string(file.bytes) + " were written");
    }
  }
  SortAndCheckCoverage(&manifest, Code::kFailedPrecondition, temporary);
  MakeWay(dir, manifest.info.step, manifest.info.attempt);
  RemoveOthers(temporary, manifest);
  WriteFile(temporary + "/" + kManifestName, WriteManifest(manifest));
  SyncFolder(temporary);
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    ThrowErrno(temporary, "can't be renamed to " + path, errno);
  }
  SyncFolder(dir);
  SyncFolder(std::filesystem::absolute(dir).parent_path());
  manifest.info.path = path;
  return manifest.info;
}

}  // namespace coat
