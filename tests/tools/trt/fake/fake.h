// What the three fake libraries share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

// Whether the environment variable WK_FAKE_TRT names this mode.
inline bool is_mode(char const *name) {
  char const *mode = std::getenv("WK_FAKE_TRT");
  return mode && !std::strcmp(mode, name);
}

// The answer of a method that a fake does not implement.
template <class T> T nothing() {
  if constexpr (std::is_reference_v<T>) std::abort();
  else if constexpr (!std::is_void_v<T>) return T{};
}

extern "C" {
// libcudart: whether memory of `bytes` bytes at this address was allocated on the device.
int wk_fake_is_device(void const *address, size_t bytes);
// libnvinfer: reads an ONNX file into a network; returns what is wrong with it, or null.
char const *wk_fake_read(void *network, void const *onnx, size_t len);
}
