/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for libcuda with two imaginary devices, so that everything up to a launch is tested
 * without a GPU. FAKE_DRIVER chooses what is wrong with it: stub every call fails, as the toolkit's
 * stub library does old it is of CUDA 11.4 init cuInit fails nodevice cuInit finds no device zero
 * there are zero devices retain there is no memory for a context attribute the device does not tell
 * its compute capability Built with FAKE_LACKING it is a driver that lacks nearly all functions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES = 2, STACK = 16 };

static int is_fault(const char *fault) {
  const char *given = getenv("FAKE_DRIVER");
  return given && strcmp(given, fault) == 0;
}

EXPORT int cuDriverGetVersion(int *version) {
  if (is_fault("stub")) return 34;
  *version = is_fault("old") ? 11040 : 12080;
  return 0;
}

#ifndef FAKE_LACKING

static int retained[DEVICES];
static int context_of[DEVICES]; /* their addresses are the contexts */
static _Thread_local void *stack[STACK];
static _Thread_local int depth;

EXPORT int fake_retained(int device) { return retained[device]; }
EXPORT int fake_depth(void) { return depth; }

EXPORT int cuInit(unsigned flags) {
  if (flags != 0) return 1;
  if (is_fault("stub")) return 34;
  if (is_fault("init")) return 999;
  return is_fault("nodevice") ? 100 : 0;
}

EXPORT int cuGetErrorName(int result, const char **name) {
  *name = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == 222 ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
          : result == 999 ? "CUDA_ERROR_UNKNOWN"
                          : NULL;
  return *name ? 0 : 1;
}

EXPORT int cuGetErrorString(int result, const char **text) {
  *text = result == 2     ? "out of memory"
          : result == 222 ? "the provided PTX was compiled with an unsupported toolchain."
          : result == 999 ? "unknown error"
                          : NULL;
  return *text ? 0 : 1;
}

EXPORT int cuDeviceGetCount(int *count) {
  *count = is_fault("zero") ? 0 : DEVICES;
  return 0;
}

/* Handles that differ from the ordinals. */
EXPORT int cuDeviceGet(int *device, int ordinal) {
  if (ordinal < 0 || ordinal >= DEVICES) return 101;
  *device = 100 + ordinal;
  return 0;
}

EXPORT int cuDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "Fake %d", device - 100);
  return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  *bytes = (size_t)(device - 99) << 34;
  return 0;
}

/* The numbers that NVIDIA gave the attributes, and what an H100 answers. */
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  static const int known[][2] = {
      {1, 1024},    {8, 49152},     {9, 65536},   {12, 65536}, {16, 132},
      {37, 5120},   {38, 52428800}, {39, 2048},   {75, 9},     {76, 0},
      {81, 233472}, {82, 65536},    {97, 232448}, {106, 32},   {111, 1024},
  };
  if (is_fault("attribute") && attribute == 75) return 1;
  if (attribute == 76 && device == 101) {
    *value = 3;
    return 0;
  }
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (known[i][0] == attribute) {
      *value = known[i][1];
      return 0;
    }
  return 1;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
  if (is_fault("retain")) return 2;
  retained[device - 100]++;
  *context = &context_of[device - 100];
  return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  if (retained[device - 100] == 0) return 201;
  retained[device - 100]--;
  return 0;
}

EXPORT int cuCtxPushCurrent_v2(void *context) {
  if (!context || depth == STACK) return 201;
  stack[depth++] = context;
  return 0;
}

EXPORT int cuCtxPopCurrent_v2(void **context) {
  if (depth == 0) return 201;
  *context = stack[--depth];
  return 0;
}

EXPORT int cuCtxGetCurrent(void **context) {
  *context = depth > 0 ? stack[depth - 1] : NULL;
  return 0;
}

/* There, and never called by a test without a GPU. */
#define UNSUPPORTED(name) \
  EXPORT int name(void) { return 801; }
UNSUPPORTED(cuModuleLoadData)
UNSUPPORTED(cuModuleUnload)
UNSUPPORTED(cuModuleGetFunction)
UNSUPPORTED(cuModuleGetGlobal_v2)
UNSUPPORTED(cuFuncGetAttribute)
UNSUPPORTED(cuFuncSetAttribute)
UNSUPPORTED(cuOccupancyMaxActiveBlocksPerMultiprocessor)
UNSUPPORTED(cuLaunchKernel)
UNSUPPORTED(cuMemGetInfo_v2)
UNSUPPORTED(cuMemAlloc_v2)
UNSUPPORTED(cuMemFree_v2)
UNSUPPORTED(cuMemcpyHtoDAsync_v2)
UNSUPPORTED(cuMemcpyDtoHAsync_v2)
UNSUPPORTED(cuMemcpyDtoDAsync_v2)
UNSUPPORTED(cuMemsetD8Async)
UNSUPPORTED(cuPointerGetAttribute)
UNSUPPORTED(cuStreamCreate)
UNSUPPORTED(cuStreamDestroy_v2)
UNSUPPORTED(cuStreamSynchronize)
UNSUPPORTED(cuStreamIsCapturing)
UNSUPPORTED(cuEventCreate)
UNSUPPORTED(cuEventDestroy_v2)
UNSUPPORTED(cuEventRecord)
UNSUPPORTED(cuEventSynchronize)
UNSUPPORTED(cuEventElapsedTime)
UNSUPPORTED(cuStreamBeginCapture_v2)
UNSUPPORTED(cuStreamEndCapture)
UNSUPPORTED(cuGraphInstantiateWithFlags)
UNSUPPORTED(cuGraphLaunch)
UNSUPPORTED(cuGraphExecDestroy)
UNSUPPORTED(cuGraphDestroy)

#endif
