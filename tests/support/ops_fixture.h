// One test body for every backend: buffers on the device, outputs poisoned, overruns found.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "tests/support/gpu.h"
#include "tests/support/ops_reference.h"
#include "worker/memory/device_memory.h"
#include "worker/ops/ops.h"
#include "worker/ops/workspace.h"
#include "worker/precision/fp8.h"

namespace coat {

using testing::TestDevices;

inline std::string DeviceCaseName(const ::testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

class OpsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ops_ = CreateOps(GetParam(), 1);
    WorkspaceShape shape;
    shape.hidden = 5120;
    UseWorkspace(shape);
  }

  void TearDown() override {
    for (const Tensor& guard : guards_) {
      for (uint8_t byte : Bytes(guard)) {
        ASSERT_EQ(byte, kPoison) << "an operator wrote behind the end of a buffer";
      }
    }
  }

  Ops& ops() { return *ops_; }
  bool on_cpu() const { return GetParam() == "cpu"; }
  // A tolerance that differs by device.
  double PerDevice(double cpu, double cuda) const { return on_cpu() ? cpu : cuda; }

  void UseWorkspace(const WorkspaceShape& shape) {
    const DeviceType device = on_cpu() ? DeviceType::kCpu : DeviceType::kCuda;
    ops_->SetWorkspace(Out(DType::kU8, {WorkspaceBytes(device, shape)}));
  }

  // Device memory filled with 0xFF: NaN in every floating-point format, behind it a guard.
  Tensor Out(DType dtype, std::initializer_list<int64_t> dims, int64_t ld = 0) {
    const Tensor size(nullptr, dtype, dims, ld);
    const int64_t bytes = size.bytes() + kGuardBytes;
    memory_.push_back(ReserveDeviceMemory(GetParam(), bytes));
    const Tensor x(memory_.back()->data(), dtype, dims, ld);
    const Tensor all(x.data, DType::kU8, {bytes});
    ops_->ToDevice(std::vector<uint8_t>(static_cast<size_t>(bytes), kPoison).data(), all);
    guards_.push_back(Tensor(x.as<char>() + x.bytes(), DType::kU8, {kGuardBytes}));
    return x;
  }
  // An FP8 operand: padded row stride and rows, the padding rows zero.
  Tensor OutFp8(DType dtype, int64_t rows, int64_t cols) {
    const Tensor all = Out(dtype, {RoundUp(rows, 16), cols}, RoundUp(cols, 16));
    return all.Row(0, rows);
  }

