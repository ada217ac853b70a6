// Mutated texts: the reader never crashes, and what it refuses has a place and a message.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "coatrack/v1/daemon_config.pb.h"
#include "configs/spec/load.h"
#include "configs/spec/writer.h"

namespace coat {
namespace {

constexpr int kRoundsPerSeed = 1500;

std::vector<std::string> Corpus() {
  std::vector<std::string> texts;
  std::vector<std::filesystem::path> paths;
  for (const char* folder : {"/configs/jobs", "/configs/daemons", "/configs/models"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(COAT_SOURCE_DIR + std::string(folder))) {
      if (entry.path().extension() == ".yaml") paths.push_back(entry.path());
    }
  }
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed), corpus_(Corpus()) {}

  std::string Next() {
    std::string text = corpus_[Below(corpus_.size())];
    for (size_t n = 1 + Below(4); n > 0; --n) Mutate(&text);
    return text;
  }

 private:
  size_t Below(size_t bound) { return random_() % bound; }

  void Mutate(std::string* text) {
    static constexpr const char* kPieces[] = {"010",
                                              "<<: ",
                                              "*a",
                                              "&a ",
                                              "!!x ",
                                              "---\n",
                                              "...\n",
                                              "{",
                                              "}",
                                              "[",
                                              "]",
                                              ": ",
                                              "? ",
                                              "- ",
                                              "\"",
                                              "'",
                                              "|\n",
                                              ">\n",
                                              "#",
                                              "\t",
                                              "\n",
                                              "\r\n",
                                              "\0x",
                                              "~",
                                              "null",
                                              "1e999",
                                              "-0",
                                              "99999999999999999999",
                                              ".nan",
                                              "true",
                                              "%YAML 1.1\n",
                                              "\xEF\xBB\xBF",
                                              "\xFF\xFE",
                                              "\xC3",
                                              "\\u0000",
                                              "@",
                                              "`",
                                              ",",
                                              "  ",
                                              "30",
                                              "-1",
                                              "{}",
                                              "[]",
                                              "\"\\x\"",
                                              "{a: {b: {c: [",
                                              "! "};
    if (text->empty()) *text = "a";
    const size_t at = Below(text->size());
    switch (Below(6)) {
      case 0: text->insert(at, kPieces[Below(std::size(kPieces))]); break;
      case 1: text->erase(at, 1 + Below(12)); break;
      case 2: (*text)[at] = static_cast<char>(Below(256)); break;
      case 3: text->insert(at, text->substr(Below(text->size()), 1 + Below(60))); break;
      case 4: text->resize(at); break;
      case 5: text->replace(at, 1 + Below(4), kPieces[Below(std::size(kPieces))]); break;
    }
  }

  std::mt19937 random_;
  std::vector<std::string> corpus_;
};

void ExpectPlaced(const Violations& faults, const std::string& text) {
  for (const Violation& fault : faults) {
    EXPECT_FALSE(fault.description.empty()) << text;
    EXPECT_TRUE(fault.place.starts_with("fuzz.yaml:")) << fault.place << "\n" << text;
  }
}

class FuzzTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(FuzzTest, NeverCrashesAndAlwaysSaysWhere) {
  Mutator mutator(GetParam());
  int accepted = 0, refused = 0;
  for (int i = 0; i < kRoundsPerSeed; ++i) {
    const std::string text = mutator.Next();
    LoadedJob job;
    const Violations faults = LoadJobText(text, "fuzz.yaml", {}, &job);
    ExpectPlaced(faults, text);
    ++(faults.empty() ? accepted : refused);
    if (faults.empty()) {
      LoadedJob again;
      EXPECT_TRUE(LoadJobText(ToYaml(job.spec), "again", {}, &again).empty()) << text;
      EXPECT_EQ(CanonicalText(again.spec), CanonicalText(job.spec)) << text;
    }
    coatrack::v1::ServerConfig server;
    ExpectPlaced(ReadYaml(text, "fuzz.yaml", &server), text);
  }
  EXPECT_GT(accepted, kRoundsPerSeed / 100);
  EXPECT_GT(refused, kRoundsPerSeed / 4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FuzzTest, ::testing::Values(1u, 2u));

TEST(FuzzTest, PathsOfSetNeverCrash) {
  std::mt19937 random(3);
  static constexpr const char* kParts[] = {
      "train", ".",         "steps",     "[",      "]", "0", "labels", "data",
      "text",  "precision", "overrides", "recipe", "=", "1", "-",      "999999999999",
      "{",     "}",         "coat",      "\xFF"};
  for (int i = 0; i < 5000; ++i) {
    std::string assignment;
    for (size_t n = 1 + random() % 8; n > 0; --n)
      assignment += kParts[random() % std::size(kParts)];
    coatrack::v1::JobSpec spec;
    for (const Violation& fault : SetAssignment(&spec, assignment)) {
      EXPECT_TRUE(fault.place.starts_with("command line")) << assignment;
      EXPECT_FALSE(fault.description.empty()) << assignment;
    }
  }
}

}  // namespace
}  // namespace coat
