#include "worker/data/permutation.h"

#include <bit>

#include "configs/base/error.h"

namespace coat {
namespace {

// Finalizer of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

Permutation::Permutation(int64_t n, uint64_t seed, uint64_t stream) : n_(n) {
  Check(n >= 0, "permutation of a negative number of things");
  int bits = n <= 1 ? 0 : std::bit_width(static_cast<uint64_t>(n - 1));
  half_bits_ = (bits + 1) / 2;
  uint64_t state = Mix(seed + 0x9E3779B97F4A7C15ULL) ^ Mix(~stream);
  for (uint64_t& key : keys_) {
    state += 0x9E3779B97F4A7C15ULL;
    key = Mix(state);
  }
}

uint64_t Permutation::Encrypt(uint64_t x) const {
  uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = x >> half_bits_;
  uint64_t right = x & mask;
  for (uint64_t key : keys_) {
    uint64_t next = left ^ (Mix(right ^ key) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

int64_t Permutation::operator()(int64_t i) const {
  Check(i >= 0 && i < n_, "permutation index out of range");
  uint64_t x = static_cast<uint64_t>(i);
  do {
    x = Encrypt(x);
  } while (x >= static_cast<uint64_t>(n_));
  return static_cast<int64_t>(x);
}

}  // namespace coat