  // A tensor holding `values` (rows x cols, no padding), rounded to `dtype`.
  Tensor Put(DType dtype, std::initializer_list<int64_t> dims, const std::vector<float>& values,
             int64_t ld = 0) {
    const Tensor x = Out(dtype, dims, ld);
    std::vector<uint8_t> bytes = Bytes(x);
    const int64_t size = ElementBytes(dtype);
    for (int64_t row = 0; row < x.rows(); ++row) {
      for (int64_t col = 0; col < x.cols(); ++col) {
        Encode(dtype, values.at(static_cast<size_t>(row * x.cols() + col)),
               bytes.data() + (row * x.ld + col) * size);
      }
    }
    ops_->ToDevice(bytes.data(), x);
    return x;
  }
  Tensor PutInts(const std::vector<int32_t>& values) {
    const Tensor x = Out(DType::kI32, {static_cast<int64_t>(values.size())});
    ops_->ToDevice(values.data(), x);
    return x;
  }
  Tensor PutScalar(float value) { return Put(DType::kF32, {1}, {value}); }
  // FP8 codes in a padded operand, padding zero.
  Tensor PutCodes(DType dtype, int64_t rows, int64_t cols, const std::vector<uint8_t>& codes) {
    const Tensor x = OutFp8(dtype, rows, cols);
    std::vector<uint8_t> bytes(static_cast<size_t>(x.bytes()), 0);
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(codes.begin() + row * cols, cols, bytes.begin() + row * x.ld);
    }
    ops_->ToDevice(bytes.data(), x);
    return x;
  }
  GroupQuantized OutGroups(int64_t rows, int64_t cols, int segments) {
    const int64_t groups = segments * CeilDiv(cols / segments, 16);
    return {Out(DType::kE4M3, {rows, cols}), Out(DType::kBF16, {rows, groups}), segments};
  }
  // Codes and scales by the definition, on the device; the scales as a vector, which operators must
  // read like the matrix that OutGroups makes.
  GroupQuantized PutGroups(const ReferenceGroups& groups, int64_t rows, int64_t cols,
                           int segments) {
    GroupQuantized out = OutGroups(rows, cols, segments);
    ops_->ToDevice(groups.codes.data(), out.codes);
    std::vector<uint16_t> scales;
    for (float scale : groups.scales) scales.push_back(Bf16FromFloat(scale));
    ops_->ToDevice(scales.data(), out.scales);
    out.scales = Tensor(out.scales.data, DType::kBF16, {out.scales.numel()});
    return out;
  }

  // All bytes, padding included.
  std::vector<uint8_t> Bytes(const Tensor& x) {
    std::vector<uint8_t> bytes(static_cast<size_t>(x.bytes()));
    ops_->ToHost(x, bytes.data());
    ops_->Synchronize();
    return bytes;
  }
  // rows x cols without padding, decoded.
  std::vector<float> Get(const Tensor& x) {
    const std::vector<uint8_t> bytes = Bytes(x);
    std::vector<float> out;
    out.reserve(static_cast<size_t>(x.numel()));
    for (int64_t row = 0; row < x.rows(); ++row) {
      for (int64_t col = 0; col < x.cols(); ++col) {
        out.push_back(Decode(x.dtype, bytes.data() + (row * x.ld + col) * ElementBytes(x.dtype)));
      }
    }
    return out;
  }
  // rows x cols bytes of an FP8 matrix.
  std::vector<uint8_t> Codes(const Tensor& x) {
    const std::vector<uint8_t> bytes = Bytes(x);
    std::vector<uint8_t> out;
    for (int64_t row = 0; row < x.rows(); ++row) {
      out.insert(out.end(), bytes.begin() + row * x.ld, bytes.begin() + row * x.ld + x.cols());
    }
    return out;
  }
  int32_t GetInt(const Tensor& x) {
    int32_t value = 0;
    ops_->ToHost(x, &value);
    ops_->Synchronize();
    return value;
  }

  // All bytes between cols and ld are zero.
  void ExpectPaddingZero(const Tensor& x) {
    const std::vector<uint8_t> bytes = Bytes(x);
    for (int64_t row = 0; row < x.rows(); ++row) {
      const int64_t size = ElementBytes(x.dtype);
      for (int64_t i = x.cols() * size; i < x.ld * size; ++i) {
        ASSERT_EQ(bytes[static_cast<size_t>(row * x.ld * size + i)], 0)
            << "padding at row " << row << ", byte " << i;
      }
    }
  }
  // `transposed` holds the codes of `x`, transposed.
  void ExpectTransposed(const Tensor& x, const Tensor& transposed) {
    const std::vector<uint8_t> codes = Codes(x), other = Codes(transposed);
    ASSERT_EQ(x.rows(), transposed.cols());
    ASSERT_EQ(x.cols(), transposed.rows());
    for (int64_t row = 0; row < x.rows(); ++row) {
      for (int64_t col = 0; col < x.cols(); ++col) {
        ASSERT_EQ(codes[static_cast<size_t>(row * x.cols() + col)],
                  other[static_cast<size_t>(col * x.rows() + row)])
            << "at (" << row << ", " << col << ")";
      }
    }
  }

 private:
  static constexpr uint8_t kPoison = 0xFF;
  static constexpr int64_t kGuardBytes = 64;

  static void Encode(DType dtype, float value, uint8_t* to) {
    if (dtype == DType::kF32) {
      std::memcpy(to, &value, sizeof(value));
    } else {
      const uint16_t bits = Bf16FromFloat(value);
      std::memcpy(to, &bits, sizeof(bits));
    }
  }
  static float Decode(DType dtype, const uint8_t* from) {
    float value = 0;
    uint16_t bits = 0;
    switch (dtype) {
      case DType::kF32: std::memcpy(&value, from, sizeof(value)); return value;
      case DType::kBF16: std::memcpy(&bits, from, sizeof(bits)); return FloatFromBf16(bits);
      default: return static_cast<float>(CodeValue(dtype, *from));
    }
  }

  std::vector<std::unique_ptr<DeviceMemory>> memory_;
  std::unique_ptr<Ops> ops_;
  std::vector<Tensor> guards_;
};

}  // namespace coat
