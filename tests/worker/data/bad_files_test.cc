// Files that are refused, each with its path and offset.
#include <gmock/gmock.h>

#include <random>

#include "tests/worker/data/data_fixture.h"

namespace coat {
namespace {

using coatrack::v1::TOKEN_FORMAT_LLMC;
using coatrack::v1::TOKEN_FORMAT_UINT16;
using coatrack::v1::TOKEN_FORMAT_UINT32;
using ::testing::AllOf;
using ::testing::HasSubstr;

class BadFilesTest : public DataTest {
 protected:
  void ExpectRefused(const std::string& bytes, coatrack::v1::TokenFormat format,
                     const std::string& place, const std::string& what,
                     int64_t vocab_size = 1000) const {
    Write("a.bin", bytes);
    Refusal refusal = OpenRefusal(TokenSpec("a.bin", 4, vocab_size, format));
    EXPECT_EQ(refusal.code, Code::kInvalidArgument) << what;
    EXPECT_THAT(refusal.message,
                AllOf(HasSubstr(root_ + "/a.bin: offset " + place + ": "), HasSubstr(what)));
  }
};

TEST_F(BadFilesTest, IdsNotBelowTheVocabulary) {
  std::vector<uint16_t> narrow(100, 7);
  narrow[41] = 1000;
  narrow[77] = 2000;
  ExpectRefused(Ids(narrow), TOKEN_FORMAT_UINT16, "82", "id 1000");
  std::vector<uint32_t> wide(101, 7);
  wide[100] = 4'000'000'000u;
  ExpectRefused(Ids(wide), TOKEN_FORMAT_UINT32, "400", "id 4000000000");
  ExpectRefused(Header(20240520, 1, 100) + Ids(narrow), TOKEN_FORMAT_LLMC, "1106", "id 1000");
}

// The bad id lies behind the first block of the scan, and in the last place of a file.
TEST_F(BadFilesTest, IdsAreCheckedToTheEnd) {
  std::vector<uint16_t> ids((int64_t{9} << 20) / 2 + 1, 5);
  ids.back() = 1000;
  ExpectRefused(Ids(ids), TOKEN_FORMAT_UINT16, "9437184", "id 1000");
}

TEST_F(BadFilesTest, Uint16CannotExpressALargerVocabulary) {
  std::string bytes = Ids(std::vector<uint16_t>(10, 7));
  ExpectRefused(bytes, TOKEN_FORMAT_UINT16, "0", "model.vocab_size 65537", 65'537);
  ExpectRefused(Header(20240520, 1, 10) + bytes, TOKEN_FORMAT_LLMC, "1024",
                "write the ids as uint32", 128'256);
  Write("a.bin", bytes);
  EXPECT_EQ(OpenRefusal(TokenSpec("a.bin", 4, 65'536, TOKEN_FORMAT_UINT16)).code, Code::kOk);
}

TEST_F(BadFilesTest, HeaderAgainstFileSize) {
  std::string ids = Ids(std::vector<uint16_t>(10, 7));
  ExpectRefused(Header(20240520, 1, 11) + ids, TOKEN_FORMAT_LLMC, "8",
                "1046 bytes, but the file has 1044");
  ExpectRefused(Header(20240520, 1, 9) + ids, TOKEN_FORMAT_LLMC, "8", "announces 9 tokens");
  ExpectRefused(Header(20240520, 1, 10) + ids + "x", TOKEN_FORMAT_LLMC, "8", "has 1045");
  ExpectRefused(Header(20240520, 1, -10) + ids, TOKEN_FORMAT_LLMC, "8", "announces -10 tokens");
  ExpectRefused(Header(20240520, 1, 0), TOKEN_FORMAT_LLMC, "8", "announces 0 tokens");
  ExpectRefused(Header(20240801, 7, 10) + ids, TOKEN_FORMAT_LLMC, "8", "1064 bytes");
  ExpectRefused(Header(20240520, 1, INT32_MAX) + ids, TOKEN_FORMAT_LLMC, "8", "4294968318 bytes");
  ExpectRefused(Header(20240520, 1, 10).substr(0, 1000), TOKEN_FORMAT_LLMC, "0",
                "fewer than the 1024");
}

TEST_F(BadFilesTest, MagicAndVersion) {
  std::string ids = Ids(std::vector<uint16_t>(10, 7));
  ExpectRefused(Header(20240521, 1, 10) + ids, TOKEN_FORMAT_LLMC, "0", "set data.token_format");
  ExpectRefused(Header(20240520, 2, 10) + ids, TOKEN_FORMAT_LLMC, "4", "goes with version 1");
  ExpectRefused(Header(20240801, 1, 5) + ids, TOKEN_FORMAT_LLMC, "4", "goes with version 7");
}

TEST_F(BadFilesTest, NoWholeNumberOfIds) {
  ExpectRefused(std::string(101, '\1'), TOKEN_FORMAT_UINT16, "100", "a rest of 1 bytes", 300);
  ExpectRefused(std::string(103, '\1'), TOKEN_FORMAT_UINT32, "100", "a rest of 3 bytes", 300);
}

TEST_F(BadFilesTest, Empty) {
  for (auto format : {TOKEN_FORMAT_LLMC, TOKEN_FORMAT_UINT16, TOKEN_FORMAT_UINT32}) {
    ExpectRefused("", format, "0", "the file is empty");
  }
}

// "Wrong element type read as plausible garbage."
TEST_F(BadFilesTest, WrongElementType) {
  std::vector<uint32_t> wide;
  for (uint32_t i = 0; i < 100; ++i) wide.push_back(1 + i * 7 % 900);
  ExpectRefused(Ids(wide), TOKEN_FORMAT_UINT16, "2", "uint32 ids read as uint16");
  std::vector<uint16_t> narrow(wide.begin(), wide.end());
  ExpectRefused(Ids(narrow), TOKEN_FORMAT_UINT32, "0",
                "check model.vocab_size and data.token_format");
  ExpectRefused(Header(20240520, 1, 100) + Ids(narrow), TOKEN_FORMAT_UINT16, "0",
                "set data.token_format to llmc", 65'536);
  ExpectRefused("\x93NUMPY\x01" + std::string(121, ' ') + Ids(narrow), TOKEN_FORMAT_UINT16, "0",
                "NumPy header", 65'536);
}

TEST_F(BadFilesTest, ZerosAloneAreNoEvidenceOfAWrongType) {
  Write("a.bin", Ids(std::vector<uint16_t>(200, 0)));
  EXPECT_EQ(OpenRefusal(TokenSpec("a.bin", 4, 10, TOKEN_FORMAT_UINT16)).code, Code::kOk);
}

TEST_F(BadFilesTest, TooShortForOneWindow) {
  Write("a.bin", Ids<uint16_t>({1, 2, 3}));
  Write("b.bin", Ids<uint16_t>({4}));
  Refusal refusal = OpenRefusal(TokenSpec("*.bin", 4, 10, TOKEN_FORMAT_UINT16));
  EXPECT_EQ(refusal.code, Code::kInvalidArgument);
  EXPECT_THAT(refusal.message, AllOf(HasSubstr("a.bin"), HasSubstr("4 tokens in all"),
                                     HasSubstr("train.sequence_length + 1 = 5")));
  EXPECT_EQ(OpenRefusal(TokenSpec("*.bin", 3, 10, TOKEN_FORMAT_UINT16)).code, Code::kOk);
}

TEST_F(BadFilesTest, TheFirstBadFileIsNamed) {
  for (int i = 10; i < 30; ++i) {
    Write(std::to_string(i) + ".bin", Ids(std::vector<uint16_t>(50, i < 14 ? 5 : 2000)));
  }
  for (int repeat = 0; repeat < 10; ++repeat) {
    Refusal refusal = OpenRefusal(TokenSpec("*.bin", 4, 1000, TOKEN_FORMAT_UINT16));
    EXPECT_THAT(refusal.message, HasSubstr("/14.bin: offset 0: id 2000"));
  }
}

TEST_F(BadFilesTest, SpecsThatDoNotFitTheData) {
  Write("a.txt", "some text");
  auto spec = TextSpec("a.txt", 4);
  spec.mutable_model()->set_vocab_size(256);
  EXPECT_THAT(OpenRefusal(spec).message, HasSubstr("smaller than the tokenizer's 257"));
  spec.mutable_model()->set_vocab_size(257);
  EXPECT_EQ(OpenRefusal(spec).code, Code::kOk);
  spec.mutable_data()->add_tokens("a.txt");
  EXPECT_THAT(OpenRefusal(spec).message, HasSubstr("exactly one of `text` and `tokens`"));
  spec.mutable_data()->clear_text();
  spec.mutable_model()->clear_vocab_size();
  EXPECT_THAT(OpenRefusal(spec).message, HasSubstr("model.vocab_size must be set"));
  EXPECT_THAT(OpenRefusal(TextSpec("a.txt", 0)).message, HasSubstr("train.sequence_length"));
}

// Whatever the bytes: a dataset whose ids lie in the vocabulary, or a refusal. Headers are mostly
// right, so that the checks behind the first one are reached.
TEST_F(BadFilesTest, RandomFilesAreReadOrRefused) {
  std::mt19937 random(1);
  int opened = 0, refused = 0;
  for (int i = 0; i < 2000; ++i) {
    auto pick = [&](auto... values) {
      int32_t all[] = {values...};
      return all[random() % (sizeof...(values))];
    };
    int32_t count = pick(0, 1, 5, 20, 40, -1, INT32_MAX, INT32_MIN);
    std::string bytes = Header(pick(20240520, 20240801, 20240520, 7), pick(1, 7, 1, 0), count);
    for (int32_t n = pick(0, 10, 40, 80, 160, 161); n > 0; --n)
      bytes.push_back(static_cast<char>(random() % 3));
    if (random() % 8 == 0) bytes.resize(random() % 1100);
    Write("a.bin", bytes);
    auto spec = TokenSpec("a.bin", 3, pick(3, 600, 60'000, 1 << 30),
                          static_cast<coatrack::v1::TokenFormat>(pick(1, 1, 1, 2, 3)));
    try {
      auto dataset = OpenDataset(spec, root_, nullptr);
      for (int64_t k = 0; k < dataset->train_samples(); ++k) {
        for (int32_t id : dataset->Train(0, k).tokens) {
          ASSERT_GE(id, 0);
          ASSERT_LT(id, spec.model().vocab_size());
        }
      }
      ++opened;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::kInvalidArgument) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(opened, 20);
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace coat
