// What the parts of the shim share: the log, the libraries. Not part of the ABI.
#pragma once

#include <NvInfer.h>
#include <NvOnnxParser.h>

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "wk_trt.h"

namespace wk {

// Functions of CUDA, whose enumerations are ints in the C ABI.
#define WK_CUDA_FUNCTIONS(F)                                                                       \
  F(cudaGetDeviceCount, int *)                                                                     \
  F(cudaDeviceGetAttribute, int *, int, int)                                                       \
  F(cudaMemGetInfo, size_t *, size_t *)                                                            \
  F(cudaSetDeviceFlags, unsigned)                                                                  \
  F(cudaMalloc, void **, size_t)                                                                   \
  F(cudaFree, void *)                                                                              \
  F(cudaMemcpyAsync, void *, void const *, size_t, int, cudaStream_t)                              \
  F(cudaStreamCreate, cudaStream_t *)                                                              \
  F(cudaStreamSynchronize, cudaStream_t)                                                           \
  F(cudaStreamDestroy, cudaStream_t)

struct Libraries {
  int32_t version = 0;
  void *(*create_builder)(void *, int32_t) = nullptr;
  void *(*create_runtime)(void *, int32_t) = nullptr;
  void *(*create_parser)(void *, void *, int) = nullptr;
  int (*device_properties)(void *, int) = nullptr;
  char const *(*error_string)(int) = nullptr;
#define WK_MEMBER(NAME, ...) int (*NAME)(__VA_ARGS__) = nullptr;
  WK_CUDA_FUNCTIONS(WK_MEMBER)
#undef WK_MEMBER

  // Opens libnvinfer and checks its version.
  int32_t open_inference(wk_trt_versions *versions);
  // Opens libcudart too and checks that there is a device.
  int32_t open_all();
  int32_t open_parser();
  int32_t cuda_failed(int error, char const *what) const;
};

// Keeps the sentence for wk_trt_last_error, with TensorRT's first message; returns `status`.
__attribute__((format(printf, 2, 3))) int32_t fail(int32_t status, char const *format,
                                                   ...) noexcept;
// The log, without the messages of earlier calls.
nvinfer1::ILogger &fresh_log() noexcept;
// Whether the first error in the log is a lack of memory.
bool is_out_of_memory() noexcept;

// Runs `body`, whose allocations may throw.
template <class Body> int32_t guarded(Body body) noexcept try {
  return body();
} catch (...) {
  return fail(WK_TRT_MEMORY, "out of memory");
}

inline void describe(wk_trt_tensor_info &out, char const *name, bool is_input,
                     nvinfer1::DataType type, nvinfer1::Dims const &dims) {
  out = {};
  std::strncpy(out.name, name, WK_TRT_NAME - 1);
  out.is_input = is_input;
  out.type = static_cast<int32_t>(type);
  out.rank = dims.nbDims;
  for (int32_t i = 0; i < dims.nbDims; i++) out.dims[i] = dims.d[i];
}

} // namespace wk
