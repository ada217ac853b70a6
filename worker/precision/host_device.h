// Marks inline functions that host code and CUDA kernels share.
#pragma once

#ifdef __CUDACC__
#define COAT_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define COAT_HOST_DEVICE inline
#endif
