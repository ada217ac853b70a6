// A checkpoint directory as a whole: its manifest against its files, and its way to the trash.
#pragma once

#include <string>

#include "worker/checkpoint/file_io.h"
#include "worker/checkpoint/format.h"

namespace coat {

// The manifest of `path`, info.path set. Checks the directory's name, that each file has its
// size, and that each header has its checksum and the entries the manifest lists. Error(kDataLoss)
// naming the file when torn or corrupt; Error(kNotFound) when there is no such directory;
// Error(kIo). With `files` the shards stay open, in the order of Manifest::files.
Manifest ReadManifest(const std::string& path, std::vector<InputFile>* files = nullptr);

// Renames <dir>/step-<N>.attempt-<K> to a free trash name, durably, and removes it then.
void MoveToTrash(const std::string& dir, int64_t step, int32_t attempt);

}  // namespace coat
