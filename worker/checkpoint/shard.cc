#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "configs/base/error.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/file_io.h"
#include "worker/checkpoint/format.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/sha256.h"

namespace coat {
namespace {

void CheckSlice(const HostTensor& tensor) {
  std::string name = "tensor `" + tensor.name + "`";
  if (tensor.name.empty() || tensor.name == "__metadata__" ||
      tensor.name.find('#') != std::string::npos) {
    throw Error(Code::kInvalidArgument, name + ": not a name a checkpoint can hold");
  }
  int64_t elements = ShapeElements(tensor.shape, name);
  if (tensor.first < 0 || tensor.count < 0 || tensor.first > elements - tensor.count) {
    throw Error(Code::kInvalidArgument, name + ": a slice of " + std::to_string(tensor.count) +
                                            " elements from " + std::to_string(tensor.first) +
                                            " on, of " + std::to_string(elements));
  }
  Check(tensor.data != nullptr || tensor.count == 0, name + ": no data");
}

bool IsWhole(const HostTensor& tensor) {
  return tensor.first == 0 && tensor.count == ShapeElements(tensor.shape, tensor.name);
}

SafetensorsEntry MakeEntry(const HostTensor& tensor) {
  SafetensorsEntry entry;
  entry.dtype = tensor.dtype;
  if (IsWhole(tensor)) {
    entry.name = tensor.name;
    entry.shape = tensor.shape;
  } else {
    entry.name = tensor.name + "#" + std::to_string(tensor.first);
    entry.shape = {tensor.count};
  }
  return entry;
}

// Larger elements first, so that each entry is aligned for its type.
std::vector<const HostTensor*> FileOrder(const std::vector<HostTensor>& tensors) {
  std::vector<const HostTensor*> order;
  for (const HostTensor& tensor : tensors) order.push_back(&tensor);
  auto key = [](const HostTensor* t) {
    return std::make_tuple(-ElementBytes(t->dtype), std::cref(t->name), t->first);
  };
  std::sort(order.begin(), order.end(),
            [&](const HostTensor* a, const HostTensor* b) { return key(a) < key(b); });
  return order;
}

std::string Hashed(Sha256* hash, const void* data, int64_t bytes) {
  hash->Update(data, static_cast<size_t>(bytes));
  return hash->Finish();
}

// Writes a tensor's bytes; their hash.
std::string Append(const HostTensor& tensor, int64_t bytes, const TensorBytes& read,
                   OutputFile* file, Sha256* hash) {
  int64_t written = 0;
  read(tensor, bytes, [&](const void* data, int64_t size) {
    file->Write(data, size);
    hash->Update(data, static_cast<size_t>(size));
    written += size;
  });
  Check(written == bytes, "tensor `" + tensor.name + "`: its bytes were not read whole");
  return hash->Finish();
}

}  // namespace

void HostBytes(const HostTensor& tensor, int64_t bytes, const BytesSink& sink) {
  if (bytes > 0) sink(tensor.data, bytes);
}

std::string TemporaryDir(const std::string& dir, int64_t step, int32_t attempt) {
  return dir + "/" + TemporaryName(step, attempt);
}

void WriteShard(const std::string& temporary_dir, int rank, const std::vector<HostTensor>& tensors,
                const TensorBytes& read) {
  std::vector<const HostTensor*> order = FileOrder(tensors);
  std::vector<SafetensorsEntry> entries;
  std::set<std::string> names;
  for (const HostTensor* tensor : order) {
    CheckSlice(*tensor);
    entries.push_back(MakeEntry(*tensor));
    if (!names.insert(entries.back().name).second) {
      throw Error(Code::kInvalidArgument, "tensor `" + entries.back().name + "` is given twice");
    }
  }
  std::string header = WriteSafetensorsHeader(&entries, {{"format", "coatrack-checkpoint/1"}});
  auto header_bytes = static_cast<int64_t>(header.size());

  MakeFolders(temporary_dir);
  std::string record_path = temporary_dir + "/" + ShardRecordName(rank);
  ::unlink(record_path.c_str());  // of a failed save of the same step

  Sha256 hash;
  Manifest shard;
  OutputFile file(temporary_dir + "/" + ShardName(rank));
  file.Write(header.data(), header_bytes);
  shard.files.push_back({ShardName(rank), header_bytes + (entries.empty() ? 0 : entries.back().end),
                         header_bytes, Hashed(&hash, header.data(), header_bytes)});
  for (size_t i = 0; i < order.size(); ++i) {
    const HostTensor& tensor = *order[i];
    int64_t bytes = entries[i].end - entries[i].begin;
    std::string sha256 = Append(tensor, bytes, read, &file, &hash);
    TensorRecord& record = shard.tensors[tensor.name];
    if (!record.parts.empty() && (record.dtype != tensor.dtype || record.shape != tensor.shape)) {
      throw Error(Code::kInvalidArgument,
                  "tensor `" + tensor.name + "`: slices disagree on shape or element type");
    }
    record.dtype = tensor.dtype;
    record.shape = tensor.shape;
    record.parts.push_back({0, entries[i].name, tensor.first, tensor.count,
                            header_bytes + entries[i].begin, std::move(sha256)});
  }
  file.Close();
  WriteFile(record_path, WriteManifest(shard));
}

void DiscardTemporary(const std::string& dir, int64_t step, int32_t attempt) {
  RemoveTree(TemporaryDir(dir, step, attempt));
}

}  // namespace coat
