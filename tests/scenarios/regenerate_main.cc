// Rewrites the outputs of transcripts. On purpose only; read the difference before committing it.
#include <cstdio>

#include "tests/scenarios/scenario.h"

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    coat::testing::WriteFile(argv[i], coat::Scenario::Replay(coat::testing::ReadFile(argv[i])));
    std::printf("%s\n", argv[i]);
  }
  return argc > 1 ? 0 : 2;
}
