// A checkpoint folder of a test's own, tensors with known values, and saves by several ranks.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/refusal.h"
#include "worker/checkpoint/checkpoint.h"

namespace coat {

// Tensors of all element types whose bytes follow from (tensor, byte, salt).
class State {
 public:
  explicit State(int salt = 0) {
    Add("embed", DType::kF32, {57, 40}, salt);
    Add("block.0.qkv", DType::kBF16, {33, 65}, salt);
    Add("block.0.qkv.m", DType::kE4M3, {33, 65}, salt);
    Add("block.0.qkv.v", DType::kE5M2, {33, 65}, salt);
    Add("block.0.qkv.k", DType::kU16, {17}, salt);  // ceil(2145 / 128): a short last group
    Add("block.0.qkv.a", DType::kF32, {17}, salt);
    Add("tokens", DType::kI32, {2, 3, 4}, salt);
    Add("flag", DType::kU8, {1}, salt);
    Add("scalar", DType::kF32, {}, salt);
    Add("nothing", DType::kF32, {0, 4}, salt);
  }

  const std::vector<HostTensor>& tensors() const { return tensors_; }
  const std::vector<unsigned char>& bytes(size_t i) const { return bytes_[i]; }

 private:
  void Add(const std::string& name, DType dtype, const std::vector<int64_t>& shape, int salt) {
    int64_t count = 1;
    for (int64_t dimension : shape) count *= dimension;
    std::vector<unsigned char> bytes(static_cast<size_t>(count * ElementBytes(dtype)));
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<unsigned char>(i * 7 + tensors_.size() * 31 + i / 256 +
                                            static_cast<size_t>(salt) * 101);
    }
    bytes_.push_back(std::move(bytes));
    tensors_.push_back({name, dtype, shape, 0, count, bytes_.back().data()});
  }

  std::vector<std::vector<unsigned char>> bytes_;
  std::vector<HostTensor> tensors_;
};

inline std::string ReadBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline void WriteBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline CheckpointInfo MakeInfo(int64_t step, int32_t attempt, bool finite = true) {
  CheckpointInfo info;
  info.step = step;
  info.attempt = attempt;
  info.time_ms = 1'700'000'000'000 + step;
  info.finite = finite;
  info.spec_hash = "spec";
  info.weights_hash = "weights";
  info.state = {{"t", std::to_string(step)}, {"spec", "{\"name\":\"tiny\"}"}};
  return info;
}

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() {
    std::string name = ::testing::TempDir() + "coat-checkpoint-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    root_ = name;
    dir_ = root_ + "/job";
  }
  ~CheckpointTest() override { std::filesystem::remove_all(root_); }

  CheckpointInfo Save(int64_t step, int32_t attempt = 1, int world_size = 1, bool finite = true) {
    State state(static_cast<int>(step));
    for (int rank = 0; rank < world_size; ++rank) {
      WriteShard(TemporaryDir(dir_, step, attempt), rank,
                 AssignToRank(state.tensors(), rank, world_size));
    }
    return Commit(dir_, MakeInfo(step, attempt, finite), world_size);
  }

  // Every element equals that of the state saved at `step`.
  static void ExpectState(const CheckpointReader& reader, int64_t step) {
    State state(static_cast<int>(step));
    for (size_t i = 0; i < state.tensors().size(); ++i) {
      const HostTensor& tensor = state.tensors()[i];
      std::vector<unsigned char> bytes(state.bytes(i).size());
      reader.Read(tensor.name, 0, tensor.count, bytes.data());
      EXPECT_EQ(bytes, state.bytes(i)) << tensor.name << " of step " << step;
    }
  }

  std::vector<std::string> Entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::string root_;
  std::string dir_;
};

}  // namespace coat
