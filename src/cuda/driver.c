/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "library.h"
#include "status.h"

/* What the first caller found; never changes afterwards. */
static struct {
  upconv_status status;
  char message[1024];
  uc_cuda_driver driver;
} loaded;

#define SYMBOL(name, version) \
  { #name version, offsetof(uc_cuda_driver, name) }

/* The version after a name is the one that headers have mapped the plain name to since CUDA 12. */
static const uc_library_symbol symbols[] = {
    SYMBOL(cuInit, ""),
    SYMBOL(cuDriverGetVersion, ""),
    SYMBOL(cuGetErrorName, ""),
    SYMBOL(cuGetErrorString, ""),
    SYMBOL(cuDeviceGetCount, ""),
    SYMBOL(cuDeviceGet, ""),
    SYMBOL(cuDeviceGetName, ""),
    SYMBOL(cuDeviceGetAttribute, ""),
    SYMBOL(cuDeviceTotalMem, "_v2"),
    SYMBOL(cuDevicePrimaryCtxRetain, ""),
    SYMBOL(cuDevicePrimaryCtxRelease, "_v2"),
    SYMBOL(cuCtxPushCurrent, "_v2"),
    SYMBOL(cuCtxPopCurrent, "_v2"),
    SYMBOL(cuCtxGetCurrent, ""),
    SYMBOL(cuThreadExchangeStreamCaptureMode, ""),
    SYMBOL(cuModuleLoadData, ""),
    SYMBOL(cuModuleUnload, ""),
    SYMBOL(cuModuleGetFunction, ""),
    SYMBOL(cuModuleGetGlobal, "_v2"),
    SYMBOL(cuFuncGetAttribute, ""),
    SYMBOL(cuFuncSetAttribute, ""),
    SYMBOL(cuTensorMapEncodeTiled, ""),
    SYMBOL(cuOccupancyMaxActiveBlocksPerMultiprocessor, ""),
    SYMBOL(cuLaunchKernelEx, ""),
    SYMBOL(cuLaunchKernel, ""),
    SYMBOL(cuMemGetInfo, "_v2"),
    SYMBOL(cuMemAlloc, "_v2"),
    SYMBOL(cuMemFree, "_v2"),
    SYMBOL(cuMemcpyHtoDAsync, "_v2"),
    SYMBOL(cuMemcpyDtoHAsync, "_v2"),
    SYMBOL(cuMemcpyDtoDAsync, "_v2"),
    SYMBOL(cuMemsetD8Async, ""),
    SYMBOL(cuPointerGetAttribute, ""),
    SYMBOL(cuStreamCreate, ""),
    SYMBOL(cuStreamDestroy, "_v2"),
    SYMBOL(cuStreamSynchronize, ""),
    SYMBOL(cuStreamIsCapturing, ""),
    SYMBOL(cuEventCreate, ""),
    SYMBOL(cuEventDestroy, "_v2"),
    SYMBOL(cuEventRecord, ""),
    SYMBOL(cuEventSynchronize, ""),
    SYMBOL(cuEventElapsedTime, ""),
    SYMBOL(cuStreamBeginCapture, "_v2"),
    SYMBOL(cuStreamEndCapture, ""),
    SYMBOL(cuGraphInstantiate, "WithFlags"),
    SYMBOL(cuGraphLaunch, ""),
    SYMBOL(cuGraphExecDestroy, ""),
    SYMBOL(cuGraphDestroy, ""),
};

/* dlsym hands out data pointers, which C does not convert to functions. */
typedef int (*get_version_function)(int *version);

static get_version_function find_get_version(void *handle) {
  void *symbol = dlsym(handle, "cuDriverGetVersion");
  get_version_function get_version = NULL;
  memcpy(&get_version, &symbol, sizeof get_version);
  return get_version;
}

/* Toolkits bring a stand-in for the driver to link programs with. It answers everything with one
   error. */
static const char *reject(void *handle) {
  get_version_function get_version = find_get_version(handle);
  if (!get_version) return "is not a CUDA driver";
  int version = 0;
  if (get_version(&version) == UC_CUDA_STUB_LIBRARY)
    return "is the toolkit's stub for linking, not a driver";
  return NULL;
}

static upconv_status open_library(uc_library *library) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  static const char *const folders[] = {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", NULL};
  static const uc_library_wanted wanted = {
      .what = "the NVIDIA driver library",
      .variable = "UPCONV_LIBCUDA",
      .names = names,
      .folders = folders,
      .reject = reject,
  };
  return uc_library_open(&wanted, library);
}

static upconv_status check_version(const uc_library *library, int *version) {
  int result = find_get_version(library->handle)(version);
  if (result != UC_CUDA_SUCCESS)
    return uc_fail(UPCONV_DEVICE_ERROR, "%s: cuDriverGetVersion: error %d", library->path, result);
  if (*version < UC_CUDA_OLDEST_DRIVER)
    return uc_fail(UPCONV_DEVICE_ERROR,
                   "the NVIDIA driver is too old: %s supports CUDA %d.%d, and 12.0 is needed",
                   library->path, *version / 1000, *version % 1000 / 10);
  return UPCONV_OK;
}

static upconv_status fail_without_device(const uc_cuda_driver *driver) {
  const char *visible = getenv("CUDA_VISIBLE_DEVICES");
  return uc_fail(
      UPCONV_DEVICE_ERROR, "no CUDA device: the driver %s (CUDA %d.%d) sees none%s%.64s%s",
      driver->path, driver->version / 1000, driver->version % 1000 / 10,
      visible ? " (CUDA_VISIBLE_DEVICES = \"" : "", visible ? visible : "", visible ? "\")" : "");
}

static upconv_status start(uc_cuda_driver *driver) {
  int result = driver->cuInit(0);
  if (result == UC_CUDA_NO_DEVICE) return fail_without_device(driver);
  upconv_status status = uc_cuda_check(driver, result, "the NVIDIA driver does not start: cuInit");
  if (status != UPCONV_OK) return status;
  result = driver->cuDeviceGetCount(&driver->device_count);
  status = uc_cuda_check(driver, result, "cuDeviceGetCount");
  if (status != UPCONV_OK) return status;
  return driver->device_count > 0 ? UPCONV_OK : fail_without_device(driver);
}

static upconv_status load(uc_cuda_driver *driver) {
  uc_library library;
  upconv_status status = open_library(&library);
  if (status != UPCONV_OK) return status;
  driver->path = library.path;
  status = check_version(&library, &driver->version);
  if (status == UPCONV_OK)
    status = uc_library_symbols(&library, symbols, sizeof symbols / sizeof symbols[0], driver);
  if (status == UPCONV_OK) status = start(driver);
  return status;
}

static void load_once(void) {
  loaded.status = load(&loaded.driver);
  if (loaded.status != UPCONV_OK)
    snprintf(loaded.message, sizeof loaded.message, "%s", upconv_last_error());
}

upconv_status uc_cuda_driver_get(const uc_cuda_driver **driver) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, load_once);
  if (loaded.status != UPCONV_OK) return uc_fail(loaded.status, "%s", loaded.message);
  *driver = &loaded.driver;
  return UPCONV_OK;
}

static const char *find_hint(int result) {
  switch (result) {
  case UC_CUDA_NO_BINARY_FOR_GPU:
    return "; compiled for another device";
  case UC_CUDA_UNSUPPORTED_PTX_VERSION:
    return "; the driver is older than the compiler: update it, or name an older libnvrtc in "
           "UPCONV_NVRTC";
  case UC_CUDA_SYSTEM_DRIVER_MISMATCH:
    return "; after an update of the driver, the machine must be restarted";
  default:
    return "";
  }
}

upconv_status uc_cuda_check(const uc_cuda_driver *driver, int result, const char *what) {
  if (result == UC_CUDA_SUCCESS) return UPCONV_OK;
  const char *name = NULL, *text = NULL;
  if (driver->cuGetErrorName(result, &name) != UC_CUDA_SUCCESS || !name) name = "unknown error";
  if (driver->cuGetErrorString(result, &text) != UC_CUDA_SUCCESS || !text) text = "no description";
  upconv_status status =
      result == UC_CUDA_OUT_OF_MEMORY ? UPCONV_OUT_OF_MEMORY : UPCONV_DEVICE_ERROR;
  return uc_fail(status, "%s: %s (%d: %s)%s", what, name, result, text, find_hint(result));
}
