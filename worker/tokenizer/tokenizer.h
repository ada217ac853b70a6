// Text to token ids and back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coatrack/v1/job.pb.h"

namespace coat {

// Immutable after creation, so all methods may be called from any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;       // ids are in [0, vocab_size)
  virtual int32_t end_of_document() const = 0;  // never produced by Encode
  // Appends the ids of `text` to `ids`; no end-of-document token.
  virtual void Encode(std::string_view text, std::vector<int32_t>* ids) const = 0;
  // Inverse of Encode; the end-of-document token decodes to nothing.
  // Error(kInvalidArgument) naming position and id for an id outside [0, vocab_size).
  virtual std::string Decode(std::span<const int32_t> ids) const = 0;
};

// Every byte is its own id, 256 ends a document. Token i of a text is byte i, which lets the data
// loader address text files without encoding them.
inline constexpr int32_t kByteEndOfDocument = 256;
inline constexpr int64_t kByteVocabSize = 257;

// Error(kInvalidArgument) for a kind this build doesn't know. Unspecified means byte.
std::unique_ptr<Tokenizer> CreateTokenizer(coatrack::v1::Tokenizer kind);

}  // namespace coat
