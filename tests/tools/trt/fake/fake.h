// What the three fake libraries share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>

// What a test sets: the file `wk-fake-trt` in a folder of LD_LIBRARY_PATH, because a child process
// gets only the variables by which libraries are found.
struct Settings {
  std::string mode, network, place;
  Settings() {
    char const *path = std::getenv("LD_LIBRARY_PATH");
    std::istringstream folders(path ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      std::ifstream file(folder + "/wk-fake-trt");
      place = folder;
      if (std::getline(file, mode) && std::getline(file, network)) return;
    }
  }
};

inline Settings const &settings() {
  static Settings const read;
  return read;
}

inline bool is_mode(char const *name) { return settings().mode == name; }

// Whether the device has failed: a test creates this file while a program runs.
inline bool is_broken() {
  return is_mode("breaks-later") && std::ifstream(settings().place + "/wk-fake-trt.broken").good();
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
// libnvinfer: the weights of a network are gone with its parser.
void wk_fake_drop_weights(void *network);
}
