#include "worker/tensor/tensor.h"

#include <string>

#include "configs/base/error.h"

namespace coat {

int64_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kBF16:
    case DType::kU16: return 2;
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8: return 1;
  }
  throw Error(Code::kInternal, "unknown element type " + std::to_string(static_cast<int>(dtype)));
}

const char* DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32: return "F32";
    case DType::kBF16: return "BF16";
    case DType::kE4M3: return "F8_E4M3";
    case DType::kE5M2: return "F8_E5M2";
    case DType::kU16: return "U16";
    case DType::kI32: return "I32";
    case DType::kU8: return "U8";
  }
  return "unknown";
}

Tensor::Tensor(void* data, DType dtype, std::initializer_list<int64_t> dims, int64_t ld)
    : data(data), dtype(dtype), rank(static_cast<int>(dims.size())) {
  Check(dims.size() >= 1 && dims.size() <= shape.size(),
        "a tensor has one to four dimensions, not " + std::to_string(dims.size()));
  size_t i = 0;
  for (int64_t dim : dims) {
    Check(dim >= 0, "a tensor dimension is negative: " + std::to_string(dim));
    shape[i++] = dim;
  }
  this->ld = ld == 0 ? cols() : ld;
  Check(this->ld >= cols(), "row stride " + std::to_string(ld) + " is less than the " +
                                std::to_string(cols()) + " elements of a row");
}

int64_t Tensor::rows() const {
  int64_t product = rank == 0 ? 0 : 1;
  for (int i = 0; i + 1 < rank; ++i) product *= dim(i);
  return product;
}

int64_t Tensor::numel() const { return rows() * cols(); }

int64_t Tensor::bytes() const { return rows() * ld * ElementBytes(dtype); }

Tensor Tensor::Row(int64_t first, int64_t count) const {
  Check(first >= 0 && count >= 0 && first + count <= rows(),
        "rows " + std::to_string(first) + " to " + std::to_string(first + count) +
            " of a tensor of " + std::to_string(rows()) + " rows");
  return Tensor(as<char>() + first * ld * ElementBytes(dtype), dtype, {count, cols()}, ld);
}

Tensor Tensor::Columns(int64_t first, int64_t count) const {
  Check(first >= 0 && count >= 0 && first + count <= cols(),
        "columns " + std::to_string(first) + " to " + std::to_string(first + count) +
            " of a tensor of " + std::to_string(cols()) + " columns");
  return Tensor(as<char>() + first * ElementBytes(dtype), dtype, {rows(), count}, ld);
}

Tensor Tensor::Reshape(std::initializer_list<int64_t> dims) const {
  Tensor out(data, dtype, dims);
  Check(contiguous() && out.numel() == numel(),
        "a view of " + std::to_string(numel()) + " elements, row stride " + std::to_string(ld) +
            ", cannot be reshaped to " + std::to_string(out.numel()) + " elements");
  return out;
}

}  // namespace coat
