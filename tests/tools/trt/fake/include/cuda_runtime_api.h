// The part of CUDA's header that TensorRT's headers use, for machines without CUDA.
#pragma once
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
