/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver: the functions that upconv calls, declared here and looked up in libcuda at run
 * time, and devices.
 *
 * Names after cu are NVIDIA's, so that its manual applies; where the ABI has several versions of a
 * function the table holds the one that a program built against CUDA 12 calls. Everything here may
 * be called from any thread.
 */
#ifndef UPCONV_CUDA_DRIVER_H
#define UPCONV_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "upconv/upconv.h"

typedef struct uc_cuda_context_s *uc_cuda_context;
typedef struct uc_cuda_module_s *uc_cuda_module;
typedef struct uc_cuda_function_s *uc_cuda_function;
typedef struct uc_cuda_stream_s *uc_cuda_stream; /* NULL: the default stream */
typedef struct uc_cuda_event_s *uc_cuda_event;
typedef struct uc_cuda_graph_s *uc_cuda_graph;
typedef struct uc_cuda_graph_exec_s *uc_cuda_graph_exec;
typedef uint64_t uc_cuda_pointer; /* an address in device memory */

/* Results of the driver that are told apart here; any other is an error that uc_cuda_check
   describes. */
enum {
  UC_CUDA_SUCCESS = 0,
  UC_CUDA_INVALID_VALUE = 1,
  UC_CUDA_OUT_OF_MEMORY = 2,
  UC_CUDA_NOT_INITIALIZED = 3,
  UC_CUDA_STUB_LIBRARY = 34,
  UC_CUDA_NO_DEVICE = 100,
  UC_CUDA_INVALID_DEVICE = 101,
  UC_CUDA_NO_BINARY_FOR_GPU = 209,
  UC_CUDA_UNSUPPORTED_PTX_VERSION = 222,
  UC_CUDA_NOT_READY = 600,
  UC_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
};

/* cuDeviceGetAttribute */
enum {
  UC_DEVICE_MAX_THREADS_PER_BLOCK = 1,
  UC_DEVICE_SHARED_PER_BLOCK = 8,
  UC_DEVICE_CONSTANT_MEMORY = 9,
  UC_DEVICE_REGISTERS_PER_BLOCK = 12,
  UC_DEVICE_CLOCK_KHZ = 13,
  UC_DEVICE_SM_COUNT = 16,
  UC_DEVICE_MEMORY_CLOCK_KHZ = 36,
  UC_DEVICE_MEMORY_BUS_BITS = 37,
  UC_DEVICE_L2_BYTES = 38,
  UC_DEVICE_THREADS_PER_SM = 39,
  UC_DEVICE_CAPABILITY_MAJOR = 75,
  UC_DEVICE_CAPABILITY_MINOR = 76,
  UC_DEVICE_SHARED_PER_SM = 81,
  UC_DEVICE_REGISTERS_PER_SM = 82,
  UC_DEVICE_SHARED_PER_BLOCK_OPTIN = 97,
  UC_DEVICE_BLOCKS_PER_SM = 106,
  UC_DEVICE_SHARED_RESERVED = 111,
};

/* cuFuncGetAttribute, cuFuncSetAttribute (the last two) */
enum {
  UC_FUNCTION_MAX_THREADS = 0,
  UC_FUNCTION_STATIC_SHARED_BYTES = 1,
  UC_FUNCTION_LOCAL_BYTES = 3, /* spills and indexed arrays, per thread */
  UC_FUNCTION_REGISTERS = 4,
  UC_FUNCTION_MAX_DYNAMIC_SHARED_BYTES = 8,
  UC_FUNCTION_SHARED_CARVEOUT = 9,
};

/* cuPointerGetAttribute */
enum {
  UC_POINTER_CONTEXT = 1,
  UC_POINTER_MEMORY_TYPE = 2, /* unsigned: UC_MEMORY_* */
  UC_POINTER_DEVICE_POINTER = 3,
  UC_POINTER_IS_MANAGED = 8,
  UC_POINTER_DEVICE_ORDINAL = 9,
};
enum { UC_MEMORY_HOST = 1, UC_MEMORY_DEVICE = 2 };

/* Flags of cuStreamCreate and cuEventCreate; modes of cuStreamBeginCapture. */
enum { UC_STREAM_DEFAULT = 0, UC_STREAM_NON_BLOCKING = 1 };
enum { UC_EVENT_DEFAULT = 0, UC_EVENT_BLOCKING_SYNC = 1, UC_EVENT_DISABLE_TIMING = 2 };
enum { UC_CAPTURE_GLOBAL = 0, UC_CAPTURE_THREAD_LOCAL = 1, UC_CAPTURE_RELAXED = 2 };

