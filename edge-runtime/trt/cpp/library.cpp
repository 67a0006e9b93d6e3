// Opens TensorRT and passes its log on.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "shim.h"

namespace wk {
namespace {

struct Log : nvinfer1::ILogger {
  std::atomic<wk_trt_log> receiver{nullptr};
  void log(Severity level, char const *message) noexcept override {
    auto receive = receiver.load();
    if (receive && level <= Severity::kINFO) receive(static_cast<int32_t>(level), message);
  }
} g_log;

} // namespace

void *log() noexcept { return static_cast<nvinfer1::ILogger *>(&g_log); }

int32_t report(int32_t status, char const *sentence) noexcept {
  if (auto receive = g_log.receiver.load()) receive(WK_TRT_SENTENCE, sentence);
  return status;
}

void *find(std::string const &library, char const *function,
           std::initializer_list<std::string> others) {
  std::string own = library + "." + std::to_string(NV_TENSORRT_MAJOR);
  std::vector<std::string> names{own, library};
  names.insert(names.end(), others);
  void *opened = nullptr;
  for (size_t i = 0; !opened && i < names.size(); i++)
    opened = dlopen(names[i].c_str(), RTLD_NOW | RTLD_LOCAL);
  need(opened, WK_TRT_UNAVAILABLE, own + " is not installed; install TensorRT");
  void *found = dlsym(opened, function);
  need(found, WK_TRT_UNAVAILABLE, library + " has no " + function + "; install all of TensorRT");
  return found;
}

wk_trt_tensor_info describe(char const *name, bool is_input, nvinfer1::DataType type,
                            nvinfer1::Dims const &dims) {
  wk_trt_tensor_info info{"", is_input, static_cast<int32_t>(type), dims.nbDims, 0, {}};
  std::strncpy(info.name, name, WK_TRT_NAME - 1);
  for (int32_t i = 0; i < dims.nbDims; i++) info.dims[i] = dims.d[i];
  return info;
}

nvinfer1::Dims dims_of(int64_t const *lengths, int32_t rank) {
  nvinfer1::Dims dims{rank, {}};
  for (int32_t i = 0; i < rank; i++) dims.d[i] = lengths[i];
  return dims;
}

} // namespace wk

extern "C" int32_t wk_trt_abi(void) { return WK_TRT_ABI; }

extern "C" int32_t wk_trt_start(wk_trt_log log, wk_trt_versions *out) {
  wk::g_log.receiver = log;
  return wk::guarded([&] {
    // Other majors only so that the caller can name the one that is here.
    void *get_version = wk::find("libnvinfer.so", "getInferLibVersion",
                                 {"libnvinfer.so.11", "libnvinfer.so.10", "libnvinfer.so.8"});
    *out = {NV_TENSORRT_VERSION, reinterpret_cast<int32_t (*)()>(get_version)()};
  });
}
