#include "worker/checkpoint/directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

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

struct Shard {
  InputFile file;
  SafetensorsHeader header;
};

Shard OpenShard(const std::string& path, const FileRecord& record) {
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
  int64_t length = ParseSafetensorsLength(header, record.bytes, path);
  if (8 + length != record.header_bytes) Torn(path, "offset 0: the manifest has another length");
  return {std::move(file),
          ParseSafetensorsHeader(std::string_view(header).substr(8), record.bytes, path)};
}

// The manifest's parts of a file are the entries of its header, one to one.
void CheckEntries(const Manifest& manifest, size_t file, const SafetensorsHeader& header,
                  const std::string& path) {
  std::map<std::string, const SafetensorsEntry*> entries;
  for (const SafetensorsEntry& entry : header.entries) entries[entry.name] = &entry;
  for (const auto& [name, tensor] : manifest.tensors) {
    for (const FilePart& part : tensor.parts) {
      if (part.file != static_cast<int>(file)) continue;
      auto found = entries.find(part.entry);
      if (found == entries.end() || found->second->dtype != tensor.dtype ||
          header.header_bytes + found->second->begin != part.offset ||
          found->second->end - found->second->begin != part.count * ElementBytes(tensor.dtype)) {
        Torn(path, "offset " + std::to_string(part.offset) + ": header and manifest disagree on `" +
                       part.entry + "`");
      }
      entries.erase(found);
    }
  }
  if (!entries.empty()) Torn(path, "the manifest does not know `" + entries.begin()->first + "`");
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
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    std::string shard_path = path + "/" + manifest.files[i].name;
    Shard shard = OpenShard(shard_path, manifest.files[i]);
    CheckEntries(manifest, i, shard.header, shard_path);
    if (files != nullptr) files->push_back(std::move(shard.file));
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
  RemoveTree(to);
}

}  // namespace coat
