#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace coat {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

const fs::path kRoot = COAT_SOURCE_DIR;
const std::vector<std::string> kCodeRoots = {"proto",  "configs", "client", "server",
                                             "worker", "deploy",  "tests"};

bool IsCode(const fs::path& path) {
  static const std::set<std::string> kEndings = {".h", ".cc", ".cu", ".cuh"};
  return kEndings.count(path.extension().string()) > 0;
}

std::vector<fs::path> Files() {  // relative to the root
  std::vector<fs::path> files;
  for (const std::string& top : kCodeRoots) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / top)) {
      if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), kRoot));
    }
  }
  return files;
}

std::vector<std::string> Lines(const fs::path& path) {
  std::ifstream in(kRoot / path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "worker/ops/cpu/gemm.cc" -> "worker/ops": the unit of the include rules.
std::string Unit(const std::string& path) {
  const size_t first = path.find('/');
  const size_t second = path.find('/', first + 1);
  return second == std::string::npos ? path.substr(0, first) : path.substr(0, second);
}

// What each folder may include besides itself and configs/base (DESIGN.md section 2).
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"configs/base", {}},
    {"configs/spec", {}},
    {"configs/metrics", {}},
    {"worker/tensor", {}},
    {"worker/precision", {"worker/tensor"}},
    {"worker/ops", {"worker/tensor", "worker/precision"}},
    {"worker/optim",
     {"worker/tensor", "worker/precision", "worker/ops", "worker/model", "worker/memory"}},
    {"worker/model", {"worker/tensor", "worker/precision", "worker/ops", "worker/memory"}},
    {"worker/memory",
     {"worker/tensor", "worker/precision", "worker/ops", "worker/model", "worker/optim",
      "configs/spec"}},
    {"worker/data", {"worker/tokenizer", "worker/checkpoint"}},  // sha256.h
    {"worker/tokenizer", {}},
    {"worker/checkpoint", {"worker/tensor"}},
    {"worker/collectives", {"worker/tensor", "worker/precision", "worker/ops"}},
    {"worker/metrics", {"worker/tensor", "worker/memory"}},
    {"client/commands", {"client/rpc", "client/render", "configs/spec", "worker/memory"}},
    {"client/rpc", {"configs/spec"}},
    {"client/render", {"configs/spec"}},
    {"server/jobs", {}},
    {"server/workers", {"server/jobs"}},
    {"server/scheduler", {"server/jobs", "server/workers"}},
    {"server/store", {"server/jobs"}},
};

TEST(Tidy, IncludesFollowTheDesign) {
  static const std::regex kInclude("^#include \"([^\"]+)\"");
  std::vector<std::string> faults;
  for (const fs::path& file : Files()) {
    const auto rule = kMayInclude.find(Unit(file.string()));
    if (!IsCode(file) || rule == kMayInclude.end()) continue;
    for (const std::string& line : Lines(file)) {
      std::smatch match;
      if (!std::regex_search(line, match, kInclude)) continue;
      const std::string unit = Unit(match[1].str());
      if (unit.rfind("coatrack/", 0) == 0 || unit == "configs/base" || unit == rule->first ||
          rule->second.count(unit) > 0) {
        continue;
      }
      faults.push_back(file.string() + " includes " + match[1].str());
    }
  }
  EXPECT_THAT(faults, IsEmpty());
}

TEST(Tidy, GrpcAndCudaStayInTheirFolders) {
  std::vector<std::string> faults;
  for (const fs::path& file : Files()) {
    const std::string name = file.string();
    if (!IsCode(file) || name.rfind("tests/", 0) == 0) continue;
    const bool service = name.rfind("client/", 0) == 0 || name.rfind("server/", 0) == 0 ||
                         name.rfind("worker/supervisor/", 0) == 0;
    const bool cuda = name.rfind("worker/ops/cuda/", 0) == 0 ||
                      name.rfind("worker/collectives/nccl", 0) == 0 ||
                      name.rfind("worker/memory/cuda", 0) == 0;
    for (const std::string& line : Lines(file)) {
      if (!service && (line.rfind("#include <grpc", 0) == 0 ||
                       line.find(".grpc.pb.h\"") != std::string::npos)) {
        faults.push_back(name + ": gRPC");
      }
      if (!cuda &&
          (line.rfind("#include <cuda", 0) == 0 || line.rfind("#include <cublas", 0) == 0 ||
           line.rfind("#include <cudnn", 0) == 0 || line.rfind("#include <nccl", 0) == 0)) {
        faults.push_back(name + ": CUDA");
      }
      if (!cuda && name != "worker/precision/host_device.h" && line.rfind("#if", 0) == 0) {
        faults.push_back(name + ": " + line);
      }
    }
  }
  EXPECT_THAT(faults, IsEmpty());
}

TEST(Tidy, FilesAreShort) {
  std::vector<std::string> faults;
  for (const fs::path& file : Files()) {
    if (!IsCode(file)) continue;
    const std::vector<std::string> lines = Lines(file);
    if (lines.size() > 500) faults.push_back(file.string() + ": " + std::to_string(lines.size()));
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].size() > 100) {
        faults.push_back(file.string() + ":" + std::to_string(i + 1) + " is wider than 100");
      }
    }
  }
  EXPECT_THAT(faults, IsEmpty());
}

TEST(Tidy, FoldersHaveShortReadmes) {
  std::vector<std::string> faults;
  for (const std::string& top : kCodeRoots) {
    std::vector<fs::path> folders = {kRoot / top};
    for (const auto& entry : fs::directory_iterator(kRoot / top)) {
      if (entry.is_directory() && top != "proto") folders.push_back(entry.path());
    }
    for (const fs::path& folder : folders) {
      const fs::path readme = fs::relative(folder, kRoot) / "README.md";
      if (!fs::exists(kRoot / readme)) {
        faults.push_back(readme.string() + " is missing");
      } else if (Lines(readme).size() > 20) {
        faults.push_back(readme.string() + " is longer than 20 lines");
      }
    }
  }
  EXPECT_THAT(faults, IsEmpty());
}

TEST(Tidy, NothingIsLeftOpen) {
  static const std::regex kLeftover("\\b(TODO|FIXME|XXX|HACK)\\b|DISABLED_");
  std::vector<std::string> faults;
  for (const fs::path& file : Files()) {
    if (!IsCode(file) || file.filename() == "tidy_test.cc") continue;
    for (const std::string& line : Lines(file)) {
      if (std::regex_search(line, kLeftover)) faults.push_back(file.string() + ": " + line);
    }
  }
  EXPECT_THAT(faults, IsEmpty());
}

}  // namespace
}  // namespace coat
