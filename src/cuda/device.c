/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "driver.h"
#include "status.h"

typedef struct attribute {
  size_t offset; /* of an int in uc_cuda_device */
  int number;
  bool required;
} attribute;

static const attribute attributes[] = {
    {offsetof(uc_cuda_device, major), UC_DEVICE_CAPABILITY_MAJOR, true},
    {offsetof(uc_cuda_device, minor), UC_DEVICE_CAPABILITY_MINOR, true},
    {offsetof(uc_cuda_device, l2_bytes), UC_DEVICE_L2_BYTES, true},
    {offsetof(uc_cuda_device, constant_bytes), UC_DEVICE_CONSTANT_MEMORY, true},
    {offsetof(uc_cuda_device, sm_count), UC_DEVICE_SM_COUNT, true},
    {offsetof(uc_cuda_device, shared_per_block), UC_DEVICE_SHARED_PER_BLOCK, true},
    {offsetof(uc_cuda_device, shared_per_block_optin), UC_DEVICE_SHARED_PER_BLOCK_OPTIN, true},
    {offsetof(uc_cuda_device, shared_per_sm), UC_DEVICE_SHARED_PER_SM, true},
    {offsetof(uc_cuda_device, shared_reserved), UC_DEVICE_SHARED_RESERVED, true},
    {offsetof(uc_cuda_device, registers_per_block), UC_DEVICE_REGISTERS_PER_BLOCK, true},
    {offsetof(uc_cuda_device, registers_per_sm), UC_DEVICE_REGISTERS_PER_SM, true},
    {offsetof(uc_cuda_device, threads_per_block), UC_DEVICE_MAX_THREADS_PER_BLOCK, true},
    {offsetof(uc_cuda_device, threads_per_sm), UC_DEVICE_THREADS_PER_SM, true},
    {offsetof(uc_cuda_device, blocks_per_sm), UC_DEVICE_BLOCKS_PER_SM, true},
    /* Good to know, and on their way out of CUDA. */
    {offsetof(uc_cuda_device, clock_khz), UC_DEVICE_CLOCK_KHZ, false},
    {offsetof(uc_cuda_device, memory_clock_khz), UC_DEVICE_MEMORY_CLOCK_KHZ, false},
    {offsetof(uc_cuda_device, memory_bus_bits), UC_DEVICE_MEMORY_BUS_BITS, false},
};

static upconv_status query_attributes(uc_cuda_device *device) {
  const uc_cuda_driver *driver = device->driver;
  for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++) {
    const attribute *a = &attributes[i];
    int value = 0;
    int result = driver->cuDeviceGetAttribute(&value, a->number, device->handle);
    if (result != UC_CUDA_SUCCESS && a->required) {
      upconv_status status = uc_cuda_check(driver, result, "cuDeviceGetAttribute");
      return uc_fail_in(status, "attribute %d", a->number);
    }
    *(int *)(void *)((char *)device + a->offset) = result == UC_CUDA_SUCCESS ? value : 0;
  }
  return UPCONV_OK;
}

static upconv_status query(uc_cuda_device *device) {
  const uc_cuda_driver *driver = device->driver;
  int result = driver->cuDeviceGet(&device->handle, device->ordinal);
  upconv_status status = uc_cuda_check(driver, result, "cuDeviceGet");
  if (status != UPCONV_OK) return status;
  result = driver->cuDeviceGetName(device->name, (int)sizeof device->name, device->handle);
  status = uc_cuda_check(driver, result, "cuDeviceGetName");
  if (status != UPCONV_OK) return status;
  size_t bytes = 0;
  result = driver->cuDeviceTotalMem(&bytes, device->handle);
  status = uc_cuda_check(driver, result, "cuDeviceTotalMem");
  if (status != UPCONV_OK) return status;
  device->memory_bytes = (int64_t)bytes;
  return query_attributes(device);
}

upconv_status uc_cuda_device_query(int ordinal, uc_cuda_device *device) {
  const uc_cuda_driver *driver;
  upconv_status status = uc_cuda_driver_get(&driver);
  if (status != UPCONV_OK) return status;
  if (ordinal < 0 || ordinal >= driver->device_count)
    return uc_fail(UPCONV_INVALID_ARGUMENT, "device cuda:%d: there %s %d, counted from 0", ordinal,
                   driver->device_count == 1 ? "is" : "are", driver->device_count);
  uc_cuda_device found = {.driver = driver, .ordinal = ordinal};
  status = query(&found);
  if (status != UPCONV_OK) return uc_fail_in(status, "device cuda:%d", ordinal);
  *device = found;
  return UPCONV_OK;
}

upconv_status uc_cuda_device_open(int ordinal, uc_cuda_device *device) {
  uc_cuda_device found;
  upconv_status status = uc_cuda_device_query(ordinal, &found);
  if (status != UPCONV_OK) return status;
  int result = found.driver->cuDevicePrimaryCtxRetain(&found.context, found.handle);
  status = uc_cuda_check(found.driver, result, "cuDevicePrimaryCtxRetain");
  if (status != UPCONV_OK) return uc_fail_in(status, "device cuda:%d", ordinal);
  *device = found;
  return UPCONV_OK;
}

void uc_cuda_device_close(uc_cuda_device *device) {
  if (!device->context) return;
  device->driver->cuDevicePrimaryCtxRelease(device->handle);
  device->context = NULL;
}

upconv_status uc_cuda_enter(const uc_cuda_device *device) {
  int result = device->driver->cuCtxPushCurrent(device->context);
  return uc_cuda_check(device->driver, result, "cuCtxPushCurrent");
}

void uc_cuda_leave(const uc_cuda_device *device) {
  uc_cuda_context popped;
  device->driver->cuCtxPopCurrent(&popped);
}

upconv_status uc_cuda_load_module(const uc_cuda_device *device, const void *image,
                                  uc_cuda_module *module) {
  enum { CAPTURE_MODE_RELAXED = 2 };
  int mode = CAPTURE_MODE_RELAXED;
  bool exchanged = device->driver->cuThreadExchangeStreamCaptureMode(&mode) == 0;
  int result = device->driver->cuModuleLoadData(module, image);
  if (exchanged) device->driver->cuThreadExchangeStreamCaptureMode(&mode);
  return uc_cuda_check(device->driver, result, "loading a compiled kernel");
}
