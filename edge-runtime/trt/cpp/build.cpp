// ONNX file to engine.
#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "shim.h"

using namespace nvinfer1;

namespace {

// Passes the progress of a build on, and a wish to cancel back.
struct Monitor : IProgressMonitor {
  explicit Monitor(wk_trt_options const &given) : options(given) {}
  void phaseStart(char const *name, char const *, int32_t count) noexcept override {
    std::lock_guard<std::mutex> held(mutex);
    report(name, 0, steps[name] = count);
  }
  bool stepComplete(char const *name, int32_t step) noexcept override {
    std::lock_guard<std::mutex> held(mutex);
    report(name, step + 1, steps[name]);
    return !cancelled;
  }
  void phaseFinish(char const *) noexcept override {}
  void report(char const *name, int32_t step, int32_t count) {
    if (options.progress && options.progress(options.user, name, step, count)) cancelled = true;
  }
  wk_trt_options const &options;
  std::mutex mutex;
  std::map<std::string, int32_t> steps;
  std::atomic<bool> cancelled{false};
};

// Has the caller fix the axes that the file leaves open; one profile then holds exactly them.
int32_t fix_shapes(IBuilder &builder, INetworkDefinition const &network, IBuilderConfig &config,
                   wk_trt_options const &options) {
  std::vector<wk_trt_tensor_info> inputs(network.getNbInputs());
  for (size_t i = 0; i < inputs.size(); i++) {
    ITensor *input = network.getInput(static_cast<int32_t>(i));
    wk::describe(inputs[i], input->getName(), true, input->getType(), input->getDimensions());
  }
  if (options.shapes(options.user, inputs.data(), static_cast<int32_t>(inputs.size())))
    return wk::fail(WK_TRT_CANCELLED, "the inputs were refused");
  IOptimizationProfile *profile = builder.createOptimizationProfile();
  bool fits = profile != nullptr;
  for (auto &input : inputs) {
    Dims dims{input.rank, {}};
    for (int32_t i = 0; i < input.rank; i++) dims.d[i] = input.dims[i];
    using Which = OptProfileSelector;
    for (auto which : {Which::kMIN, Which::kOPT, Which::kMAX})
      fits = fits && profile->setDimensions(input.name, which, dims);
  }
  if (fits && config.addOptimizationProfile(profile) >= 0) return WK_TRT_OK;
  return wk::fail(WK_TRT_MODEL, "TensorRT refuses the shapes of the inputs");
}

int32_t parse(wk::Libraries const &libraries, INetworkDefinition &network, void const *onnx,
              size_t len) {
  auto *made = libraries.create_parser(&network, &wk::fresh_log(), NV_ONNX_PARSER_VERSION);
  std::unique_ptr<nvonnxparser::IParser> parser(static_cast<nvonnxparser::IParser *>(made));
  if (!parser) return wk::fail(WK_TRT_UNAVAILABLE, "TensorRT's parser of ONNX does not start");
  if (parser->parse(onnx, len)) return WK_TRT_OK;
  wk::fresh_log(); // the log repeats the error
  return wk::fail(WK_TRT_MODEL, "TensorRT can't read the file: %s",
                  parser->getNbErrors() > 0 ? parser->getError(0)->desc() : "no reason is given");
}

int32_t build(void const *onnx, size_t len, wk_trt_options const &options) {
  wk::Libraries libraries;
  int32_t status = libraries.open_all();
  if (status == WK_TRT_OK) status = libraries.open_parser();
  if (status != WK_TRT_OK) return status;
  auto *made = libraries.create_builder(&wk::fresh_log(), NV_TENSORRT_VERSION);
  std::unique_ptr<IBuilder> builder(static_cast<IBuilder *>(made));
  if (!builder) return wk::fail(WK_TRT_DEVICE, "TensorRT's builder does not start");
  auto typed = 1U << static_cast<uint32_t>(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
  std::unique_ptr<INetworkDefinition> network(builder->createNetworkV2(typed));
  std::unique_ptr<IBuilderConfig> config(builder->createBuilderConfig());
  if (!network || !config) return wk::fail(WK_TRT_MEMORY, "TensorRT creates no network");
  status = parse(libraries, *network, onnx, len);
  if (status == WK_TRT_OK) status = fix_shapes(*builder, *network, *config, options);
  if (status != WK_TRT_OK) return status;

  Monitor monitor(options);
  config->setMemoryPoolLimit(MemoryPoolType::kWORKSPACE, options.workspace_bytes);
  config->setBuilderOptimizationLevel(options.level);
  config->setProgressMonitor(&monitor);
  std::unique_ptr<ITimingCache> timings(
      config->createTimingCache(options.timing_cache, options.timing_cache_len));
  // One of another version or device is refused; it would only have saved time.
  if (!timings) timings.reset(config->createTimingCache(nullptr, 0));
  if (timings) config->setTimingCache(*timings, false);

  wk::fresh_log();
  std::unique_ptr<IHostMemory> engine(builder->buildSerializedNetwork(*network, *config));
  if (monitor.cancelled) return wk::fail(WK_TRT_CANCELLED, "the build was cancelled");
  if (!engine)
    return wk::fail(wk::is_out_of_memory() ? WK_TRT_MEMORY : WK_TRT_MODEL,
                    "TensorRT builds no engine");
  std::unique_ptr<IHostMemory> spent(timings ? timings->serialize() : nullptr);
  if (spent) options.sink(options.user, WK_TRT_TIMING_CACHE, spent->data(), spent->size());
  if (!options.sink(options.user, WK_TRT_ENGINE_BLOB, engine->data(), engine->size()))
    return WK_TRT_OK;
  return wk::fail(WK_TRT_CANCELLED, "the engine was not taken");
}

} // namespace

extern "C" int32_t wk_trt_build(const void *onnx, size_t len, const wk_trt_options *options) {
  return wk::guarded([&] { return build(onnx, len, *options); });
}
