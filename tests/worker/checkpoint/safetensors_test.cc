#include "worker/checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/worker/checkpoint/checkpoint_fixture.h"

namespace coat {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A header for a file whose data has `data_bytes` bytes.
SafetensorsHeader Parse(const std::string& json, int64_t data_bytes) {
  return ParseSafetensorsHeader(json, 8 + static_cast<int64_t>(json.size()) + data_bytes, "f");
}

TEST(Safetensors, RoundTrip) {
  std::vector<SafetensorsEntry> entries(3);
  entries[0] = {"a", DType::kF32, {2, 3}, 0, 0};
  entries[1] = {"b \"\xC3\xA9\n", DType::kE4M3, {}, 0, 0};
  entries[2] = {"c", DType::kU16, {0}, 0, 0};
  std::string text = WriteSafetensorsHeader(&entries, {{"k", "v"}});
  int64_t file_bytes = static_cast<int64_t>(text.size()) + 25;
  int64_t length = ParseSafetensorsLength(text.substr(0, 8), file_bytes, "f");
  EXPECT_EQ(length, static_cast<int64_t>(text.size()) - 8);
  SafetensorsHeader header = ParseSafetensorsHeader(text.substr(8), file_bytes, "f");
  EXPECT_EQ(header.header_bytes % 64, 0);
  EXPECT_EQ(header.metadata.at("k"), "v");
  ASSERT_EQ(header.entries.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(header.entries[i].name, entries[i].name);
    EXPECT_EQ(header.entries[i].dtype, entries[i].dtype);
    EXPECT_EQ(header.entries[i].shape, entries[i].shape);
    EXPECT_EQ(header.entries[i].begin, entries[i].begin);
  }
}

TEST(Safetensors, EmptyFileOfNoTensors) { EXPECT_TRUE(Parse("{}", 0).entries.empty()); }

TEST(Safetensors, LengthAgainstTheFile) {
  auto refusal = [](const std::string& prefix, int64_t file_bytes) {
    return RefusalOf([&] { ParseSafetensorsLength(prefix, file_bytes, "f"); });
  };
  EXPECT_EQ(refusal("1234567", 7).code, Code::kDataLoss);
  std::string ten("\x0A\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(refusal(ten, 18).code, Code::kOk);
  EXPECT_THAT(refusal(ten, 17).message, HasSubstr("a header of 10 bytes in a file of 17"));
  EXPECT_EQ(refusal(std::string(8, '\xFF'), INT64_MAX).code, Code::kDataLoss);
  EXPECT_EQ(refusal(std::string("\0\0\0\0\0\0\0\x80", 8), INT64_MAX).code, Code::kDataLoss);
  // 100,000,001
  EXPECT_EQ(refusal(std::string("\x01\xE1\xF5\x05\0\0\0\0", 8), INT64_MAX).code, Code::kDataLoss);
  EXPECT_EQ(refusal(std::string("\x00\xE1\xF5\x05\0\0\0\0", 8), INT64_MAX).code, Code::kOk);
}

TEST(Safetensors, HostileHeadersAreRefused) {
  struct {
    const char* json;
    int64_t data_bytes;
    const char* message;
  } cases[] = {
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 4, "not JSON"},
      {R"([])", 0, "not a JSON object"},
      {R"( {})", 0, "not a JSON object"},
      {"{\"a\xFF\":{}}", 0, "not JSON"},
      {R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8, "element type \"F64\""},
      {R"({"a":{"dtype":4,"shape":[1],"data_offsets":[0,8]}})", 8, "element type 4"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, "the fields are not"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4, "the fields are not"},
      {R"({"a":7})", 4, "the fields are not"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, "shape's 8 bytes"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, "do not hold"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, "right length"},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, "right length"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, "not a whole number"},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, "not a whole number"},
      {R"({"a":{"dtype":"F32","shape":[1e0],"data_offsets":[0,4]}})", 4, "not a whole number"},
      {R"({"a":{"dtype":"F32","shape":["1"],"data_offsets":[0,4]}})", 4, "not a whole number"},
      {R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]}})", 4,
       "not a whole number"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       "overflow"},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "overflow"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3,
       "hold 4 bytes of data, the file 3"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5,
       "hold 4 bytes of data, the file 5"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8,
       "entry `a`: starts at offset 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
           "b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12, "entry `b`: starts at offset 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
           "b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8, "entry `b`"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
           "a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "`a` stands there twice"},
      {R"({"a":{"dtype":"F32","dtype":"U8","shape":[1],"data_offsets":[0,4]}})", 4,
       "`dtype` stands there twice"},
      {R"({"__metadata__":{"a":1}})", 0, "is not a text"},
      {R"({"__metadata__":"a"})", 0, "is not an object"},
      {R"({"a":{"dtype":"F32","shape":[[[[1]]]],"data_offsets":[0,4]}})", 4, "nested too deeply"},
  };
  for (const auto& c : cases) {
    Refusal refusal = RefusalOf([&] { Parse(c.json, c.data_bytes); });
    EXPECT_EQ(refusal.code, Code::kDataLoss) << c.json;
    EXPECT_THAT(refusal.message, AllOf(HasSubstr("f: "), HasSubstr(c.message))) << c.json;
  }
}

TEST(Safetensors, DeepNestingCostsNothing) {
  std::string deep = "{\"a\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  EXPECT_THAT(RefusalOf([&] { Parse(deep, 0); }).message, HasSubstr("nested too deeply"));
}

// Mutations of a good file: either the header is accepted and its entries tile the data, or it is
// refused as kDataLoss. Nothing else may come out.
TEST(Safetensors, MutatedHeadersAreParsedOrRefused) {
  std::vector<SafetensorsEntry> entries(4);
  entries[0] = {"embed", DType::kF32, {3, 5}, 0, 0};
  entries[1] = {"gain", DType::kBF16, {7}, 0, 0};
  entries[2] = {"m", DType::kE4M3, {129}, 0, 0};
  entries[3] = {"k", DType::kU16, {2}, 0, 0};
  const std::string good = WriteSafetensorsHeader(&entries, {{"a", "b"}});
  const int64_t data_bytes = entries.back().end;
  std::mt19937 random(3);
  int parsed = 0, refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (unsigned edits = 1 + random() % 3; edits > 0; --edits) {
      size_t at = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text[at] = "0123456789[]{},:\"-"[random() % 18]; break;
        case 2: text.erase(at, 1 + random() % 9); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 20));
      }
      if (text.empty()) text = " ";
    }
    int64_t file_bytes = static_cast<int64_t>(text.size()) + data_bytes;
    try {
      int64_t length = ParseSafetensorsLength(text.substr(0, 8), file_bytes, "f");
      ASSERT_LE(length, file_bytes - 8);
      std::string json = text.substr(8, static_cast<size_t>(length));
      json.resize(static_cast<size_t>(length), ' ');
      int64_t at = 0;
      SafetensorsHeader header = ParseSafetensorsHeader(json, file_bytes, "f");
      for (const SafetensorsEntry& entry : header.entries) {
        ASSERT_EQ(entry.begin, at);
        at = entry.end;
      }
      ASSERT_EQ(header.header_bytes + at, file_bytes);
      ++parsed;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kDataLoss) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace coat
