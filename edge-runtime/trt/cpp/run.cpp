// An engine that runs on buffers of the device.
#include "shim.h"

using namespace nvinfer1;

struct wk_trt {
  // Destroyed in the opposite order.
  std::unique_ptr<IRuntime> runtime;
  std::unique_ptr<ICudaEngine> engine;
  std::unique_ptr<IExecutionContext> context;
};

extern "C" {

int32_t wk_trt_open(const void *blob, size_t len, wk_trt **out) {
  return wk::guarded([&] {
    auto runtime = wk::create<IRuntime>("libnvinfer.so", "createInferRuntime_INTERNAL", wk::log(),
                                        int32_t{NV_TENSORRT_VERSION});
    wk::need(runtime, WK_TRT_DEVICE, "TensorRT's runtime does not start");
    std::unique_ptr<ICudaEngine> engine(runtime->deserializeCudaEngine(blob, len));
    wk::need(engine, WK_TRT_ENGINE, "TensorRT can't read the engine");
    std::unique_ptr<IExecutionContext> context(engine->createExecutionContext());
    wk::need(context, WK_TRT_MEMORY, "TensorRT can't prepare the engine");
    *out = new wk_trt{std::move(runtime), std::move(engine), std::move(context)};
  });
}

int32_t wk_trt_tensors(const wk_trt *trt) { return trt->engine->getNbIOTensors(); }

void wk_trt_tensor(const wk_trt *trt, int32_t index, wk_trt_tensor_info *out) {
  char const *name = trt->engine->getIOTensorName(index);
  bool is_input = trt->engine->getTensorIOMode(name) == TensorIOMode::kINPUT;
  *out = wk::describe(name, is_input, trt->engine->getTensorDataType(name),
                      trt->context->getTensorShape(name));
}

int32_t wk_trt_set_shape(wk_trt *trt, int32_t index, const int64_t *dims, int32_t rank) {
  return wk::guarded([&] {
    char const *name = trt->engine->getIOTensorName(index);
    bool fits = trt->context->setInputShape(name, wk::dims_of(dims, rank));
    wk::need(fits, WK_TRT_ARGUMENT, "TensorRT refuses the shape of an input");
  });
}

int32_t wk_trt_bind(wk_trt *trt, int32_t index, void *device) {
  return wk::guarded([&] {
    bool taken = trt->context->setTensorAddress(trt->engine->getIOTensorName(index), device);
    wk::need(taken, WK_TRT_ARGUMENT, "TensorRT refuses the buffer of a tensor");
  });
}

int32_t wk_trt_enqueue(wk_trt *trt, void *stream) {
  return wk::guarded([&] {
    bool queued = trt->context->enqueueV3(static_cast<cudaStream_t>(stream));
    wk::need(queued, WK_TRT_DEVICE, "TensorRT can't run the engine");
  });
}

void wk_trt_close(wk_trt *trt) { delete trt; }
}
