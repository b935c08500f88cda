/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include "../plan.h"
#include "../status.h"

bool uc_cuda_has_device(const upconv_context *context) { return context && context->device; }

/* The device's context is current when this succeeds; leave() gives the caller's back. */
static upconv_status enter(const upconv_context *context) {
  if (!uc_cuda_has_device(context))
    return uc_fail(UPCONV_DEVICE_ERROR, "context: %s; there is no device to keep data on",
                   context ? context->describe : "NULL");
  return uc_cuda_enter(context->device);
}

static void leave(const upconv_context *context) { uc_cuda_leave(context->device); }

static const uc_cuda_driver *driver_of(const upconv_context *context) {
  return context->device->driver;
}

static uc_cuda_pointer address(const void *memory) { return (uc_cuda_pointer)(uintptr_t)memory; }

upconv_status uc_cuda_memory_alloc(const upconv_context *context, size_t bytes, void **memory) {
  uc_cuda_pointer found = 0;
  *memory = NULL;
  upconv_status status = enter(context);
  if (status != UPCONV_OK) return status;
  if (bytes > 0)
    status = uc_cuda_check(driver_of(context), driver_of(context)->cuMemAlloc(&found, bytes),
                           "device memory");
  leave(context);
  if (status != UPCONV_OK) return uc_fail_in(status, "%zu bytes", bytes);
  *memory = (void *)(uintptr_t)found; // NOLINT(performance-no-int-to-ptr)
  return UPCONV_OK;
}

void uc_cuda_memory_free(const upconv_context *context, void *memory) {
  if (!memory || enter(context) != UPCONV_OK) return;
  driver_of(context)->cuMemFree(address(memory));
  leave(context);
}

upconv_status uc_cuda_memory_info(const upconv_context *context, size_t *available, size_t *total) {
  upconv_status status = enter(context);
  if (status != UPCONV_OK) return status;
  status = uc_cuda_check(driver_of(context), driver_of(context)->cuMemGetInfo(available, total),
                         "cuMemGetInfo");
  leave(context);
  return status;
}

upconv_status uc_cuda_memory_upload(const upconv_context *context, void *to, const void *from,
                                    size_t bytes, uc_cuda_stream stream) {
  upconv_status status = enter(context);
  if (status != UPCONV_OK) return status;
  if (bytes > 0)
    status = uc_cuda_check(driver_of(context),
                           driver_of(context)->cuMemcpyHtoDAsync(address(to), from, bytes, stream),
                           "a copy to the device");
  leave(context);
  return status;
}

upconv_status uc_cuda_memory_download(const upconv_context *context, void *to, const void *from,
                                      size_t bytes, uc_cuda_stream stream) {
  upconv_status status = enter(context);
  if (status != UPCONV_OK) return status;
  if (bytes > 0)
    status = uc_cuda_check(driver_of(context),
                           driver_of(context)->cuMemcpyDtoHAsync(to, address(from), bytes, stream),
                           "a copy to the host");
  leave(context);
  return status;
}

upconv_status uc_cuda_memory_copy(const upconv_context *context, void *to, const void *from,
                                  size_t bytes, uc_cuda_stream stream) {
  upconv_status status = enter(context);
  if (status != UPCONV_OK) return status;
  if (bytes > 0)
    status = uc_cuda_check(
        driver_of(context),
        driver_of(context)->cuMemcpyDtoDAsync(address(to), address(from), bytes, stream),
        "a copy on the device");
  leave(context);
  return status;
}

upconv_status uc_cuda_stream_create(const upconv_context *context, uc_cuda_stream *stream) {
  *stream = NULL;
  upconv_status status = enter(context);
  if (status != UPCONV_OK) return status;
  status = uc_cuda_check(driver_of(context),
                         driver_of(context)->cuStreamCreate(stream, UC_STREAM_NON_BLOCKING),
                         "cuStreamCreate");
  leave(context);
  return status;
}

void uc_cuda_stream_destroy(const upconv_context *context, uc_cuda_stream stream) {
  if (!stream || enter(context) != UPCONV_OK) return;
  driver_of(context)->cuStreamDestroy(stream);
  leave(context);
}

upconv_status uc_cuda_stream_wait(const upconv_context *context, uc_cuda_stream stream) {
  upconv_status status = enter(context);
  if (status != UPCONV_OK) return status;
  status = uc_cuda_check(driver_of(context), driver_of(context)->cuStreamSynchronize(stream),
                         "work on the device");
  leave(context);
  return status;
}
