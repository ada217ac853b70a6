// A data_root of a test's own, and the files and specs the tests are made of.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/refusal.h"
#include "worker/data/loader.h"

namespace coat {

class DataTest : public ::testing::Test {
 protected:
  explicit DataTest(const std::string& parent = ::testing::TempDir()) {
    std::string name = parent + "/coat-data-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = std::filesystem::canonical(name);
  }
  ~DataTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories(
        (root_ + "/" + name).substr(0, (root_ + "/" + name).rfind('/')));
    std::ofstream(root_ + "/" + name, std::ios::binary) << bytes;
  }

  template <typename T>
  static std::string Ids(const std::vector<T>& ids) {
    std::string bytes(ids.size() * sizeof(T), '\0');
    if (!ids.empty()) std::memcpy(bytes.data(), ids.data(), bytes.size());
    return bytes;
  }

  // An llm.c header announcing `count` ids.
  static std::string Header(int32_t magic, int32_t version, int32_t count) {
    std::vector<int32_t> words(256, 0);
    words[0] = magic;
    words[1] = version;
    words[2] = count;
    return Ids(words);
  }

  static coatrack::v1::JobSpec TokenSpec(const std::string& pattern, int64_t length,
                                         int64_t vocab_size, coatrack::v1::TokenFormat format) {
    coatrack::v1::JobSpec spec;
    spec.mutable_data()->add_tokens(pattern);
    spec.mutable_data()->set_token_format(format);
    spec.mutable_data()->set_validation_fraction(0);
    spec.mutable_model()->set_vocab_size(vocab_size);
    spec.mutable_train()->set_sequence_length(length);
    return spec;
  }

  static coatrack::v1::JobSpec TextSpec(const std::string& pattern, int64_t length) {
    coatrack::v1::JobSpec spec;
    spec.mutable_data()->add_text(pattern);
    spec.mutable_data()->set_validation_fraction(0);
    spec.mutable_train()->set_sequence_length(length);
    return spec;
  }

  Refusal OpenRefusal(const coatrack::v1::JobSpec& spec,
                      const coatrack::v1::DataManifest* expected = nullptr) const {
    return RefusalOf([&] { OpenDataset(spec, root_, expected); });
  }

  std::string root_;
};

}  // namespace coat
