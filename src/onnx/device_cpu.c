/* SPDX-License-Identifier: Apache-2.0 */
/* The host as a device, and the choice between devices. */
#include <stdlib.h>
#include <string.h>

#include "../plan.h"
#include "../status.h"
#include "device.h"
#include "parallel.h"

enum { ALIGNMENT = 64 };

static upconv_status allocate(const uc_device *device, size_t bytes, void **memory) {
  void *made = NULL;
  if (bytes > device->memory || posix_memalign(&made, ALIGNMENT, bytes ? bytes : 1))
    return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for %zu bytes", bytes);
  *memory = made;
  return UPCONV_OK;
}

static void release(const uc_device *device, void *memory) {
  (void)device;
  free(memory);
}

static upconv_status move(const uc_device *device, const void *from, size_t bytes, void *to) {
  (void)device;
  if (bytes) memcpy(to, from, bytes);
  return UPCONV_OK;
}

static upconv_status finish(const uc_device *device) {
  (void)device;
  return UPCONV_OK;
}

static upconv_status copy(const uc_device *device, const uc_view *from, const uc_view *to) {
  (void)device;
  uc_view_copy(from, to);
  return UPCONV_OK;
}

static upconv_status prepare(const uc_device *device, const uc_onnx_task *task, const uc_view *in,
                             const uc_view *out, void **work, size_t *workspace) {
  (void)device, (void)task, (void)in, (void)out;
  *work = NULL;
  *workspace = 0;
  return UPCONV_OK;
}

static void discard(void *work) { (void)work; }

static upconv_status run(const uc_device *device, const uc_onnx_task *task, const void *work,
                         const uc_view *in, const uc_view *out, void *workspace) {
  (void)work, (void)workspace;
  if (task->op->family == UC_FAMILY_VIEW)
    uc_view_copy(&in[0], out);
  else
    uc_run_parallel(device->context->threads, task, in, out);
  return UPCONV_OK;
}

static void close_nothing(uc_device *device) { (void)device; }

static const uc_device_kind cpu = {false,  ALIGNMENT, allocate, release, move, move,
                                   finish, copy,      prepare,  discard, run,  close_nothing};

upconv_status uc_device_open_cpu(const upconv_context *context, uc_device *device) {
  *device = (uc_device){.kind = &cpu, .context = context, .memory = uc_onnx_machine_memory()};
  return UPCONV_OK;
}

const uc_device *uc_device_host(void) {
  static const uc_device host = {.kind = &cpu, .memory = SIZE_MAX};
  return &host;
}

/* ---- the choice ---- */

upconv_status uc_device_open(const upconv_context *context, uc_device **device) {
  uc_device *d = uc_onnx_new(1, sizeof *d);
  if (!d) return UPCONV_OUT_OF_MEMORY;
  upconv_status status =
      context->target ? uc_device_open_cuda(context, d) : uc_device_open_cpu(context, d);
  if (status)
    free(d);
  else
    *device = d;
  return status;
}

void uc_device_close(uc_device *device) {
  if (!device) return;
  device->kind->close(device);
  free(device);
}
