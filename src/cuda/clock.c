/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <stdlib.h>

#include "../plan.h"
#include "../status.h"
#include "cache.h"
#include "codegen.h"
#include "engine.h"
#include "memory.h"

enum { THREADS = 256, BLOCKS_PER_SM = 8, ELEMENT_BYTES = 16 }; /* as evict.cu has them */

struct uc_cuda_clock {
  const upconv_context *context;
  const uc_cuda_driver *driver;
  uc_cuda_module module;
  uc_cuda_function evict;
  uc_cuda_event event[2];
  void *buffer;
};

/* ---- driver calls, with the device's context current ---- */

static upconv_status check(const uc_cuda_clock *c, int result, const char *what) {
  return uc_cuda_check(c->driver, result, what);
}

static upconv_status load(uc_cuda_clock *c) {
  void *image = NULL;
  size_t size;
  upconv_status status = uc_cuda_cache_get(uc_cuda_embedded("evict"), c->context->target->arch,
                                           NULL, 0, &image, &size, NULL);
  if (!status) status = uc_cuda_load_module(c->context->device, image, &c->module);
  free(image);
  if (status) return status;
  return check(c, c->driver->cuModuleGetFunction(&c->evict, c->module, "evict"), "evict");
}

static upconv_status prepare(uc_cuda_clock *c) {
  upconv_status status = load(c);
  for (int i = 0; i < 2 && !status; i++)
    status = check(c, c->driver->cuEventCreate(&c->event[i], UC_EVENT_DEFAULT), "cuEventCreate");
  if (!status) status = uc_cuda_memory_alloc(c->context, UC_CUDA_CLOCK_BYTES, &c->buffer);
  if (!status)
    status =
        check(c, c->driver->cuMemsetD8Async((uintptr_t)c->buffer, 1, UC_CUDA_CLOCK_BYTES, NULL),
              "cuMemsetD8");
  return status ? status : uc_cuda_stream_wait(c->context, NULL);
}

static upconv_status evict(const uc_cuda_clock *c, void *stream) {
  uc_cuda_pointer from = (uintptr_t)c->buffer;
  long long count = UC_CUDA_CLOCK_BYTES / ELEMENT_BYTES;
  void *parameters[] = {&from, &count, &from};
  unsigned blocks = (unsigned)(c->context->target->sm_count * BLOCKS_PER_SM);
  return check(
      c,
      c->driver->cuLaunchKernel(c->evict, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL),
      "cuLaunchKernel of evict");
}

static upconv_status record(const uc_cuda_clock *c, int i, void *stream) {
  return check(c, c->driver->cuEventRecord(c->event[i], stream), "cuEventRecord");
}

static upconv_status read_events(const uc_cuda_clock *c, double *seconds) {
  float milliseconds = 0;
  upconv_status status =
      check(c, c->driver->cuEventSynchronize(c->event[1]), "running on the device");
  if (!status)
    status = check(c, c->driver->cuEventElapsedTime(&milliseconds, c->event[0], c->event[1]),
                   "cuEventElapsedTime");
  *seconds = 1e-3 * (double)milliseconds;
  return status;
}

/* ---- life ---- */

upconv_status uc_cuda_clock_open(const upconv_context *context, uc_cuda_clock **result) {
  uc_cuda_clock *c = calloc(1, sizeof *c);
  if (!c) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory for a clock");
  c->context = context;
  c->driver = context->device->driver;
  upconv_status status = uc_cuda_enter(context->device);
  if (!status) {
    status = prepare(c);
    uc_cuda_leave(context->device);
  }
  if (status)
    uc_cuda_clock_close(c);
  else
    *result = c;
  return status;
}

void uc_cuda_clock_close(uc_cuda_clock *c) {
  if (!c) return;
  uc_cuda_memory_free(c->context, c->buffer);
  if (uc_cuda_enter(c->context->device) == UPCONV_OK) {
    for (int i = 0; i < 2; i++)
      if (c->event[i]) c->driver->cuEventDestroy(c->event[i]);
    if (c->module) c->driver->cuModuleUnload(c->module);
    uc_cuda_leave(c->context->device);
  }
  free(c);
}

void *uc_cuda_clock_buffer(const uc_cuda_clock *c) { return c->buffer; }

upconv_status uc_cuda_clock_time(uc_cuda_clock *c, void *stream, bool cold,
                                 upconv_status (*run)(void *data), void *data, double *seconds) {
  upconv_status status = uc_cuda_enter(c->context->device);
  if (status) return status;
  if (cold) status = evict(c, stream);
  if (!status) status = record(c, 0, stream);
  if (!status) status = run(data);
  if (!status) status = record(c, 1, stream);
  if (!status) status = read_events(c, seconds);
  uc_cuda_leave(c->context->device);
  return status;
}
