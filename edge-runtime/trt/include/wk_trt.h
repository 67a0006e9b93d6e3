/* C ABI of libwk_trt.so, which runs ONNX networks on TensorRT.
 *
 * - Built on the box against its own TensorRT headers; opens TensorRT with dlopen.
 * - Every buffer belongs to the caller, and so does CUDA: device, memory, stream and copies.
 * - No C++ type and no exception crosses.
 * - A function that fails hands its sentence to the log and returns a negative wk_trt_status.
 * - A wk_trt value is used by one thread at a time.
 */
#ifndef WK_TRT_H
#define WK_TRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised with every change of this file. */
#define WK_TRT_ABI 3
/* Most axes of a tensor. */
#define WK_TRT_MAX_AXES 8
/* Bytes of a name, its NUL included. */
#define WK_TRT_NAME 256

enum wk_trt_status {
  WK_TRT_OK = 0,
  WK_TRT_UNAVAILABLE = -1, /* a library is missing, or has the wrong version */
  WK_TRT_DEVICE = -2,      /* no usable device */
  WK_TRT_ARGUMENT = -3,    /* the caller's mistake */
  WK_TRT_MODEL = -4,       /* the ONNX file can't be parsed or built */
  WK_TRT_ENGINE = -5,      /* the engine can't be deserialised */
  WK_TRT_CANCELLED = -6,   /* a callback returned non-zero */
  WK_TRT_MEMORY = -7,      /* out of device or host memory */
  WK_TRT_EXCEPTION = -8    /* TensorRT or C++ threw; another try may succeed */
};

/* The numbers of nvinfer1::DataType. */
enum wk_trt_type { WK_TRT_FLOAT = 0, WK_TRT_INT32 = 3, WK_TRT_INT64 = 8 };

/* Versions as getInferLibVersion has them: major * 10000 + minor * 100 + patch since 10.0,
 * major * 1000 + minor * 100 + patch before. */
typedef struct {
  int32_t headers; /* that this shim was built against */
  int32_t library; /* of the libnvinfer on this box */
} wk_trt_versions;

/* Level of the sentence of a failed call. Other levels are those of nvinfer1::ILogger::Severity:
 * 0 and 1 errors, 2 warnings, 3 information. */
#define WK_TRT_SENTENCE -1

/* Receives messages on the thread of the call, and on threads of TensorRT's own. */
typedef void (*wk_trt_log)(int32_t level, const char *message);

typedef struct {
  char name[WK_TRT_NAME];
  int32_t is_input;
  int32_t type; /* a wk_trt_type, or another number of nvinfer1::DataType */
  int32_t rank;
  int32_t reserved; /* 0 */
  int64_t dims[WK_TRT_MAX_AXES]; /* -1: not fixed */
} wk_trt_tensor_info;

/* What wk_trt_build hands to its sink. */
enum wk_trt_product { WK_TRT_ENGINE_BLOB = 0, WK_TRT_TIMING_CACHE = 1 };

typedef struct {
  uint64_t workspace_bytes; /* device memory that one layer may use */
  int32_t level;            /* builder optimisation level, 0 to 5 */
  int32_t reserved;         /* 0 */
  const void *timing_cache; /* of an earlier build; NULL: none */
  size_t timing_cache_len;
  void *user; /* first argument of the callbacks; each returns 0 to go on */
  /* Fixes the axes of the file's inputs: replaces each -1 of `dims`. */
  int32_t (*shapes)(void *user, wk_trt_tensor_info *inputs, int32_t count);
  /* May be called from several threads at once. `steps` is 0 after the first step of a phase. */
  int32_t (*progress)(void *user, const char *phase, int32_t step, int32_t steps);
  int32_t (*sink)(void *user, int32_t product, const void *data, size_t len);
} wk_trt_options;

typedef struct wk_trt wk_trt;

#pragma GCC visibility push(default)
int32_t wk_trt_abi(void);
/* Opens libnvinfer and sets the only log. The caller checks that both majors are the same before
 * it calls anything else. */
int32_t wk_trt_start(wk_trt_log log, wk_trt_versions *out);
/* Builds an engine with the types of the file (strongly typed). Takes minutes. */
int32_t wk_trt_build(const void *onnx, size_t len, const wk_trt_options *options);
int32_t wk_trt_open(const void *blob, size_t len, wk_trt **out);
/* Number of inputs and outputs; an index is below it. */
int32_t wk_trt_tensors(const wk_trt *trt);
/* Describes a tensor; outputs have their lengths once every input has its shape. */
void wk_trt_tensor(const wk_trt *trt, int32_t index, wk_trt_tensor_info *out);
int32_t wk_trt_set_shape(wk_trt *trt, int32_t index, const int64_t *dims, int32_t rank);
/* Names the device buffer of a tensor, of at least its size; used by every later run. */
int32_t wk_trt_bind(wk_trt *trt, int32_t index, void *device);
/* Queues a run on a cudaStream_t. */
int32_t wk_trt_enqueue(wk_trt *trt, void *stream);
void wk_trt_close(wk_trt *trt);
#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
