#include "worker/supervisor/storage_roots.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "worker/supervisor/identity.h"

namespace coat {
namespace {

bool IsUuid(const std::string& text) {
  return text.size() == 36 && text.find_first_not_of("0123456789abcdef-") == std::string::npos;
}

// Only the first of several workers wins the link; all read what is there then.
Status CreateUuidFile(const std::string& path) {
  const std::string own = path + "." + NewUuid();
  RETURN_IF_ERROR(ReplaceFile(own, NewUuid() + "\n"));
  const bool linked = link(own.c_str(), path.c_str()) == 0 || errno == EEXIST;
  const int error = errno;
  unlink(own.c_str());
  if (linked) return {};
  return {Code::kIo, path + ": " + std::strerror(error)};
}

}  // namespace

Result<StorageRootDir> OpenStorageRoot(const coatrack::v1::StorageRootConfig& config) {
  std::error_code error;
  std::filesystem::create_directories(config.path(), error);
  if (error) {
    return Status(Code::kIo,
                  "storage root " + config.name() + ": " + config.path() + ": " + error.message());
  }
  const std::string file = config.path() + "/" + kRootUuidFile;
  if (access(file.c_str(), F_OK) != 0) RETURN_IF_ERROR(CreateUuidFile(file));
  StorageRootDir root{config.name(), config.path(), ""};
  std::getline(std::ifstream(file), root.uuid);
  if (!IsUuid(root.uuid)) {
    return Status(Code::kDataLoss, file +
                                       ": holds no UUID; restore it from a worker that sees the "
                                       "same root, or remove it if no other does");
  }
  return root;
}

Result<std::vector<StorageRootDir>> OpenStorageRoots(const coatrack::v1::WorkerConfig& config) {
  std::vector<StorageRootDir> roots;
  for (const auto& root_config : config.roots()) {
    ASSIGN_OR_RETURN(StorageRootDir root, OpenStorageRoot(root_config));
    roots.push_back(std::move(root));
  }
  return roots;
}

const StorageRootDir* FindRoot(const std::vector<StorageRootDir>& roots, const std::string& uuid) {
  for (const StorageRootDir& root : roots) {
    if (root.uuid == uuid) return &root;
  }
  return nullptr;
}

}  // namespace coat
