#include "configs/base/error.h"
#include "worker/tokenizer/tokenizer.h"

namespace coat {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocab_size() const override { return kByteVocabSize; }
  int32_t end_of_document() const override { return kByteEndOfDocument; }

  void Encode(std::string_view text, std::vector<int32_t>* ids) const override {
    ids->reserve(ids->size() + text.size());
    for (char c : text) ids->push_back(static_cast<unsigned char>(c));
  }

  std::string Decode(std::span<const int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= kByteVocabSize) {
        throw Error(Code::kInvalidArgument, "token " + std::to_string(i) + " is id " +
                                                std::to_string(ids[i]) +
                                                ", the byte tokenizer has ids 0 to 256");
      }
      if (ids[i] != kByteEndOfDocument) text.push_back(static_cast<char>(ids[i]));
    }
    return text;
  }
};

}  // namespace

std::unique_ptr<Tokenizer> CreateTokenizer(coatrack::v1::Tokenizer kind) {
  switch (kind) {
    case coatrack::v1::TOKENIZER_UNSPECIFIED:
    case coatrack::v1::TOKENIZER_BYTE: return std::make_unique<ByteTokenizer>();
    default:
      throw Error(Code::kInvalidArgument, "data.tokenizer: kind " +
                                              std::to_string(static_cast<int>(kind)) +
                                              " is not known here; use `byte`");
  }
}

}  // namespace coat
