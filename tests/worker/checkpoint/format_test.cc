// The bytes on disk, by a parser of the test's own.
#include "worker/checkpoint/format.h"

#include <gmock/gmock.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace coat {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

using Format = CheckpointTest;

struct OtherReader {
  json header;
  std::string data;
  uint64_t length = 0;
  explicit OtherReader(const std::string& path) {
    std::string bytes = ReadBytes(path);
    std::memcpy(&length, bytes.data(), 8);  // the test's hosts are little endian
    header = json::parse(bytes.substr(8, length));
    data = bytes.substr(8 + length);
  }
  std::string Entry(const std::string& name) const {
    size_t begin = header[name]["data_offsets"][0], end = header[name]["data_offsets"][1];
    return data.substr(begin, end - begin);
  }
};

TEST_F(Format, WholeTensorsHaveLogicalNamesAndShapes) {
  Save(3);
  State state(3);
  OtherReader file(dir_ + "/step-3.attempt-1/rank-00000.safetensors");
  EXPECT_EQ((8 + file.length) % 64, 0u);
  const char* dtypes[] = {"F32", "BF16", "F8_E4M3", "F8_E5M2", "U16",
                          "F32", "I32",  "U8",      "F32",     "F32"};
  size_t bytes = 0;
  for (size_t i = 0; i < state.tensors().size(); ++i) {
    const HostTensor& tensor = state.tensors()[i];
    const json& entry = file.header[tensor.name];
    EXPECT_EQ(entry["dtype"], dtypes[i]);
    EXPECT_EQ(entry["shape"].get<std::vector<int64_t>>(), tensor.shape);
    std::string expected(state.bytes(i).begin(), state.bytes(i).end());
    EXPECT_EQ(file.Entry(tensor.name), expected) << tensor.name;
    size_t begin = entry["data_offsets"][0];
    EXPECT_EQ(begin % static_cast<size_t>(ElementBytes(tensor.dtype)), 0u) << "alignment";
    bytes += expected.size();
  }
  EXPECT_EQ(file.data.size(), bytes);
  EXPECT_EQ(file.header.size(), state.tensors().size() + 1);
  EXPECT_EQ(file.header["__metadata__"]["format"], "coatrack-checkpoint/1");
}

TEST_F(Format, SliceIsOneDimensionalAndNamesItsPlace) {
  std::vector<float> values(300);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  std::string temporary = TemporaryDir(dir_, 1, 1);
  WriteShard(temporary, 0, {{"w", DType::kF32, {3, 100}, 0, 128, values.data()}});
  WriteShard(temporary, 1, {{"w", DType::kF32, {3, 100}, 128, 172, values.data() + 128}});
  Commit(dir_, MakeInfo(1, 1), 2);
  OtherReader file(dir_ + "/step-1.attempt-1/rank-00001.safetensors");
  EXPECT_THAT(file.header["w#128"]["shape"].get<std::vector<int>>(), ElementsAre(172));
  EXPECT_EQ(file.Entry("w#128"),
            std::string(reinterpret_cast<const char*>(values.data() + 128), 172 * 4));
}

TEST_F(Format, ManifestTellsEverything) {
  CheckpointInfo info = Save(12, 3, 2);
  json manifest = json::parse(ReadBytes(info.path + "/manifest.json"))["manifest"];
  EXPECT_EQ(manifest["format"], "coatrack-checkpoint/1");
  EXPECT_EQ(manifest["step"], 12);
  EXPECT_EQ(manifest["attempt"], 3);
  EXPECT_EQ(manifest["finite"], true);
  EXPECT_EQ(manifest["spec_hash"], "spec");
  EXPECT_EQ(manifest["state"]["spec"], "{\"name\":\"tiny\"}");
  ASSERT_EQ(manifest["files"].size(), 2u);
  int64_t bytes = 0;
  for (const json& file : manifest["files"]) {
    std::string path = info.path + "/" + file["name"].get<std::string>();
    EXPECT_EQ(file["bytes"], std::filesystem::file_size(path));
    bytes += file["bytes"].get<int64_t>();
  }
  EXPECT_EQ(info.bytes, bytes);
  EXPECT_EQ(manifest["tensors"]["embed"]["shape"].get<std::vector<int>>()[1], 40);
  // Shard records are gone, nothing else is there.
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(info.path)) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, UnorderedElementsAre("manifest.json", "rank-00000.safetensors",
                                          "rank-00001.safetensors"));
}

TEST_F(Format, DirectoryNamesRoundTripAndNothingElseMatches) {
  EXPECT_EQ(CompleteName(0, 1), "step-0.attempt-1");
  auto complete = ParseDirectoryName("step-9223372036854775807.attempt-2147483647");
  ASSERT_TRUE(complete);
  EXPECT_EQ(complete->step, INT64_MAX);
  EXPECT_EQ(complete->attempt, INT32_MAX);
  EXPECT_EQ(ParseDirectoryName(TemporaryName(5, 2))->kind, DirectoryName::Kind::kTemporary);
  EXPECT_EQ(ParseDirectoryName(TrashName(5, 2))->kind, DirectoryName::Kind::kTrash);
  EXPECT_EQ(ParseDirectoryName(TrashName(5, 2) + ".4")->kind, DirectoryName::Kind::kTrash);
  for (const char* name :
       {"step-1", "step-.attempt-1", "step-01.attempt-1", "step--1.attempt-1", "step-1.attempt-1x",
        "step-1.attempt-1.4", "step-1.attempt-2147483648", "step-9223372036854775808.attempt-1",
        "x-step-1.attempt-1", ".tmp-step-1.attempt-1.2", "step-+1.attempt-1", ""}) {
    EXPECT_FALSE(ParseDirectoryName(name)) << name;
  }
}

}  // namespace
}  // namespace coat
