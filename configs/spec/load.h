// A file of a person, read, defaulted and validated in one call.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coatrack/v1/daemon_config.pb.h"
#include "coatrack/v1/job.pb.h"
#include "configs/base/status.h"
#include "configs/spec/reader.h"

namespace coat {

struct LoadedJob {
  coatrack::v1::JobSpec written;  // as in the file and the overrides: what is submitted
  coatrack::v1::JobSpec spec;     // defaults applied, valid
};

// Whole text of a file, "-" for standard input; at most kMaxSpecBytes.
Result<std::string> ReadSpecText(const std::string& path);

// `overrides` are "path=value" (SetField). Errors: kNotFound or kIo for the file,
// kInvalidArgument with "file:line: field: what; remedy", a line each.
Result<LoadedJob> LoadJobFile(const std::string& path,
                              const std::vector<std::string>& overrides = {});
// The same for a text; violations instead of a Status for those who report fields.
Violations LoadJobText(std::string_view text, const std::string& file_name,
                       const std::vector<std::string>& overrides, LoadedJob* job);

// Configuration files; an empty path gives the defaults. Values of the command line are applied
// by `overrides`.
Result<coatrack::v1::ServerConfig> LoadServerConfig(const std::string& path,
                                                    const std::vector<std::string>& overrides = {});
Result<coatrack::v1::WorkerConfig> LoadWorkerConfig(const std::string& path,
                                                    const std::vector<std::string>& overrides = {});
Result<coatrack::v1::ClientConfig> LoadClientConfig(const std::string& path,
                                                    const std::vector<std::string>& overrides = {});

}  // namespace coat
