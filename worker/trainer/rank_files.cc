#include <dirent.h>
#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

#include "worker/trainer/rank_parent.h"
#include "worker/trainer/rank_protocol.h"

namespace coat {
namespace {

namespace fs = std::filesystem;
using google::protobuf::Message;

Status IoError(const std::string& what, const std::string& path) {
  return Status(errno == ENOSPC ? Code::kResourceExhausted : Code::kIo,
                what + " " + path + ": " + std::strerror(errno));
}

Status WriteAll(int fd, const std::string& text, const std::string& path) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return IoError("cannot write", path);
    done += static_cast<size_t>(n);
  }
  return ::fsync(fd) == 0 ? Status() : IoError("cannot sync", path);
}

Status WriteAtomically(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return IoError("cannot create", temporary);
  const Status status = WriteAll(fd, text, temporary);
  ::close(fd);
  RETURN_IF_ERROR(status);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return IoError("cannot rename to", path);
  return Status();
}

Status WriteMessage(const std::string& path, const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) return Status(Code::kInternal, path + ": " + status.ToString());
  return WriteAtomically(path, json);
}

Status ReadMessage(const std::string& path, Message* message) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    return errno == ENOENT ? Status(Code::kNotFound, path + " does not exist")
                           : IoError("cannot read", path);
  }
  std::ostringstream text;
  text << in.rdbuf();
  const auto status = google::protobuf::util::JsonStringToMessage(text.str(), message);
  if (!status.ok()) return Status(Code::kDataLoss, path + ": " + status.ToString());
  return Status();
}

bool ParseNumber(const std::string& text, int* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= 0;
}

std::vector<std::string> Subdirectories(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.is_directory(error)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string RankDir(const std::string& state_dir, const std::string& job_id, int attempt,
                    int rank) {
  return state_dir + "/" + kAttemptsDir + "/" + job_id + "/" + std::to_string(attempt) + "/" +
         std::to_string(rank);
}

std::vector<RankDirEntry> ListRankDirs(const std::string& state_dir) {
  std::vector<RankDirEntry> entries;
  const std::string top = state_dir + "/" + kAttemptsDir;
  for (const std::string& job : Subdirectories(top)) {
    for (const std::string& attempt_name : Subdirectories(top + "/" + job)) {
      RankDirEntry entry;
      entry.job_id = job;
      if (!ParseNumber(attempt_name, &entry.attempt)) continue;
      for (const std::string& rank_name : Subdirectories(top + "/" + job + "/" + attempt_name)) {
        if (!ParseNumber(rank_name, &entry.rank)) continue;
        entry.path = RankDir(state_dir, job, entry.attempt, entry.rank);
        entries.push_back(entry);
      }
    }
  }
  std::sort(entries.begin(), entries.end(), [](const RankDirEntry& a, const RankDirEntry& b) {
    return std::tie(a.job_id, a.attempt, a.rank) < std::tie(b.job_id, b.attempt, b.rank);
  });
  return entries;
}

Status RemoveRankDir(const std::string& state_dir, const RankDirEntry& entry) {
  if (RankIsAlive(entry.path)) {
    return Status(Code::kFailedPrecondition, entry.path + " belongs to a rank that is alive");
  }
  std::error_code error;
  fs::remove_all(entry.path, error);
  if (error) return Status(Code::kIo, "cannot remove " + entry.path + ": " + error.message());
  const std::string job = state_dir + "/" + kAttemptsDir + "/" + entry.job_id;
  // rmdir refuses what is not empty: other ranks and attempts stay.
  ::rmdir((job + "/" + std::to_string(entry.attempt)).c_str());
  ::rmdir(job.c_str());
  return Status();
}

Status WriteLaunch(const std::string& dir, coatrack::v1::RankLaunch launch,
                   const coatrack::v1::JobSpec& spec) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return Status(Code::kIo, "cannot create " + dir + ": " + error.message());
  launch.set_spec_path(dir + "/" + kSpecFile);
  RETURN_IF_ERROR(WriteMessage(launch.spec_path(), spec));
  return WriteMessage(dir + "/" + kLaunchFile, launch);
}

Result<coatrack::v1::RankLaunch> ReadLaunch(const std::string& dir) {
  coatrack::v1::RankLaunch launch;
  RETURN_IF_ERROR(ReadMessage(dir + "/" + kLaunchFile, &launch));
  return launch;
}

Result<coatrack::v1::JobSpec> ReadSpec(const coatrack::v1::RankLaunch& launch) {
  coatrack::v1::JobSpec spec;
  RETURN_IF_ERROR(ReadMessage(launch.spec_path(), &spec));
  return spec;
}

Status WriteExit(const std::string& dir, const coatrack::v1::RankExit& exit) {
  return WriteMessage(dir + "/" + kExitFile, exit);
}

Result<coatrack::v1::RankExit> ReadExit(const std::string& dir) {
  coatrack::v1::RankExit exit;
  RETURN_IF_ERROR(ReadMessage(dir + "/" + kExitFile, &exit));
  return exit;
}

Status WriteResult(const std::string& dir, const coatrack::v1::RankExit& result) {
  return WriteMessage(dir + "/" + kResultFile, result);
}

Result<coatrack::v1::RankExit> ReadResult(const std::string& dir) {
  coatrack::v1::RankExit result;
  RETURN_IF_ERROR(ReadMessage(dir + "/" + kResultFile, &result));
  return result;
}

Status WriteDataManifest(const std::string& dir, const coatrack::v1::DataManifest& manifest) {
  return WriteMessage(dir + "/" + kDataManifestFile, manifest);
}

Result<coatrack::v1::DataManifest> ReadDataManifest(const std::string& dir) {
  coatrack::v1::DataManifest manifest;
  RETURN_IF_ERROR(ReadMessage(dir + "/" + kDataManifestFile, &manifest));
  return manifest;
}

Status WritePinned(const std::string& dir, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return WriteAtomically(dir + "/" + kPinnedFile, text);
}

std::vector<std::string> ReadPinned(const std::string& dir) {
  std::ifstream in(dir + "/" + kPinnedFile);
  std::vector<std::string> names;
  for (std::string name; std::getline(in, name);) names.push_back(name);
  return names;
}

}  // namespace coat
