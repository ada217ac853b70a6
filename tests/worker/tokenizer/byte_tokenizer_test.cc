#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "configs/base/error.h"
#include "worker/tokenizer/tokenizer.h"

namespace coat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ByteTokenizer, EveryByteIsItsOwnId) {
  auto tokenizer = CreateTokenizer(coatrack::v1::TOKENIZER_BYTE);
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->end_of_document(), 256);
  std::string text;
  for (int i = 0; i < 256; ++i) text.push_back(static_cast<char>(i));
  std::vector<int32_t> ids = {7};
  tokenizer->Encode(text, &ids);
  ASSERT_EQ(ids.size(), 257u);
  EXPECT_EQ(ids[0], 7);  // appended to, not replaced
  for (int i = 0; i < 256; ++i) EXPECT_EQ(ids[static_cast<size_t>(i) + 1], i);
  EXPECT_EQ(tokenizer->Decode(std::span(ids).subspan(1)), text);
}

TEST(ByteTokenizer, EndTokenDecodesToNothing) {
  auto tokenizer = CreateTokenizer(coatrack::v1::TOKENIZER_UNSPECIFIED);
  std::vector<int32_t> ids = {'a', kByteEndOfDocument, 'b', kByteEndOfDocument};
  EXPECT_EQ(tokenizer->Decode(ids), "ab");
  std::vector<int32_t> none;
  tokenizer->Encode("", &none);
  EXPECT_THAT(none, ElementsAre());
}

TEST(ByteTokenizer, ForeignIdIsNamedWithItsPlace) {
  auto tokenizer = CreateTokenizer(coatrack::v1::TOKENIZER_BYTE);
  for (int32_t id : {-1, 257, INT32_MAX}) {
    std::vector<int32_t> ids = {1, 2, id};
    try {
      tokenizer->Decode(ids);
      FAIL() << id;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kInvalidArgument);
      EXPECT_THAT(error.what(), HasSubstr("token 2 is id " + std::to_string(id)));
    }
  }
}

TEST(ByteTokenizer, UnknownKindIsRefused) {
  try {
    CreateTokenizer(static_cast<coatrack::v1::Tokenizer>(99));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("data.tokenizer"));
  }
}

}  // namespace
}  // namespace coat
