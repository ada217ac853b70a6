#include "worker/trainer/weights_hash.h"

#include <algorithm>
#include <atomic>
#include <span>
#include <thread>

#include "configs/base/units.h"
#include "worker/checkpoint/sha256.h"

namespace coat {
namespace {

constexpr int kMaxThreads = 16;  // buffers of half a GiB

using Bytes = std::span<const char>;

std::vector<Bytes> Chunks(const std::vector<Parameter>& parameters) {
  std::vector<Bytes> chunks;
  for (const Parameter& p : parameters) {
    for (int64_t begin = 0; begin < p.master.bytes(); begin += kHashChunkBytes) {
      const int64_t size = std::min(kHashChunkBytes, p.master.bytes() - begin);
      chunks.emplace_back(p.master.as<char>() + begin, static_cast<size_t>(size));
    }
  }
  return chunks;
}

void HashOnHost(std::span<const Bytes> chunks, int threads, std::string* digests) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < chunks.size(); i = next++) {
      digests[i] = Sha256Hex({chunks[i].data(), chunks[i].size()});
    }
  };
  std::vector<std::jthread> helpers;
  const auto useful = std::min(static_cast<size_t>(threads), chunks.size());
  for (size_t t = 1; t < useful; ++t) helpers.emplace_back(work);
  work();
}

// While one half of the buffers is hashed the other one is filled.
void HashFromDevice(std::span<const Bytes> chunks, int threads, Ops* ops, std::string* digests) {
  const auto wave = static_cast<size_t>(threads);
  const int64_t half_bytes = threads * kHashChunkBytes;
  const std::shared_ptr<std::byte> buffers = ops->HostBuffer(2 * half_bytes);
  const auto fetch = [&](size_t begin) {
    char* place = reinterpret_cast<char*>(buffers.get()) + begin / wave % 2 * half_bytes;
    std::vector<Bytes> fetched;
    for (const Bytes& chunk : chunks.subspan(begin, std::min(wave, chunks.size() - begin))) {
      const Tensor from(const_cast<char*>(chunk.data()), DType::kU8,
                        {static_cast<int64_t>(chunk.size())});
      ops->ToHost(from, place);
      fetched.emplace_back(place, chunk.size());
      place += kHashChunkBytes;
    }
    ops->Synchronize();
    return fetched;
  };
  std::vector<Bytes> now = fetch(0);
  for (size_t begin = 0; begin < chunks.size(); begin += wave) {
    std::vector<Bytes> next;
    {
      const std::jthread hashing([&] { HashOnHost(now, threads, digests + begin); });
      if (begin + wave < chunks.size()) next = fetch(begin + wave);
    }
    now = std::move(next);
  }
}

}  // namespace

std::string WeightsHash(const std::vector<Parameter>& parameters, Ops* ops, int threads) {
  threads = std::clamp(threads, 1, kMaxThreads);
  const std::vector<Bytes> chunks = Chunks(parameters);
  std::vector<std::string> digests(chunks.size());
  if (ops->device() == DeviceType::kCpu) {
    HashOnHost(chunks, threads, digests.data());
  } else {
    HashFromDevice(chunks, threads, ops, digests.data());
  }
  Sha256 hash;
  auto digest = digests.begin();
  for (const Parameter& p : parameters) {
    hash.Update(p.name.c_str(), p.name.size() + 1);
    for (int64_t i = CeilDiv(p.master.bytes(), kHashChunkBytes); i > 0; --i, ++digest) {
      hash.Update(digest->data(), digest->size());
    }
  }
  return hash.Finish();
}

}  // namespace coat