/* cuTensorMapEncodeTiled: 32- and 64-bit elements; units of 16 bytes as they are, or permuted within 128; 128-byte fetches; zeros
   outside. */
enum {
  UC_MAP_U32 = 2,
  UC_MAP_U64 = 4,
  UC_MAP_DENSE = 0,
  UC_MAP_PLAIN = 0,
  UC_MAP_SWIZZLE_128 = 3,
  UC_MAP_FETCH_128 = 2,
  UC_MAP_ZEROS = 0
};

/* What the copy engine needs to know of a tensor. */
typedef struct uc_cuda_tensor_map {
  _Alignas(64) uint64_t words[16];
} uc_cuda_tensor_map;

/* CUlaunchConfig, with one attribute: the kernel may begin before the one before it in the stream has ended. */
enum {
  UC_LAUNCH_EARLY = 6,
  UC_CUDA_EARLY_IN_GRAPHS = 12030 /* the first driver that captures it */
};

typedef struct uc_cuda_launch_attribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int allowed;
  } value;
} uc_cuda_launch_attribute;

typedef struct uc_cuda_launch {
  unsigned grid[3], block[3], shared_bytes;
  uc_cuda_stream stream;
  uc_cuda_launch_attribute *attributes;
  unsigned attribute_count;
} uc_cuda_launch;

typedef struct uc_cuda_driver {
  int version;      /* 13000 is CUDA 13.0 */
  int device_count; /* at least 1 */
  const char *path; /* of the library */

  int (*cuInit)(unsigned flags);
  int (*cuDriverGetVersion)(int *version);
  int (*cuGetErrorName)(int result, const char **name);
  int (*cuGetErrorString)(int result, const char **text);

  int (*cuDeviceGetCount)(int *count);
  int (*cuDeviceGet)(int *device, int ordinal);
  int (*cuDeviceGetName)(char *name, int size, int device);
  int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
  int (*cuDeviceTotalMem)(size_t *bytes, int device);

  int (*cuDevicePrimaryCtxRetain)(uc_cuda_context *context, int device);
  int (*cuDevicePrimaryCtxRelease)(int device);
  int (*cuCtxPushCurrent)(uc_cuda_context context);
  int (*cuCtxPopCurrent)(uc_cuda_context *context);
  int (*cuCtxGetCurrent)(uc_cuda_context *context);

  int (*cuThreadExchangeStreamCaptureMode)(int *mode);
  int (*cuModuleLoadData)(uc_cuda_module *module, const void *image);
  int (*cuModuleUnload)(uc_cuda_module module);
  int (*cuModuleGetFunction)(uc_cuda_function *function, uc_cuda_module module, const char *name);
  int (*cuModuleGetGlobal)(uc_cuda_pointer *address, size_t *bytes, uc_cuda_module module,
                           const char *name);
  int (*cuFuncGetAttribute)(int *value, int attribute, uc_cuda_function function);
  int (*cuFuncSetAttribute)(uc_cuda_function function, int attribute, int value);
  /* dims and box from the innermost on; strides in bytes, of all but the innermost */
  int (*cuTensorMapEncodeTiled)(uc_cuda_tensor_map *map, int type, unsigned rank,
                                const void *address, const uint64_t *dims, const uint64_t *strides,
                                const unsigned *box, const unsigned *steps, int interleave,
                                int swizzle, int promotion, int fill);
  int (*cuOccupancyMaxActiveBlocksPerMultiprocessor)(int *blocks, uc_cuda_function function,
                                                     int threads, size_t dynamic_shared_bytes);
  int (*cuLaunchKernelEx)(const uc_cuda_launch *launch, uc_cuda_function function,
                          void **parameters, void **extra);
  int (*cuLaunchKernel)(uc_cuda_function function, unsigned grid_x, unsigned grid_y,
                        unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned dynamic_shared_bytes, uc_cuda_stream stream, void **parameters,
                        void **extra);

  int (*cuMemGetInfo)(size_t *free, size_t *total);
  int (*cuMemAlloc)(uc_cuda_pointer *address, size_t bytes);
  int (*cuMemFree)(uc_cuda_pointer address);
  int (*cuMemcpyHtoDAsync)(uc_cuda_pointer to, const void *from, size_t bytes,
                           uc_cuda_stream stream);
  int (*cuMemcpyDtoHAsync)(void *to, uc_cuda_pointer from, size_t bytes, uc_cuda_stream stream);
  int (*cuMemcpyDtoDAsync)(uc_cuda_pointer to, uc_cuda_pointer from, size_t bytes,
                           uc_cuda_stream stream);
  int (*cuMemsetD8Async)(uc_cuda_pointer to, unsigned char value, size_t bytes,
                         uc_cuda_stream stream);
  int (*cuPointerGetAttribute)(void *value, int attribute, uc_cuda_pointer address);

  int (*cuStreamCreate)(uc_cuda_stream *stream, unsigned flags);
  int (*cuStreamDestroy)(uc_cuda_stream stream);
  int (*cuStreamSynchronize)(uc_cuda_stream stream);
  int (*cuStreamIsCapturing)(uc_cuda_stream stream, int *status); /* 0: it is not */
  int (*cuEventCreate)(uc_cuda_event *event, unsigned flags);
  int (*cuEventDestroy)(uc_cuda_event event);
  int (*cuEventRecord)(uc_cuda_event event, uc_cuda_stream stream);
  int (*cuEventSynchronize)(uc_cuda_event event);
  int (*cuEventElapsedTime)(float *milliseconds, uc_cuda_event begin, uc_cuda_event end);

  int (*cuStreamBeginCapture)(uc_cuda_stream stream, int mode);
  int (*cuStreamEndCapture)(uc_cuda_stream stream, uc_cuda_graph *graph);
  int (*cuGraphInstantiate)(uc_cuda_graph_exec *exec, uc_cuda_graph graph,
                            unsigned long long flags);
  int (*cuGraphLaunch)(uc_cuda_graph_exec exec, uc_cuda_stream stream);
  int (*cuGraphExecDestroy)(uc_cuda_graph_exec exec);
  int (*cuGraphDestroy)(uc_cuda_graph graph);
} uc_cuda_driver;

