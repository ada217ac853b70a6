#include "worker/data/manifest.h"

#include <algorithm>
#include <string>

#include "configs/base/error.h"

namespace coat {
namespace {

[[noreturn]] void Changed(const std::string& what) {
  throw Error(Code::kDataChanged,
              what + "; restore the data of the first attempt or submit a new job");
}

}  // namespace

void CheckFilesUnchanged(const coatrack::v1::DataManifest& expected,
                         const coatrack::v1::DataManifest& actual) {
  int both = std::min(expected.files_size(), actual.files_size());
  for (int i = 0; i < both; ++i) {
    const auto& was = expected.files(i);
    const auto& is = actual.files(i);
    if (is.path() < was.path()) Changed(is.path() + ": not among the data of the first attempt");
    if (was.path() < is.path()) Changed(was.path() + ": gone since the first attempt");
    if (was.size_bytes() != is.size_bytes()) {
      Changed(is.path() + ": had " + std::to_string(was.size_bytes()) +
              " bytes in the first attempt, now " + std::to_string(is.size_bytes()));
    }
  }
  if (expected.files_size() > both) {
    Changed(expected.files(both).path() + ": gone since the first attempt");
  }
  if (actual.files_size() > both) {
    Changed(actual.files(both).path() + ": not among the data of the first attempt");
  }
}

void CheckHashesUnchanged(const coatrack::v1::DataManifest& expected,
                          const coatrack::v1::DataManifest& actual) {
  for (int i = 0; i < actual.files_size(); ++i) {
    const auto& was = expected.files(i);
    const auto& is = actual.files(i);
    if (was.sha256() != is.sha256()) {
      Changed(is.path() + ": SHA-256 was " + was.sha256() + " in the first attempt, now " +
              is.sha256());
    }
  }
}

}  // namespace coat
