// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) and
// stochastic rounding to BF16 (NUMERICS 5). Shared by host and device.
#pragma once

#include <cstdint>

#include "worker/precision/bf16.h"
#include "worker/precision/host_device.h"

namespace coat {

struct PhiloxBlock {
  uint32_t word[4];
};

// Ten rounds on `counter` under the 64-bit key.
COAT_HOST_DEVICE PhiloxBlock Philox(PhiloxBlock counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0;
    const uint64_t product1 = uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(product1);
    c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Random words of elements 4 block .. 4 block + 3 of stored tensor `id` in applied update t: the
// counter is (block low, block high, id, t), so the bits do not depend on sharding or threads.
COAT_HOST_DEVICE PhiloxBlock RoundingWords(uint64_t seed, int64_t block, uint32_t id, int32_t t) {
  const uint64_t index = static_cast<uint64_t>(block);
  return Philox({{static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), id,
                  static_cast<uint32_t>(t)}},
                seed);
}

// BF16 bits of x, rounded up in magnitude with probability (dropped bits) / 2^16.
COAT_HOST_DEVICE uint16_t StochasticBf16(float x, uint32_t random) {
  return static_cast<uint16_t>((FloatBits(x) + (random & 0xFFFFu)) >> 16);
}

}  // namespace coat
