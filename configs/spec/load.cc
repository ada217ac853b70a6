#include "configs/spec/load.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include "configs/spec/defaults.h"
#include "configs/spec/validate.h"

namespace coat {
namespace {

constexpr const char* kStandardInput = "-";

std::string ShownName(const std::string& path) { return path == kStandardInput ? "stdin" : path; }

// Reads `text` and the overrides into `written`; every fault has its place.
Violations ReadAndOverride(std::string_view text, const std::string& file_name,
                           const std::vector<std::string>& overrides,
                           google::protobuf::Message* written, Places* places) {
  Violations faults = ReadYaml(text, file_name, written, places);
  for (const std::string& assignment : overrides) {
    const Violations more = SetAssignment(written, assignment, places);
    faults.insert(faults.end(), more.begin(), more.end());
  }
  return faults;
}

template <typename Config>
Result<Config> LoadConfig(const std::string& path, const std::vector<std::string>& overrides,
                          Violations (*validate)(const Config&)) {
  std::string text = "{}";
  if (!path.empty()) {
    ASSIGN_OR_RETURN(text, ReadSpecText(path));
  }
  Config config;
  Places places;
  Violations faults = ReadAndOverride(text, ShownName(path), overrides, &config, &places);
  if (faults.empty()) {
    ApplyDefaults(&config);
    faults = validate(config);
    places.Attach(&faults);
  }
  RETURN_IF_ERROR(ViolationsToStatus(faults));
  return config;
}

}  // namespace

Result<std::string> ReadSpecText(const std::string& path) {
  std::ifstream file;
  if (path != kStandardInput) {
    errno = 0;
    file.open(path, std::ios::binary);
    if (!file) {
      const bool missing = errno == ENOENT;
      return Status(missing ? Code::kNotFound : Code::kIo,
                    path + ": cannot be opened: " + std::strerror(errno) +
                        "; check the path, or use '-' for standard input");
    }
  }
  std::istream& stream = path == kStandardInput ? std::cin : file;
  // One byte more than allowed, so that the reader refuses what is longer.
  std::string text(static_cast<size_t>(kMaxSpecBytes) + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) {
    return Status(Code::kIo, ShownName(path) + ": cannot be read; check that it is a file");
  }
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

Violations LoadJobText(std::string_view text, const std::string& file_name,
                       const std::vector<std::string>& overrides, LoadedJob* job) {
  Places places;
  Violations faults = ReadAndOverride(text, file_name, overrides, &job->written, &places);
  if (!faults.empty()) return faults;
  job->spec = job->written;
  faults = ApplyDefaults(&job->spec);
  if (faults.empty()) faults = ValidateJobSpec(job->spec);
  places.Attach(&faults);
  return faults;
}

Result<LoadedJob> LoadJobFile(const std::string& path, const std::vector<std::string>& overrides) {
  ASSIGN_OR_RETURN(const std::string text, ReadSpecText(path));
  LoadedJob job;
  RETURN_IF_ERROR(ViolationsToStatus(LoadJobText(text, ShownName(path), overrides, &job)));
  return job;
}

Result<coatrack::v1::ServerConfig> LoadServerConfig(const std::string& path,
                                                    const std::vector<std::string>& overrides) {
  return LoadConfig<coatrack::v1::ServerConfig>(path, overrides, ValidateServerConfig);
}

Result<coatrack::v1::WorkerConfig> LoadWorkerConfig(const std::string& path,
                                                    const std::vector<std::string>& overrides) {
  return LoadConfig<coatrack::v1::WorkerConfig>(path, overrides, ValidateWorkerConfig);
}

Result<coatrack::v1::ClientConfig> LoadClientConfig(const std::string& path,
                                                    const std::vector<std::string>& overrides) {
  return LoadConfig<coatrack::v1::ClientConfig>(path, overrides, ValidateClientConfig);
}

}  // namespace coat
