// A pseudo-random order of n things without a table.
#pragma once

#include <cstdint>

namespace coat {

// A bijection of [0, n) chosen by (seed, stream): a balanced Feistel network of six rounds on the
// least even number of bits that holds n, walked until the value falls below n (fewer than four
// evaluations on average). Integer arithmetic only, so it is the same on every platform; changing
// it changes the order of every resumed run.
class Permutation {
 public:
  Permutation(int64_t n, uint64_t seed, uint64_t stream);
  int64_t size() const { return n_; }
  // i in [0, n).
  int64_t operator()(int64_t i) const;

 private:
  static constexpr int kRounds = 6;
  uint64_t Encrypt(uint64_t x) const;

  int64_t n_;
  int half_bits_;
  uint64_t keys_[kRounds];
};

}  // namespace coat
