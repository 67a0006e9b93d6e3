// ONNX file to engine.
#include <NvOnnxParser.h>

#include <vector>

#include "shim.h"

using namespace nvinfer1;

namespace {

// Passes the progress of a build on, and a wish to cancel back.
struct Monitor : IProgressMonitor {
  explicit Monitor(wk_trt_options const &given) : options(given) {}
  void phaseStart(char const *name, char const *, int32_t steps) noexcept override {
    options.progress(options.user, name, 0, steps);
  }
  bool stepComplete(char const *name, int32_t step) noexcept override {
    return !options.progress(options.user, name, step + 1, 0);
  }
  void phaseFinish(char const *) noexcept override {}
  wk_trt_options const &options;
};

// The network's weights belong to the parser, so it has to outlive the build.
std::unique_ptr<nvonnxparser::IParser> parse(INetworkDefinition &network, void const *onnx,
                                             size_t len) {
  auto parser = wk::create<nvonnxparser::IParser>(
      "libnvonnxparser.so", "createNvOnnxParser_INTERNAL", static_cast<void *>(&network),
      wk::log(), static_cast<int>(NV_ONNX_PARSER_VERSION));
  wk::need(parser, WK_TRT_UNAVAILABLE, "TensorRT's parser of ONNX does not start");
  if (parser->parse(onnx, len)) return parser;
  auto *error = parser->getNbErrors() > 0 ? parser->getError(0) : nullptr;
  std::string why = error ? error->desc() : "no reason is given";
  throw wk::Failure{WK_TRT_MODEL, "TensorRT can't read the file: " + why};
}

// Has the caller fix the axes that the file leaves open; one profile then holds exactly them.
void fix_shapes(IBuilder &builder, INetworkDefinition const &network, IBuilderConfig &config,
                wk_trt_options const &options) {
  std::vector<wk_trt_tensor_info> inputs;
  for (int32_t i = 0; i < network.getNbInputs(); i++) {
    auto &input = *network.getInput(i);
    inputs.push_back(wk::describe(input.getName(), true, input.getType(), input.getDimensions()));
  }
  auto count = static_cast<int32_t>(inputs.size());
  bool accepted = !options.shapes(options.user, inputs.data(), count);
  wk::need(accepted, WK_TRT_CANCELLED, "the inputs were refused");
  IOptimizationProfile *profile = builder.createOptimizationProfile();
  bool fits = profile != nullptr;
  using Which = OptProfileSelector;
  for (auto &input : inputs)
    for (auto which : {Which::kMIN, Which::kOPT, Which::kMAX})
      fits = fits && profile->setDimensions(input.name, which, wk::dims_of(input.dims, input.rank));
  fits = fits && config.addOptimizationProfile(profile) >= 0;
  wk::need(fits, WK_TRT_MODEL, "TensorRT refuses the shapes of the inputs");
}

void build(void const *onnx, size_t len, wk_trt_options const &options) {
  auto builder = wk::create<IBuilder>("libnvinfer.so", "createInferBuilder_INTERNAL", wk::log(),
                                      int32_t{NV_TENSORRT_VERSION});
  wk::need(builder, WK_TRT_DEVICE, "TensorRT's builder does not start");
  auto typed = 1U << static_cast<uint32_t>(NetworkDefinitionCreationFlag::kSTRONGLY_TYPED);
  std::unique_ptr<INetworkDefinition> network(builder->createNetworkV2(typed));
  std::unique_ptr<IBuilderConfig> config(builder->createBuilderConfig());
  wk::need(network && config, WK_TRT_MEMORY, "TensorRT creates no network");
  auto parser = parse(*network, onnx, len);
  fix_shapes(*builder, *network, *config, options);

  Monitor monitor(options);
  config->setMemoryPoolLimit(MemoryPoolType::kWORKSPACE, options.workspace_bytes);
  config->setBuilderOptimizationLevel(options.level);
  config->setProgressMonitor(&monitor);
  std::unique_ptr<ITimingCache> timings(
      config->createTimingCache(options.timing_cache, options.timing_cache_len));
  // One of another version or device is refused; it would only have saved time.
  if (!timings) timings.reset(config->createTimingCache(nullptr, 0));
  if (timings) config->setTimingCache(*timings, false);

  std::unique_ptr<IHostMemory> engine(builder->buildSerializedNetwork(*network, *config));
  wk::need(engine, WK_TRT_MODEL, "TensorRT builds no engine");
  std::unique_ptr<IHostMemory> spent(timings ? timings->serialize() : nullptr);
  if (spent) options.sink(options.user, WK_TRT_TIMING_CACHE, spent->data(), spent->size());
  bool taken = !options.sink(options.user, WK_TRT_ENGINE_BLOB, engine->data(), engine->size());
  wk::need(taken, WK_TRT_CANCELLED, "the engine was not taken");
}

} // namespace

extern "C" int32_t wk_trt_build(const void *onnx, size_t len, const wk_trt_options *options) {
  return wk::guarded([&] { build(onnx, len, *options); });
}
