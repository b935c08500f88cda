/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as a device: one stream, memory of its own, and the kernels of plain tasks. */
#include "../cuda/memory.h"
#include "../cuda/plain.h"
#include "../plan.h"
#include "../status.h"
#include "device.h"

/* cuMemAlloc's. */
enum { ALIGNMENT = 256 };

/* Something also where nothing is wanted: the library refuses NULL. */
static upconv_status allocate(const uc_device *device, size_t bytes, void **memory) {
  return uc_cuda_memory_alloc(device->context, bytes ? bytes : 1, memory);
}

static void release(const uc_device *device, void *memory) {
  uc_cuda_memory_free(device->context, memory);
}

static upconv_status upload(const uc_device *device, const void *host, size_t bytes, void *to) {
  return uc_cuda_memory_upload(device->context, to, host, bytes, device->stream);
}

static upconv_status download(const uc_device *device, const void *from, size_t bytes, void *host) {
  return uc_cuda_memory_download(device->context, host, from, bytes, device->stream);
}

static upconv_status finish(const uc_device *device) {
  return uc_cuda_stream_wait(device->context, device->stream);
}

static void close_device(uc_device *device) {
  uc_cuda_plain_set_destroy(device->plain);
  uc_cuda_stream_destroy(device->context, device->stream);
}

static const uc_device_kind cuda = {
    true,
    ALIGNMENT,
    allocate,
    release,
    upload,
    download,
    finish,
    uc_device_plain_copy,
    uc_device_plain_prepare,
    uc_device_plain_discard,
    uc_device_plain_run,
    close_device,
};

/* A context that only plans has no stream and no memory: running fails when it asks for some. */
upconv_status uc_device_open_cuda(const upconv_context *context, uc_device *device) {
  size_t memory = uc_onnx_machine_memory();
  uc_cuda_stream stream = NULL;
  uc_plain_set *set = NULL;
  upconv_status status = uc_cuda_plain_set_create(context, &set);
  if (!status && context->device) {
    size_t total = (size_t)context->device->memory_bytes;
    if (total < memory) memory = total;
    status = uc_cuda_stream_create(context, &stream);
  }
  if (status) {
    uc_cuda_plain_set_destroy(set);
    return status;
  }
  *device = (uc_device){
      .kind = &cuda, .context = context, .memory = memory, .stream = stream, .plain = set};
  return UPCONV_OK;
}
