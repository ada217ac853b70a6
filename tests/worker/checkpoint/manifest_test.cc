// Manifests that lie, although their checksum is right.
#include <gmock/gmock.h>

#include "tests/worker/checkpoint/checkpoint_fixture.h"
#include "worker/checkpoint/format.h"

namespace coat {
namespace {

using ::testing::HasSubstr;

class ManifestTest : public CheckpointTest {
 protected:
  ManifestTest() : path_(Save(4, 1, 2).path), file_(path_ + "/manifest.json") {
    manifest_ = ParseManifest(ReadBytes(file_), file_);
  }

  // What opening says when the manifest is `manifest`.
  Refusal RefusalFor(const Manifest& manifest) {
    WriteBytes(file_, WriteManifest(manifest));
    return RefusalOf([&] { CheckpointReader reader(path_); });
  }

  std::string path_;
  std::string file_;
  Manifest manifest_;
};

TEST_F(ManifestTest, RoundTripIsByteExact) {
  EXPECT_EQ(WriteManifest(manifest_), ReadBytes(file_));
  EXPECT_EQ(RefusalFor(manifest_).code, Code::kOk);
}

TEST_F(ManifestTest, LiesAreFound) {
  struct {
    const char* message;
    std::function<void(Manifest*)> lie;
  } cases[] = {
      {"`offset` is not a whole number",
       [](Manifest* m) { m->tensors["embed"].parts[0].offset = 1 << 30; }},
      {"a part lies outside", [](Manifest* m) { m->tensors["embed"].parts[0].offset = 0; }},
      {"header and manifest disagree",
       [](Manifest* m) { m->tensors["embed"].parts[0].offset += 4; }},
      {"header and manifest disagree",
       [](Manifest* m) { m->tensors["embed"].parts[0].entry = "x"; }},
      {"header and manifest disagree",
       [](Manifest* m) { m->tensors["embed"].dtype = DType::kI32; }},
      {"a part names no file", [](Manifest* m) { m->tensors["embed"].parts[0].file = 2; }},
      {"`file` is not a whole number", [](Manifest* m) { m->tensors["embed"].parts[0].file = -1; }},
      {"more than one part holds element 1152",
       [](Manifest* m) { m->tensors["embed"].parts[0].count += 1; }},
      {"no part holds element 0",
       [](Manifest* m) { m->tensors["flag"].parts[0] = {0, "flag", 1, 0, 1000, ""}; }},
      {"`count` is not a whole number",
       [](Manifest* m) { m->tensors["embed"].parts[1].count += 1; }},
      {"the parts hold 0 of 1", [](Manifest* m) { m->tensors["flag"].parts.clear(); }},
      {"the manifest does not know `flag`", [](Manifest* m) { m->tensors.erase("flag"); }},
      {"the shape is negative or overflows",
       [](Manifest* m) {
         m->tensors["embed"].shape = {INT64_MAX, 3};
       }},
      {"`shape` is not a whole number", [](Manifest* m) { m->tensors["embed"].shape = {-1}; }},
      {"file name `../x`", [](Manifest* m) { m->files[0].name = "../x"; }},
      {"file name ``", [](Manifest* m) { m->files[0].name = ""; }},
      {"overflows", [](Manifest* m) { m->files[0].bytes = m->files[1].bytes = INT64_MAX; }},
      {"`header_bytes` is not", [](Manifest* m) { m->files[0].header_bytes = 1 << 30; }},
      {"the SHA-256 of the header", [](Manifest* m) { m->files[0].header_bytes -= 1; }},
      {"belongs to step 5", [](Manifest* m) { m->info.step = 5; }},
      {"`step` is not a whole number", [](Manifest* m) { m->info.step = -5; }},
  };
  for (const auto& c : cases) {
    Manifest changed = manifest_;
    c.lie(&changed);
    Refusal refusal = RefusalFor(changed);
    EXPECT_EQ(refusal.code, Code::kDataLoss) << c.message;
    EXPECT_THAT(refusal.message, HasSubstr(c.message));
    EXPECT_THAT(refusal.message, HasSubstr(path_));
  }
}

TEST_F(ManifestTest, OtherFormatsAreNamed) {
  std::string body = "{\"format\":\"coatrack-checkpoint/9\"}";
  Refusal refusal = RefusalOf([&] { ParseManifest("{\"manifest\":" + body + "}", "m"); });
  EXPECT_THAT(refusal.message, HasSubstr("m: torn"));
  std::string text = WriteManifest(manifest_);
  for (size_t cut : {text.size() - 1, size_t{10}, size_t{0}}) {
    EXPECT_EQ(RefusalOf([&] { ParseManifest(text.substr(0, cut), "m"); }).code, Code::kDataLoss);
  }
}

TEST_F(ManifestTest, StateMustBeUtf8) {
  manifest_.info.state["spec"] = "\xFF";
  EXPECT_EQ(RefusalOf([&] { WriteManifest(manifest_); }).code, Code::kInvalidArgument);
}

}  // namespace
}  // namespace coat
