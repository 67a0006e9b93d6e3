// A libcudart.so.12 that finds the device where libcudart.so.13 finds none; the other functions are
// those of the latter, which it links.
#include "fake.h"

extern "C" int cudaGetDeviceCount(int *count) {
  *count = is_mode("no-device") ? 0 : 1;
  return *count ? 0 : 100;
}
