#include "worker/checkpoint/directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "configs/base/error.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/sha256.h"

namespace coat {
namespace {

[[noreturn]] void Torn(const std::string& path, const std::string& what) {
  throw Error(Code::kDataLoss, path + ": " + what);
}

bool Exists(const std::string& path) {
  struct stat info;
  return ::lstat(path.c_str(), &info) == 0;
}

InputFile OpenShard(const std::string& path, const FileRecord& record) {
  if (!Exists(path)) Torn(path, "is missing");
  InputFile file(path);
  if (file.bytes() != record.bytes) {
    Torn(path, "ends at offset " + std::to_string(file.bytes()) + ", the manifest says " +
                   std::to_string(record.bytes) + " bytes");
  }
  std::string header(static_cast<size_t>(record.header_bytes), '\0');
  file.Read(0, record.header_bytes, header.data());
  if (Sha256Hex(header) != record.header_sha256) {
    Torn(path, "offset 0: the SHA-256 of the header's " + std::to_string(record.header_bytes) +
                   " bytes is another");
  }
  return file;
}

}  // namespace

Manifest ReadManifest(const std::string& path, std::vector<InputFile>* files) {
  if (!Exists(path)) throw Error(Code::kNotFound, path + ": no such checkpoint");
  std::string manifest_path = path + "/" + kManifestName;
  if (!Exists(manifest_path)) Torn(manifest_path, "is missing");
  Manifest manifest = ParseManifest(ReadFile(manifest_path), manifest_path);
  std::filesystem::path folder(path);
  if (!folder.has_filename()) folder = folder.parent_path();
  std::string name = folder.filename();
  if (ParseDirectoryName(name) && name != CompleteName(manifest.info.step, manifest.info.attempt)) {
    Torn(manifest_path, "belongs to step " + std::to_string(manifest.info.step) + ", attempt " +
                            std::to_string(manifest.info.attempt));
  }
  for (const FileRecord& record : manifest.files) {
    InputFile file = OpenShard(path + "/" + record.name, record);
    if (files != nullptr) files->push_back(std::move(file));
  }
  manifest.info.path = path;
  return manifest;
}

void MoveToTrash(const std::string& dir, int64_t step, int32_t attempt) {
  std::string from = dir + "/" + CompleteName(step, attempt);
  std::string to = dir + "/" + TrashName(step, attempt);
  for (int copy = 1; Exists(to); ++copy) {
    to = dir + "/" + TrashName(step, attempt) + "." + std::to_string(copy);
  }
  if (std::rename(from.c_str(), to.c_str()) != 0) ThrowErrno(from, "can't be renamed", errno);
  SyncFolder(dir);
  std::error_code error;
  std::filesystem::remove_all(to, error);
  if (error) ThrowErrno(to, "can't be removed", error.value());
}

}  // namespace coat
