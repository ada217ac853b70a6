#include <algorithm>

#include "configs/base/error.h"
#include "configs/base/parallel.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/directory.h"
#include "worker/checkpoint/sha256.h"

namespace coat {
namespace {

constexpr int64_t kBlockBytes = int64_t{4} << 20;
constexpr size_t kMostThreads = 8;

void CheckPart(const InputFile& file, const std::string& tensor, DType dtype, const FilePart& part,
               std::vector<char>* block, Sha256* hash) {
  int64_t left = part.count * ElementBytes(dtype);
  for (int64_t offset = part.offset; left > 0;) {
    int64_t bytes = std::min(left, kBlockBytes);
    block->resize(static_cast<size_t>(bytes));
    file.Read(offset, bytes, block->data());
    hash->Update(block->data(), static_cast<size_t>(bytes));
    offset += bytes;
    left -= bytes;
  }
  if (hash->Finish() != part.sha256) {
    throw Error(Code::kDataLoss, file.path() + ": offset " + std::to_string(part.offset) +
                                     ": corrupt: the " + std::to_string(part.count) +
                                     " elements of tensor `" + tensor +
                                     "` there have another SHA-256; use an older checkpoint");
  }
}

}  // namespace

struct CheckpointReader::Impl {
  Manifest manifest;
  std::vector<InputFile> files;

  void CheckFile(size_t file) const {
    Sha256 hash;
    std::vector<char> block;
    for (const auto& [name, tensor] : manifest.tensors) {
      for (const FilePart& part : tensor.parts) {
        if (part.file != static_cast<int>(file)) continue;
        CheckPart(files[file], name, tensor.dtype, part, &block, &hash);
      }
    }
  }

  // Several files at a time; the error of the first bad one is thrown.
  void CheckAll() const {
    ForEachIndex(files.size(), kMostThreads, [this](size_t file) { CheckFile(file); });
  }

  const TensorRecord& Find(const std::string& name) const {
    auto found = manifest.tensors.find(name);
    if (found == manifest.tensors.end()) {
      throw Error(Code::kNotFound, manifest.info.path + ": no tensor `" + name + "`");
    }
    return found->second;
  }
};

CheckpointReader::CheckpointReader(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->manifest = ReadManifest(path, &impl_->files);
  impl_->CheckAll();
}

CheckpointReader::~CheckpointReader() = default;

const CheckpointInfo& CheckpointReader::info() const { return impl_->manifest.info; }

std::vector<std::string> CheckpointReader::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : impl_->manifest.tensors) names.push_back(name);
  return names;
}

bool CheckpointReader::Has(const std::string& name) const {
  return impl_->manifest.tensors.count(name) != 0;
}

HostTensor CheckpointReader::Describe(const std::string& name) const {
  const TensorRecord& tensor = impl_->Find(name);
  int64_t elements = ShapeElements(tensor.shape, name);
  return {name, tensor.dtype, tensor.shape, 0, elements, nullptr};
}

void CheckpointReader::Read(const std::string& name, int64_t first, int64_t count,
                            void* out) const {
  const TensorRecord& tensor = impl_->Find(name);
  int64_t elements = ShapeElements(tensor.shape, name);
  if (first < 0 || count < 0 || first > elements - count) {
    throw Error(Code::kInvalidArgument, impl_->manifest.info.path + ": " + std::to_string(count) +
                                            " elements from " + std::to_string(first) +
                                            " on were asked for of tensor `" + name +
                                            "`, which has " + std::to_string(elements));
  }
  int64_t element_bytes = ElementBytes(tensor.dtype);
  auto part = std::upper_bound(tensor.parts.begin(), tensor.parts.end(), first,
                               [](int64_t at, const FilePart& p) { return at < p.first; });
  if (part != tensor.parts.begin()) --part;
  char* to = static_cast<char*>(out);
  for (; count > 0; ++part) {
    int64_t n = std::min(count, part->first + part->count - first);
    impl_->files[static_cast<size_t>(part->file)].Read(
        part->offset + (first - part->first) * element_bytes, n * element_bytes, to);
    to += n * element_bytes;
    first += n;
    count -= n;
  }
}

}  // namespace coat
