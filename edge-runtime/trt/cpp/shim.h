// What the parts of the shim share. Not part of the ABI.
#pragma once

#include <NvInfer.h>

#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>

#include "wk_trt.h"

namespace wk {

// Thrown within the shim; `guarded` makes it the status and the sentence of a call.
struct Failure {
  int32_t status;
  std::string sentence;
};

// Hands the sentence to the caller; returns the status.
int32_t report(int32_t status, char const *sentence) noexcept;

// Runs the body of a function of the ABI, which no exception leaves.
template <class Body> int32_t guarded(Body body) noexcept try {
  body();
  return WK_TRT_OK;
} catch (Failure const &failure) {
  return report(failure.status, failure.sentence.c_str());
} catch (std::bad_alloc const &) {
  return report(WK_TRT_MEMORY, "out of memory");
} catch (std::exception const &error) {
  return report(WK_TRT_EXCEPTION, error.what());
} catch (...) {
  return report(WK_TRT_EXCEPTION, "TensorRT ends with an exception that is not a standard one");
}

// Checks an answer of TensorRT, whose failures are null and false.
template <class T> void need(T const &answer, int32_t status, std::string const &sentence) {
  if (!answer) throw Failure{status, sentence};
}

// Finds a function of a library: of the headers' version, else of the plain name or of `others`.
void *find(std::string const &library, char const *function,
           std::initializer_list<std::string> others = {});

// Calls a function that creates an object.
template <class T, class... A>
std::unique_ptr<T> create(char const *library, char const *function, A... arguments) {
  auto call = reinterpret_cast<void *(*)(A...)>(find(library, function));
  return std::unique_ptr<T>(static_cast<T *>(call(arguments...)));
}

// The only log of the process, as these functions take it.
void *log() noexcept;

wk_trt_tensor_info describe(char const *name, bool is_input, nvinfer1::DataType type,
                            nvinfer1::Dims const &dims);
nvinfer1::Dims dims_of(int64_t const *lengths, int32_t rank);

} // namespace wk
