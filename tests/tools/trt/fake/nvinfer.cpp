// A libnvinfer without a device: its engine holds the ONNX file, and a library of ours runs it.
//
// As strict as the original where the shim could be wrong: open axes need a profile, an input takes
// only the shape of its profile, every tensor needs device memory of its size, a network is built
// while its parser lives, and an engine of another version or length is refused.
#include <dlfcn.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fake.h"
#include "generated.h"

using namespace nvinfer1;

namespace {

// Functions of libwatchkeeper_fake_trt.so, which the settings name.
struct Back {
  void *(*open)(void const *, size_t) = nullptr;
  void (*close)(void *) = nullptr;
  int32_t (*describe)(void *, int32_t, int32_t, char *, int64_t *, int32_t *, int32_t *) = nullptr;
  int32_t (*run)(void *, void const *const *, int64_t const *, int32_t const *) = nullptr;
  float const *(*output)(void *, int32_t, int64_t *, int32_t *) = nullptr;
  Back() {
    void *library = dlopen(settings().network.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) return;
    find(library, "wk_fake_open", open);
    find(library, "wk_fake_close", close);
    find(library, "wk_fake_describe", describe);
    find(library, "wk_fake_run", run);
    find(library, "wk_fake_output", output);
  }
  template <class F> static void find(void *library, char const *name, F &out) {
    out = reinterpret_cast<F>(dlsym(library, name));
  }
};

Back const &back() {
  static Back const loaded;
  return loaded;
}

struct TensorInfo {
  std::string name;
  bool is_input;
  DataType type;
  Dims dims;
};

// A network that was read; null where the back end refuses the file.
struct Net {
  void *raw = nullptr;
  bool is_int8;
  explicit Net(std::string const &onnx) : is_int8(onnx.find("QuantizeLinear") != std::string::npos) {
    if (back().output) raw = back().open(onnx.data(), onnx.size());
  }
  Net(Net const &) = delete;
  ~Net() {
    if (raw) back().close(raw);
  }
  std::vector<TensorInfo> tensors(bool inputs) const {
    std::vector<TensorInfo> found;
    for (int32_t i = 0;; i++) {
      char name[256] = "";
      int32_t is_int = 0;
      Dims dims{};
      if (back().describe(raw, inputs, i, name, dims.d, &dims.nbDims, &is_int)) return found;
      found.push_back({name, inputs, is_int ? DataType::kINT64 : DataType::kFLOAT, dims});
    }
  }
};

size_t volume(Dims const &dims) {
  size_t n = 1;
  for (int32_t i = 0; i < dims.nbDims; i++) n *= static_cast<size_t>(dims.d[i]);
  return n;
}

bool same(Dims const &a, Dims const &b) {
  return a.nbDims == b.nbDims && std::equal(a.d, a.d + a.nbDims, b.d);
}

// A public object with its implementation.
template <class I, class F> struct Face : I {
  F impl;
  template <class... A> explicit Face(A &&...given) : impl(std::forward<A>(given)...) {
    this->mImpl = &impl;
  }
};

struct Memory : fake::FHostMemory {
  std::string bytes;
  explicit Memory(std::string given) : bytes(std::move(given)) {}
  void *data() const noexcept override { return const_cast<char *>(bytes.data()); }
  size_t size() const noexcept override { return bytes.size(); }
};

struct Context : fake::FExecutionContext {
  std::shared_ptr<Net> net;
  std::vector<TensorInfo> tensors;
  std::map<std::string, void *> addresses;
  std::map<std::string, bool> shaped;
  ILogger *log = nullptr;

