// Element types, shapes and the non-owning view every operator takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace coat {

enum class DType : uint8_t { kF32, kBF16, kE4M3, kE5M2, kU16, kI32, kU8 };

int64_t ElementBytes(DType dtype);
const char* DTypeName(DType dtype);  // safetensors names: "F32", "BF16", "F8_E4M3", ...

enum class DeviceType : uint8_t { kCpu, kCuda };

// A row-major view of memory somebody else owns (the arena). Up to four dimensions; the last one
// may be padded: `ld` elements lie between the starts of two rows (ld >= last dimension).
// An empty view (data == nullptr) means "absent" wherever an argument is optional.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, 4> shape{};
  int64_t ld = 0;

  Tensor() = default;
  Tensor(void* data, DType dtype, std::initializer_list<int64_t> dims, int64_t ld = 0);

  bool empty() const { return data == nullptr; }
  int64_t dim(int i) const { return shape[static_cast<size_t>(i)]; }
  int64_t cols() const { return rank == 0 ? 0 : shape[static_cast<size_t>(rank - 1)]; }
  int64_t rows() const;   // product of all dimensions but the last; 1 when there is only one
  int64_t numel() const;  // rows() * cols()
  int64_t bytes() const;  // rows() * ld * ElementBytes: the storage that belongs to the view
  bool contiguous() const { return ld == cols(); }

  // The caller knows that T is the C++ type of dtype (char: raw bytes).
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }

  // Errors of the constructor and of all views: Error(kInternal) when out of range.
  Tensor Row(int64_t first, int64_t count) const;      // rows [first, first + count) as a 2-D view
  Tensor Columns(int64_t first, int64_t count) const;  // a 2-D view that keeps ld
  Tensor Reshape(std::initializer_list<int64_t> dims) const;  // contiguous views only
};

}  // namespace coat
