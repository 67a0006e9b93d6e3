// An engine that runs on buffers of the host.
#include "shim.h"

using namespace nvinfer1;

struct wk_trt {
  struct Slot {
    char const *name;
    bool is_input;
    void *device, *host;
    size_t bytes;
  };
  wk::Libraries cuda;
  // Destroyed in the opposite order.
  std::unique_ptr<IRuntime> runtime;
  std::unique_ptr<ICudaEngine> engine;
  std::unique_ptr<IExecutionContext> context;
  cudaStream_t stream = nullptr;
  std::vector<Slot> slots;

  ~wk_trt() {
    if (stream) cuda.cudaStreamSynchronize(stream);
    context.reset();
    for (auto &slot : slots) cuda.cudaFree(slot.device);
    if (stream) cuda.cudaStreamDestroy(stream);
  }

  int32_t open(void const *blob, size_t len) {
    if (int32_t status = cuda.open_all()) return status;
    auto *made = cuda.create_runtime(&wk::fresh_log(), NV_TENSORRT_VERSION);
    runtime.reset(static_cast<IRuntime *>(made));
    if (!runtime) return wk::fail(WK_TRT_DEVICE, "TensorRT's runtime does not start");
    engine.reset(runtime->deserializeCudaEngine(blob, len));
    if (!engine) return wk::fail(WK_TRT_ENGINE, "TensorRT can't read the engine");
    context.reset(engine->createExecutionContext());
    if (!context) return wk::fail(WK_TRT_MEMORY, "TensorRT can't prepare the engine");
    for (int32_t i = 0; i < engine->getNbIOTensors(); i++) {
      char const *name = engine->getIOTensorName(i);
      bool is_input = engine->getTensorIOMode(name) == TensorIOMode::kINPUT;
      slots.push_back({name, is_input, nullptr, nullptr, 0});
    }
    int error = cuda.cudaStreamCreate(&stream);
    return error ? cuda.cuda_failed(error, "CUDA creates no stream") : WK_TRT_OK;
  }

  int32_t bind(Slot &slot, void *host, size_t bytes) {
    Dims dims = context->getTensorShape(slot.name);
    size_t wanted = engine->getTensorDataType(slot.name) == DataType::kINT64 ? 8 : 4;
    for (int32_t i = 0; i < dims.nbDims; i++) {
      if (dims.d[i] < 0) return wk::fail(WK_TRT_ARGUMENT, "%s has no fixed length", slot.name);
      wanted *= static_cast<size_t>(dims.d[i]);
    }
    if (bytes != wanted)
      return wk::fail(WK_TRT_ARGUMENT, "%s has %zu bytes, not %zu", slot.name, wanted, bytes);
    slot.host = host;
    if (slot.device && slot.bytes == bytes) return WK_TRT_OK;
    cuda.cudaFree(slot.device);
    slot.device = nullptr;
    slot.bytes = bytes;
    // A tensor without values still needs an address.
    if (int error = cuda.cudaMalloc(&slot.device, bytes ? bytes : 1))
      return cuda.cuda_failed(error, "CUDA has no memory for a tensor");
    if (context->setTensorAddress(slot.name, slot.device)) return WK_TRT_OK;
    return wk::fail(WK_TRT_ARGUMENT, "TensorRT refuses the buffer of %s", slot.name);
  }

  // Copies inputs to the device, or outputs from it.
  int32_t copy(bool inputs) {
    for (auto &slot : slots) {
      if (slot.is_input != inputs) continue;
      if (!slot.host) return wk::fail(WK_TRT_ARGUMENT, "%s has no buffer", slot.name);
      // 1 and 2: cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost.
      int error = inputs ? cuda.cudaMemcpyAsync(slot.device, slot.host, slot.bytes, 1, stream)
                         : cuda.cudaMemcpyAsync(slot.host, slot.device, slot.bytes, 2, stream);
      if (error) return cuda.cuda_failed(error, "CUDA can't copy a tensor");
    }
    return WK_TRT_OK;
  }

  int32_t enqueue() {
    if (int32_t status = copy(true)) return status;
    if (!context->enqueueV3(stream))
      return wk::fail(WK_TRT_DEVICE, "TensorRT can't run the engine");
    return copy(false);
  }

  int32_t run() {
    int32_t status = enqueue();
    // Copies may be in flight after a failure too, and the caller frees the buffers.
    int error = cuda.cudaStreamSynchronize(stream);
    return error && !status ? cuda.cuda_failed(error, "the device failed") : status;
  }
};

extern "C" {

int32_t wk_trt_open(const void *engine, size_t len, wk_trt **out) {
  wk::fresh_log();
  return wk::guarded([&]() -> int32_t {
    auto opened = std::make_unique<wk_trt>();
    if (int32_t status = opened->open(engine, len)) return status;
    *out = opened.release();
    return WK_TRT_OK;
  });
}

int32_t wk_trt_tensors(const wk_trt *engine) { return static_cast<int32_t>(engine->slots.size()); }

int32_t wk_trt_tensor(const wk_trt *engine, int32_t index, wk_trt_tensor_info *out) {
  auto &slot = engine->slots[static_cast<size_t>(index)];
  wk::describe(*out, slot.name, slot.is_input, engine->engine->getTensorDataType(slot.name),
               engine->context->getTensorShape(slot.name));
  return WK_TRT_OK;
}

int32_t wk_trt_set_shape(wk_trt *engine, int32_t index, const int64_t *dims, int32_t rank) {
  wk::fresh_log();
  Dims shape{rank, {}};
  for (int32_t i = 0; i < rank; i++) shape.d[i] = dims[i];
  if (engine->context->setInputShape(engine->slots[static_cast<size_t>(index)].name, shape))
    return WK_TRT_OK;
  return wk::fail(WK_TRT_ARGUMENT, "TensorRT refuses the shape of an input");
}

int32_t wk_trt_bind(wk_trt *engine, int32_t index, void *host, size_t bytes) {
  wk::fresh_log();
  return engine->bind(engine->slots[static_cast<size_t>(index)], host, bytes);
}

int32_t wk_trt_run(wk_trt *engine) {
  wk::fresh_log();
  return engine->run();
}

void wk_trt_close(wk_trt *engine) { delete engine; }
}