  TensorInfo const *find(char const *name) const {
    for (auto &tensor : tensors)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }
  bool refuse(char const *why) const {
    log->log(ILogger::Severity::kERROR, why);
    return false;
  }
  bool setInputShape(char const *name, Dims const &dims) noexcept override {
    auto *tensor = find(name);
    if (!tensor || !tensor->is_input || !same(tensor->dims, dims))
      return refuse("fake: the shape is not within the profile");
    return shaped[name] = true;
  }
  Dims getTensorShape(char const *name) const noexcept override {
    auto *tensor = find(name);
    return tensor ? tensor->dims : Dims{-1, {}};
  }
  bool setTensorAddress(char const *name, void *address) noexcept override {
    if (!find(name)) return refuse("fake: no such tensor");
    addresses[name] = address;
    return true;
  }
  bool enqueueV3(cudaStream_t) noexcept override {
    if (is_broken()) return refuse("fake: the device is gone");
    std::vector<void const *> inputs;
    std::vector<int64_t> dims;
    std::vector<int32_t> ranks;
    for (auto &tensor : tensors) {
      void *at = addresses[tensor.name];
      size_t bytes = volume(tensor.dims) * (tensor.type == DataType::kINT64 ? 8 : 4);
      if (!at || !wk_fake_is_device(at, bytes)) return refuse("fake: no device memory");
      if (!tensor.is_input) continue;
      if (!shaped[tensor.name]) return refuse("fake: an input has no shape");
      inputs.push_back(at);
      dims.insert(dims.end(), tensor.dims.d, tensor.dims.d + 8);
      ranks.push_back(tensor.dims.nbDims);
    }
    if (back().run(net->raw, inputs.data(), dims.data(), ranks.data())) return refuse("fake: no run");
    // A device that is made for int8, and one that is not.
    if (is_mode("slow-float") && !net->is_int8) usleep(30'000);
    if (is_mode("slow-int8") && net->is_int8) usleep(30'000);
    int32_t i = 0;
    for (auto &tensor : tensors) {
      if (tensor.is_input) continue;
      Dims now{};
      float const *values = back().output(net->raw, i++, now.d, &now.nbDims);
      auto *to = static_cast<float *>(addresses[tensor.name]);
      size_t count = volume(tensor.dims), have = volume(now);
      for (size_t k = 0; k < count; k++)
        to[k] = is_mode("nan") ? std::nanf("") : k < have ? values[k] : 0.0F;
    }
    return true;
  }
};

constexpr char kMagic[] = "WKFE";

// The engine: magic, version, then shapes and file, with their lengths.
std::string serialise(std::vector<TensorInfo> const &inputs, std::string const &onnx) {
  std::string out(kMagic, 4);
  auto add = [&](int64_t number) { out.append(reinterpret_cast<char *>(&number), 8); };
  add(NV_TENSORRT_VERSION);
  add(static_cast<int64_t>(inputs.size()));
  for (auto &input : inputs)
    for (int64_t axis : input.dims.d) add(axis);
  add(static_cast<int64_t>(onnx.size()));
  return out + onnx;
}

struct Engine : fake::FCudaEngine {
  std::shared_ptr<Net> net;
  std::vector<TensorInfo> tensors;
  ILogger *log;
  explicit Engine(ILogger *given) : log(given) {}

  bool read(std::string const &blob) {
    size_t at = 4;
    auto number = [&]() -> int64_t {
      int64_t value = -1;
      if (at + 8 <= blob.size()) std::memcpy(&value, blob.data() + at, 8);
      at += 8;
      return value;
    };
    if (blob.compare(0, 4, kMagic, 4) || number() != NV_TENSORRT_VERSION) return false;
    int64_t count = number();
    std::vector<Dims> shapes;
    for (int64_t i = 0; i < count && at < blob.size(); i++) {
      Dims dims{};
      for (auto &axis : dims.d) axis = number();
      shapes.push_back(dims);
    }
    int64_t len = number();
    if (at > blob.size() || static_cast<size_t>(len) != blob.size() - at) return false;
    net = std::make_shared<Net>(blob.substr(at));
    if (!net->raw) return false;
    tensors = net->tensors(true);
    if (tensors.size() != shapes.size()) return false;
    for (size_t i = 0; i < shapes.size(); i++)
      std::copy(shapes[i].d, shapes[i].d + 8, tensors[i].dims.d);
    return find_outputs();
  }

  // Runs once, because the file does not have the shapes of its outputs.
  bool find_outputs() {
    std::vector<std::vector<int64_t>> zeros;
    std::vector<void const *> inputs;
    std::vector<int64_t> dims;
    std::vector<int32_t> ranks;
    for (auto &input : tensors) {
      zeros.emplace_back(volume(input.dims));
      inputs.push_back(zeros.back().data());
      dims.insert(dims.end(), input.dims.d, input.dims.d + 8);
      ranks.push_back(input.dims.nbDims);
    }
    if (back().run(net->raw, inputs.data(), dims.data(), ranks.data())) return false;
    auto outputs = net->tensors(false);
    for (size_t i = 0; i < outputs.size(); i++) {
      auto &dims = outputs[i].dims;
      dims = {};
      back().output(net->raw, static_cast<int32_t>(i), dims.d, &dims.nbDims);
      if (is_mode("wrong-shape")) dims.d[1]++; // one class, or attribute, too many
      tensors.push_back(outputs[i]);
    }
    return true;
  }

  TensorInfo const *find(char const *name) const {
    for (auto &tensor : tensors)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }
  int32_t getNbIOTensors() const noexcept override { return static_cast<int32_t>(tensors.size()); }
  char const *getIOTensorName(int32_t i) const noexcept override { return tensors[i].name.c_str(); }
  TensorIOMode getTensorIOMode(char const *name) const noexcept override {
    auto *tensor = find(name);
    return !tensor ? TensorIOMode::kNONE : tensor->is_input ? TensorIOMode::kINPUT : TensorIOMode::kOUTPUT;
  }
  DataType getTensorDataType(char const *name) const noexcept override { return find(name)->type; }
  Dims getTensorShape(char const *name) const noexcept override { return find(name)->dims; }
  IExecutionContext *createExecutionContext(ExecutionContextAllocationStrategy) noexcept override {
    auto *context = new Face<IExecutionContext, Context>();
    context->impl.net = net;
    context->impl.tensors = tensors;
    context->impl.log = log;
    return context;
  }
};

struct Runtime : fake::FRuntime {
  ILogger *log;
  explicit Runtime(ILogger *given) : log(given) {}
  ICudaEngine *deserializeCudaEngine(void const *blob, size_t len) noexcept override {
    auto engine = std::make_unique<Face<ICudaEngine, Engine>>(log);
    if (engine->impl.read({static_cast<char const *>(blob), len})) return engine.release();
    log->log(ILogger::Severity::kERROR, "fake: the engine is of another version, or cut off");
    return nullptr;
  }
};

struct Tensor : fake::FTensor {
  TensorInfo info;
  explicit Tensor(TensorInfo given) : info(std::move(given)) {}
  char const *getName() const noexcept override { return info.name.c_str(); }
  Dims getDimensions() const noexcept override { return info.dims; }
  DataType getType() const noexcept override { return info.type; }
};

struct Network;
std::map<void const *, Network *> g_networks;
std::set<void const *> g_with_weights;

struct Network : fake::FNetworkDefinition {
  std::string onnx;
  std::vector<std::unique_ptr<Face<ITensor, Tensor>>> inputs;
  int32_t getNbInputs() const noexcept override { return static_cast<int32_t>(inputs.size()); }
  ITensor *getInput(int32_t i) const noexcept override { return inputs[static_cast<size_t>(i)].get(); }
};

struct Profile : fake::FOptimizationProfile {
  std::map<std::string, Dims> dims;
  bool setDimensions(char const *name, OptProfileSelector, Dims const &given) noexcept override {
    auto known = dims.emplace(name, given);
    return known.second || same(known.first->second, given);
  }
  Dims getDimensions(char const *name, OptProfileSelector) const noexcept override {
    auto known = dims.find(name);
    return known == dims.end() ? Dims{-1, {}} : known->second;
  }
};

struct TimingCache : fake::FTimingCache {
  IHostMemory *serialize() const noexcept override { return new Face<IHostMemory, Memory>("WKFT"); }
};

struct Config;
std::map<void const *, Config *> g_configs;

struct Config : fake::FBuilderConfig {
  IOptimizationProfile const *profile = nullptr;
  IProgressMonitor *monitor = nullptr;
  int32_t addOptimizationProfile(IOptimizationProfile const *given) noexcept override {
    profile = given;
    return 0;
  }
  ITimingCache *createTimingCache(void const *blob, size_t len) const noexcept override {
    // One that another library wrote is refused.
    if (len && std::string(static_cast<char const *>(blob), len) != "WKFT") return nullptr;
    return new Face<ITimingCache, TimingCache>();
  }
  bool setTimingCache(ITimingCache const &, bool) noexcept override { return true; }
  void setProgressMonitor(IProgressMonitor *given) noexcept override { monitor = given; }
};

struct Builder : fake::FBuilder {
  ILogger *log;
  std::vector<std::unique_ptr<Face<IOptimizationProfile, Profile>>> profiles;
  explicit Builder(ILogger *given) : log(given) {}
  INetworkDefinition *createNetworkV2(NetworkDefinitionCreationFlags) noexcept override {
    auto *network = new Face<INetworkDefinition, Network>();
    g_networks[static_cast<INetworkDefinition *>(network)] = &network->impl;
    return network;
  }
  IBuilderConfig *createBuilderConfig() noexcept override {
    auto *config = new Face<IBuilderConfig, Config>();
    g_configs[static_cast<IBuilderConfig *>(config)] = &config->impl;
    return config;
  }
  IOptimizationProfile *createOptimizationProfile() noexcept override {
    profiles.push_back(std::make_unique<Face<IOptimizationProfile, Profile>>());
    return profiles.back().get();
  }
  IHostMemory *refuse(char const *why) {
    log->log(ILogger::Severity::kERROR, why);
    return nullptr;
  }
  IHostMemory *buildSerializedNetwork(INetworkDefinition &definition,
                                      IBuilderConfig &given) noexcept override {
    auto &network = *g_networks[&definition];
    auto &config = *g_configs[&given];
    if (is_mode("build-crash")) std::abort();
    if (!g_with_weights.count(&definition)) return refuse("fake: the parser and the weights are gone");
    std::vector<TensorInfo> inputs;
    for (auto &input : network.inputs) {
      TensorInfo info = input->impl.info;
      Dims fixed{-1, {}};
      if (config.profile) fixed = config.profile->getDimensions(info.name.c_str(), OptProfileSelector::kOPT);
      if (fixed.nbDims < 0) fixed = info.dims;
      for (int32_t i = 0; i < info.dims.nbDims; i++) {
        bool fits = fixed.nbDims == info.dims.nbDims && fixed.d[i] > 0 &&
                    (info.dims.d[i] < 0 || info.dims.d[i] == fixed.d[i]);
        if (!fits) return refuse("fake: the profile does not fix an input");
      }
      info.dims = fixed;
      inputs.push_back(info);
    }
    int32_t steps = is_mode("slow-build") ? 20 : 2;
    if (config.monitor) config.monitor->phaseStart("fake phase", nullptr, steps);
    for (int32_t step = 0; step < steps; step++) {
      if (is_mode("slow-build")) usleep(100'000);
      if (config.monitor && !config.monitor->stepComplete("fake phase", step)) return nullptr;
    }
    if (config.monitor) config.monitor->phaseFinish("fake phase");
    std::string engine = serialise(inputs, network.onnx);
    if (is_mode("truncated")) engine.resize(engine.size() / 2);
    return new Face<IHostMemory, Memory>(std::move(engine));
  }
};

} // namespace

extern "C" {

char const *wk_fake_read(void *definition, void const *onnx, size_t len) {
  auto &network = *g_networks[definition];
  network.onnx.assign(static_cast<char const *>(onnx), len);
  Net net(network.onnx);
  if (!net.raw) return "fake: no operator of the file is known";
  for (auto &input : net.tensors(true))
    network.inputs.push_back(std::make_unique<Face<ITensor, Tensor>>(input));
  g_with_weights.insert(definition);
  return nullptr;
}

void wk_fake_drop_weights(void *definition) { g_with_weights.erase(definition); }

__attribute__((visibility("default"))) void *createInferRuntime_INTERNAL(void *log, int32_t) noexcept {
  return static_cast<IRuntime *>(new Face<IRuntime, Runtime>(static_cast<ILogger *>(log)));
}

__attribute__((visibility("default"))) void *createInferBuilder_INTERNAL(void *log, int32_t) noexcept {
  return static_cast<IBuilder *>(new Face<IBuilder, Builder>(static_cast<ILogger *>(log)));
}

int32_t getInferLibVersion() noexcept {
  if (is_mode("too-old")) return 8601;
  if (is_mode("wrong-major")) return NV_TENSORRT_VERSION + 10000;
  return NV_TENSORRT_VERSION;
}
}
