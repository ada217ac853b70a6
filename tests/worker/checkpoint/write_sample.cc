// Writes a checkpoint of three known tensors below argv[1], for readers of other makers.
#include <cstdint>

#include "worker/checkpoint/checkpoint.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  float weight[] = {0, 1, 2, 3, 4, 5};
  int32_t counts[] = {7, -7};
  uint8_t bytes[] = {1, 2, 255};
  coat::CheckpointInfo info;
  info.step = 1;
  info.attempt = 1;
  coat::WriteShard(coat::TemporaryDir(argv[1], 1, 1), 0,
                   {{"bytes", coat::DType::kU8, {3}, 0, 3, bytes},
                    {"weight", coat::DType::kF32, {2, 3}, 0, 6, weight},
                    {"counts", coat::DType::kI32, {2}, 0, 2, counts}});
  coat::Commit(argv[1], info, 1);
  return 0;
}
