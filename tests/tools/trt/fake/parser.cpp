// A libnvonnxparser that hands the file to the fake libnvinfer.
#include <NvOnnxParser.h>

#include <stdexcept>
#include <string>

#include "fake.h"

using namespace nvonnxparser;

namespace {

struct Error : IParserError {
  std::string text;
  ErrorCode code() const override { return ErrorCode::kUNSUPPORTED_NODE; }
  char const *desc() const override {
    if (is_mode("parser-throws")) throw std::runtime_error("fake: the parser throws");
    return text.c_str();
  }
  char const *file() const override { return ""; }
  int line() const override { return 0; }
  char const *func() const override { return ""; }
  int node() const override { return -1; }
  char const *nodeName() const override { return ""; }
  char const *nodeOperator() const override { return ""; }
  char const *const *localFunctionStack() const override { return nullptr; }
  int32_t localFunctionStackSize() const override { return 0; }
};

#include "generated_parser.h"

struct Parser : FParser {
  void *network;
  bool failed = false;
  Error error;
  explicit Parser(void *given) : network(given) {}
  ~Parser() noexcept override { wk_fake_drop_weights(network); }
  bool parse(void const *onnx, size_t len, char const *) noexcept override {
    char const *wrong = wk_fake_read(network, onnx, len);
    failed = wrong != nullptr || is_mode("parser-throws");
    if (wrong) error.text = wrong;
    return !failed;
  }
  int getNbErrors() const noexcept override { return failed; }
  IParserError const *getError(int) const noexcept override { return &error; }
};

} // namespace

extern "C" void *createNvOnnxParser_INTERNAL(void *network, void *, int) noexcept {
  // The interface is the first base, and the caller casts back to it.
  return static_cast<IParser *>(new Parser(network));
}