enum { UC_CUDA_OLDEST_DRIVER = 12000 };

/* Loads and starts the driver once per process; it stays. UPCONV_DEVICE_ERROR: there is no library
   (and where it was looked for), it is too old, it does not start, or it sees no device. Every call
   tells the same. */
upconv_status uc_cuda_driver_get(const uc_cuda_driver **driver);

/* UPCONV_OK for 0, UPCONV_OUT_OF_MEMORY or UPCONV_DEVICE_ERROR with "what: NAME (text)" otherwise.
   what may be a whole sentence about the call: "cuLaunchKernel of scale_pool". */
upconv_status uc_cuda_check(const uc_cuda_driver *driver, int result, const char *what);

/* ---------------------------------------------------------------- devices */

typedef struct uc_cuda_device {
  const uc_cuda_driver *driver;
  int ordinal; /* as in "cuda:1" */
  int handle;  /* CUdevice */
  uc_cuda_context
      context; /* the primary one, which PyTorch and the CUDA runtime use too; NULL: not opened */
  char name[128];
  int major, minor; /* compute capability */
  int64_t memory_bytes;
  int l2_bytes, constant_bytes;
  int sm_count;
  int shared_per_block;       /* bytes that a block gets without asking */
  int shared_per_block_optin; /* ... and after setting UC_FUNCTION_MAX_DYNAMIC_SHARED_BYTES */
  int shared_per_sm;
  int shared_reserved; /* bytes of shared_per_sm that each block costs on top of its own */
  int registers_per_block, registers_per_sm;
  int threads_per_block, threads_per_sm, blocks_per_sm;
  int clock_khz, memory_clock_khz, memory_bus_bits; /* 0: the driver does not say */
} uc_cuda_device;

/* Fills in everything but the context. ordinal: 0 to device_count - 1. */
upconv_status uc_cuda_device_query(int ordinal, uc_cuda_device *device);

/* The same, and retains the primary context. Each open needs its close; several devices, and one
   device several times, are fine. */
upconv_status uc_cuda_device_open(int ordinal, uc_cuda_device *device);
void uc_cuda_device_close(uc_cuda_device *device); /* also one that is all zero or was closed */

/* Around driver calls: makes the device's context current for this thread, and gives the caller's
   back. Enter and leave nest, over several devices too. Leave only what was entered. */
upconv_status uc_cuda_enter(const uc_cuda_device *device);
void uc_cuda_leave(const uc_cuda_device *device);
/* Loads what was compiled; also while a stream of this thread is being captured. The device's context is current. */
upconv_status uc_cuda_load_module(const uc_cuda_device *device, const void *image,
                                  uc_cuda_module *module);

#endif
