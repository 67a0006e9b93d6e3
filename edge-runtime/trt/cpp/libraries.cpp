// Opens TensorRT and CUDA, and keeps the sentence of the last failure.
#include <dlfcn.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>

#include "shim.h"

namespace wk {
namespace {

thread_local char t_error[1024];

// TensorRT logs from threads of its own. Its first error of a call names the cause.
struct Log : nvinfer1::ILogger {
  std::mutex mutex;
  char first[512] = "";
  void log(Severity severity, char const *message) noexcept override {
    std::lock_guard<std::mutex> held(mutex);
    if (severity <= Severity::kERROR && !first[0]) std::strncpy(first, message, sizeof first - 1);
  }
} g_log;

void *open_first(std::initializer_list<char const *> names) {
  for (auto *name : names)
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

template <class F> bool find(void *library, char const *name, F &out) {
  return (out = reinterpret_cast<F>(dlsym(library, name))) != nullptr;
}

int32_t open_cuda(Libraries &out) {
  void *library = open_first({"libcudart.so.13", "libcudart.so.12", "libcudart.so"});
  if (!library) return fail(WK_TRT_UNAVAILABLE, "libcudart.so is not installed; install CUDA");
#define WK_FIND(NAME, ...) all = all && find(library, #NAME, out.NAME);
  bool all = find(library, "cudaGetErrorString", out.error_string);
  WK_CUDA_FUNCTIONS(WK_FIND)
  if (!all) return fail(WK_TRT_UNAVAILABLE, "libcudart.so is too old; install CUDA 12 or 13");
  // CUDA 12 has both, with two layouts. Only the name is read, the first member of each.
  if (!find(library, "cudaGetDeviceProperties_v2", out.device_properties))
    find(library, "cudaGetDeviceProperties", out.device_properties);
  return WK_TRT_OK;
}

} // namespace

int32_t fail(int32_t status, char const *format, ...) noexcept {
  std::lock_guard<std::mutex> held(g_log.mutex);
  va_list values;
  va_start(values, format);
  size_t n = std::vsnprintf(t_error, sizeof t_error, format, values);
  va_end(values);
  if (g_log.first[0] && n < sizeof t_error)
    std::snprintf(t_error + n, sizeof t_error - n, ": %s", g_log.first);
  g_log.first[0] = 0;
  return status;
}

nvinfer1::ILogger &fresh_log() noexcept {
  std::lock_guard<std::mutex> held(g_log.mutex);
  g_log.first[0] = 0;
  return g_log;
}

bool is_out_of_memory() noexcept {
  std::lock_guard<std::mutex> held(g_log.mutex);
  return std::strstr(g_log.first, "memory") || std::strstr(g_log.first, "Memory");
}

int32_t Libraries::cuda_failed(int error, char const *what) const {
  constexpr int kOutOfMemory = 2; // cudaErrorMemoryAllocation
  return fail(error == kOutOfMemory ? WK_TRT_MEMORY : WK_TRT_DEVICE, "%s: %s", what,
              error_string(error));
}

int32_t Libraries::open_inference(wk_trt_versions *versions) {
  // The version of the headers first; others only to name them.
  std::string own = "libnvinfer.so." + std::to_string(NV_TENSORRT_MAJOR);
  void *library = open_first({own.c_str(), "libnvinfer.so", "libnvinfer.so.11", "libnvinfer.so.10",
                              "libnvinfer.so.8"});
  if (versions) *versions = {NV_TENSORRT_VERSION, 0};
  constexpr int32_t kMissing = WK_TRT_UNAVAILABLE;
  if (!library) return fail(kMissing, "%s is not installed; install TensorRT", own.c_str());
  int32_t (*get_version)() = nullptr;
  if (find(library, "getInferLibVersion", get_version)) version = get_version();
  // Since 10.0 the major version is in the ten thousands, before in the thousands.
  int32_t unit = version >= 100000 ? 10000 : 1000;
  int32_t major = version / unit, minor = version % unit / 100;
  if (versions) versions->library = major * 10000 + version % unit;
  if (major < 10)
    return fail(kMissing, "TensorRT %d.%d is too old, 10.0 is needed; install JetPack 6 or newer",
                major, minor);
  if (major != NV_TENSORRT_MAJOR)
    return fail(kMissing,
                "TensorRT %d.%d is installed, but libwk_trt.so was built for %d.%d; build it again",
                major, minor, NV_TENSORRT_MAJOR, NV_TENSORRT_MINOR);
  if (!find(library, "createInferBuilder_INTERNAL", create_builder) ||
      !find(library, "createInferRuntime_INTERNAL", create_runtime))
    return fail(kMissing, "libnvinfer.so can't build engines; install all of TensorRT");
  return WK_TRT_OK;
}

int32_t Libraries::open_parser() {
  std::string own = "libnvonnxparser.so." + std::to_string(NV_TENSORRT_MAJOR);
  void *library = open_first({own.c_str(), "libnvonnxparser.so"});
  if (library && find(library, "createNvOnnxParser_INTERNAL", create_parser)) return WK_TRT_OK;
  return fail(WK_TRT_UNAVAILABLE, "%s is not installed; install libnvonnxparsers", own.c_str());
}

int32_t Libraries::open_all() {
  int32_t status = open_inference(nullptr);
  if (status == WK_TRT_OK) status = open_cuda(*this);
  if (status != WK_TRT_OK) return status;
  int count = 0;
  if (int error = cudaGetDeviceCount(&count)) return cuda_failed(error, "CUDA has no device");
  if (count < 1) return fail(WK_TRT_DEVICE, "CUDA has no device");
  // Sleeps while it waits for the device, so that the core decodes frames meanwhile.
  cudaSetDeviceFlags(4); // cudaDeviceScheduleBlockingSync
  return WK_TRT_OK;
}

} // namespace wk

extern "C" int32_t wk_trt_abi(void) { return WK_TRT_ABI; }

extern "C" size_t wk_trt_last_error(char *buffer, size_t len) {
  if (buffer && len) std::snprintf(buffer, len, "%s", wk::t_error);
  return std::strlen(wk::t_error);
}

extern "C" int32_t wk_trt_version(wk_trt_versions *out) {
  wk::fresh_log();
  return wk::guarded([&] { return wk::Libraries().open_inference(out); });
}

extern "C" int32_t wk_trt_probe(wk_trt_device *out) {
  wk::fresh_log();
  return wk::guarded([&]() -> int32_t {
    wk::Libraries cuda;
    if (int32_t status = cuda.open_all()) return status;
    // Larger than cudaDeviceProp of any version, about 1 KiB.
    alignas(16) char properties[16384] = "";
    *out = {};
    size_t free_bytes = 0, total_bytes = 0;
    int error = cuda.device_properties ? cuda.device_properties(properties, 0) : 1;
    // 75 and 76: cudaDevAttrComputeCapabilityMajor, cudaDevAttrComputeCapabilityMinor.
    if (!error) error = cuda.cudaDeviceGetAttribute(&out->major, 75, 0);
    if (!error) error = cuda.cudaDeviceGetAttribute(&out->minor, 76, 0);
    if (!error) error = cuda.cudaMemGetInfo(&free_bytes, &total_bytes);
    if (error) return cuda.cuda_failed(error, "CUDA does not describe the device");
    std::snprintf(out->name, WK_TRT_NAME, "%.255s", properties);
    out->free_bytes = free_bytes;
    out->total_bytes = total_bytes;
    return WK_TRT_OK;
  });
}
