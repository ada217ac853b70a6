#include "worker/data/source.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "configs/base/error.h"
#include "configs/base/parallel.h"
#include "worker/data/glob.h"
#include "worker/data/manifest.h"
#include "worker/data/scan.h"
#include "worker/tokenizer/tokenizer.h"

namespace coat {
namespace {

constexpr int64_t kLargestU16Vocab = 65536;
constexpr size_t kMostScanThreads = 8;

struct SourceFile {
  DataPath path;
  std::string name;  // in messages
  int64_t bytes = 0;
  TokenLayout layout;
  ScanResult scan;
};

bool IsText(const coatrack::v1::JobSpec& spec) { return spec.data().text_size() > 0; }

std::vector<SourceFile> FindFiles(const coatrack::v1::JobSpec& spec, const std::string& data_root) {
  const auto& data = spec.data();
  if ((data.text_size() > 0) == (data.tokens_size() > 0)) {
    throw Error(Code::kInvalidArgument, "data: give exactly one of `text` and `tokens`");
  }
  const auto& patterns = IsText(spec) ? data.text() : data.tokens();
  std::vector<SourceFile> files;
  for (DataPath& path : ResolveDataFiles(data_root, {patterns.begin(), patterns.end()},
                                         IsText(spec) ? "data.text" : "data.tokens")) {
    struct stat info;
    std::string name = data_root + "/" + path.relative;
    if (::stat(path.resolved.c_str(), &info) != 0) {
      throw Error(Code::kIo, name + ": " + std::strerror(errno));
    }
    files.push_back({std::move(path), std::move(name), info.st_size, {}, {}});
  }
  return files;
}

// Only files that were there in the first attempt can be missed now.
std::vector<SourceFile> FindFilesAgain(const coatrack::v1::JobSpec& spec,
                                       const std::string& data_root) {
  try {
    return FindFiles(spec, data_root);
  } catch (const Error& error) {
    if (error.code() != Code::kInvalidArgument) throw;
    throw Error(Code::kDataChanged, std::string(error.what()) +
                                        ", but the first attempt read it; restore the data or "
                                        "submit a new job");
  }
}

coatrack::v1::DataManifest MakeManifest(const std::vector<SourceFile>& files) {
  coatrack::v1::DataManifest manifest;
  for (const SourceFile& file : files) {
    auto* entry = manifest.add_files();
    entry->set_path(file.path.relative);
    entry->set_size_bytes(file.bytes);
    entry->set_sha256(file.scan.sha256);
  }
  return manifest;
}

void ReadLayout(const coatrack::v1::JobSpec& spec, SourceFile* file) {
  if (IsText(spec)) {
    file->layout = {0, 1, file->bytes};
    return;
  }
  file->layout =
      ReadTokenLayout(file->path.resolved, file->name, file->bytes, spec.data().token_format());
  if (file->layout.element_bytes == 2 && spec.model().vocab_size() > kLargestU16Vocab) {
    throw Error(Code::kInvalidArgument,
                file->name + ": offset " + std::to_string(file->layout.offset_bytes) +
                    ": uint16 ids can't express model.vocab_size " +
                    std::to_string(spec.model().vocab_size()) + "; write the ids as uint32");
  }
}

// All files, several at a time. The error of the first bad file is the one that is thrown.
void ScanFiles(int64_t vocab_size, std::vector<SourceFile>* files) {
  ForEachIndex(files->size(), kMostScanThreads, [&](size_t i) {
    SourceFile& file = (*files)[i];
    file.scan = ScanFile(file.path.resolved, file.name, file.bytes, file.layout, vocab_size);
  });
}

int64_t CheckedVocab(const coatrack::v1::JobSpec& spec, const Tokenizer& tokenizer) {
  if (IsText(spec)) {
    int64_t needed = tokenizer.vocab_size();
    if (spec.model().has_vocab_size() && spec.model().vocab_size() < needed) {
      throw Error(Code::kInvalidArgument,
                  "model.vocab_size " + std::to_string(spec.model().vocab_size()) +
                      " is smaller than the tokenizer's " + std::to_string(needed));
    }
    return needed;
  }
  if (spec.model().vocab_size() < 1 ||
      spec.model().vocab_size() > std::numeric_limits<int32_t>::max()) {
    throw Error(Code::kInvalidArgument,
                "model.vocab_size must be set, from 1 to 2147483647, when "
                "the data are tokens");
  }
  return spec.model().vocab_size();
}

}  // namespace

DataSource OpenSource(const coatrack::v1::JobSpec& spec, const std::string& data_root,
                      const coatrack::v1::DataManifest* expected) {
  std::unique_ptr<Tokenizer> tokenizer = CreateTokenizer(spec.data().tokenizer());
  int64_t vocab_size = CheckedVocab(spec, *tokenizer);
  std::vector<SourceFile> files =
      expected ? FindFilesAgain(spec, data_root) : FindFiles(spec, data_root);
  if (expected) CheckFilesUnchanged(*expected, MakeManifest(files));
  for (SourceFile& file : files) ReadLayout(spec, &file);
  ScanFiles(vocab_size, &files);

  DataSource source;
  source.manifest = MakeManifest(files);
  if (expected) CheckHashesUnchanged(*expected, source.manifest);
  int32_t end_id = IsText(spec) ? tokenizer->end_of_document() : -1;
  source.pad_id = std::max(end_id, 0);
  source.vocab_size = IsText(spec) ? vocab_size : 0;
  for (const SourceFile& file : files) {
    source.vocab_size = std::max(source.vocab_size, file.scan.max_id + 1);
    source.stream.Add(std::make_unique<FileBytes>(file.path.resolved, file.name, file.bytes),
                      file.layout, end_id);
  }
  return source;
}

}  // namespace coat
