#include "tests/scenarios/scenario.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace coat {
namespace {

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(COAT_SOURCE_DIR "/tests/scenarios/transcripts")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ScenarioTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, PrintsWhatTheTranscriptSays) {
  const std::string path =
      std::string(COAT_SOURCE_DIR "/tests/scenarios/transcripts/") + GetParam() + ".txt";
  const std::string transcript = testing::ReadFile(path);
  ASSERT_FALSE(transcript.empty()) << path;
  EXPECT_EQ(Scenario::Replay(transcript), transcript)
      << "if the change is meant: coat-scenarios-regenerate " << path;
}

INSTANTIATE_TEST_SUITE_P(All, ScenarioTest, ::testing::ValuesIn(Transcripts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace coat
