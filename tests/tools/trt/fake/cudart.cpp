// A libcudart whose device memory is memory of the host, kept apart by a list of allocations.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "fake.h"

namespace {

enum { kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kOldDriver = 35, kNoDevice = 100 };
std::mutex g_mutex;
std::map<char const *, size_t> g_allocated;

} // namespace

extern "C" {

int wk_fake_is_device(void const *address, size_t bytes) {
  std::lock_guard<std::mutex> held(g_mutex);
  auto *at = static_cast<char const *>(address);
  auto found = g_allocated.find(at);
  return found != g_allocated.end() && bytes <= found->second;
}

int cudaGetDeviceCount(int *count) {
  if (is_mode("probe-crash")) std::abort();
  if (is_mode("probe-hang")) sleep(3600);
  *count = 0;
  if (is_mode("old-driver")) return kOldDriver;
  *count = is_mode("no-device") ? 0 : 1;
  return *count ? kSuccess : kNoDevice;
}

int cudaGetDeviceProperties(void *properties, int) {
  std::strcpy(static_cast<char *>(properties), "Fake GPU");
  return kSuccess;
}

int cudaDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75 ? 8 : 7;
  return kSuccess;
}

int cudaMemGetInfo(size_t *free, size_t *total) {
  *free = size_t{4} << 30;
  *total = size_t{8} << 30;
  return kSuccess;
}

int cudaSetDeviceFlags(unsigned) { return kSuccess; }

int cudaMalloc(void **out, size_t bytes) {
  if (is_mode("out-of-memory")) return kOutOfMemory;
  *out = std::malloc(bytes);
  std::lock_guard<std::mutex> held(g_mutex);
  g_allocated[static_cast<char *>(*out)] = bytes;
  return kSuccess;
}

int cudaFree(void *address) {
  if (!address) return kSuccess;
  std::lock_guard<std::mutex> held(g_mutex);
  if (!g_allocated.erase(static_cast<char *>(address))) return kInvalidValue;
  std::free(address);
  return kSuccess;
}

int cudaMemcpyAsync(void *to, void const *from, size_t bytes, int kind, cudaStream_t) {
  bool fits = kind == 1 ? wk_fake_is_device(to, bytes) && !wk_fake_is_device(from, 0)
                        : wk_fake_is_device(from, bytes) && !wk_fake_is_device(to, 0);
  if (!fits || (kind != 1 && kind != 2)) return kInvalidValue;
  std::memcpy(to, from, bytes);
  return kSuccess;
}

int cudaStreamCreate(cudaStream_t *out) {
  *out = reinterpret_cast<cudaStream_t>(std::malloc(1));
  return kSuccess;
}
int cudaStreamSynchronize(cudaStream_t stream) { return stream ? kSuccess : kInvalidValue; }
int cudaStreamDestroy(cudaStream_t stream) {
  std::free(stream);
  return kSuccess;
}

char const *cudaGetErrorString(int error) {
  switch (error) {
  case kOutOfMemory: return "out of memory";
  case kOldDriver: return "CUDA driver version is insufficient for CUDA runtime version";
  case kNoDevice: return "no CUDA-capable device is detected";
  default: return "invalid argument";
  }
}
}
