/* SPDX-License-Identifier: Apache-2.0 */
/* Measuring candidates on a GPU, on a stream and in memory of its own. */
#include "../meter.h"

#include <stdlib.h>

#include "../plan.h"
#include "../status.h"
#include "clock.h"
#include "memory.h"

typedef struct cuda_meter {
  uc_meter meter;
  const upconv_context *context;
  uc_cuda_clock *clock;
  uc_cuda_stream stream;
  int capture_mode; /* the thread's, to be given back */
} cuda_meter;

/* Another library's stream may be in the middle of a capture that this thread began. Where that shows, nothing is measured;
   streams that do not wait for the default one do not show, so the thread is told that what it does on the meter's own
   stream has nothing to do with any capture. */
static upconv_status check_capture(const upconv_context *context) {
  const uc_cuda_driver *driver = context->device->driver;
  upconv_status status = uc_cuda_enter(context->device);
  if (status) return status;
  int capturing = 0, result = driver->cuStreamIsCapturing(NULL, &capturing);
  uc_cuda_leave(context->device);
  if (result == UC_CUDA_SUCCESS && !capturing) return UPCONV_OK;
  return uc_fail(UPCONV_DEVICE_ERROR,
                 "a stream of %s is being captured: nothing can be measured meanwhile",
                 context->describe);
}

static void exchange_capture_mode(cuda_meter *m) {
  m->context->device->driver->cuThreadExchangeStreamCaptureMode(&m->capture_mode);
}

static void close_meter(uc_meter *meter) {
  cuda_meter *m = (cuda_meter *)meter;
  uc_cuda_clock_close(m->clock);
  uc_cuda_stream_destroy(m->context, m->stream);
  exchange_capture_mode(m);
  free(m);
}

static upconv_status open_meter(upconv_context *context, uc_meter **result) {
  upconv_status status = check_capture(context);
  if (status) return status;
  cuda_meter *m = calloc(1, sizeof *m);
  if (!m) return uc_fail(UPCONV_OUT_OF_MEMORY, "no memory to measure with");
  m->meter.kind = &uc_meter_cuda;
  m->context = context;
  m->capture_mode = UC_CAPTURE_RELAXED;
  exchange_capture_mode(m);
  status = uc_cuda_stream_create(context, &m->stream);
  if (!status) status = uc_cuda_clock_open(context, &m->clock);
  if (status) {
    close_meter(&m->meter);
    return status;
  }
  m->meter.stream = m->stream;
  *result = &m->meter;
  return UPCONV_OK;
}

static upconv_status allocate(uc_meter *meter, size_t bytes, void **memory) {
  return uc_cuda_memory_alloc(((cuda_meter *)meter)->context, bytes > 0 ? bytes : 1, memory);
}

static void release(uc_meter *meter, void *memory) {
  uc_cuda_memory_free(((cuda_meter *)meter)->context, memory);
}

static upconv_status upload(uc_meter *meter, void *to, const void *from, size_t bytes) {
  const cuda_meter *m = (cuda_meter *)meter;
  upconv_status status = uc_cuda_memory_upload(m->context, to, from, bytes, m->stream);
  return status ? status : uc_cuda_stream_wait(m->context, m->stream);
}

static upconv_status time_run(uc_meter *meter, upconv_status (*run)(void *data), void *data,
                              double *seconds) {
  cuda_meter *m = (cuda_meter *)meter;
  return uc_cuda_clock_time(m->clock, m->stream, true, run, data, seconds);
}

const uc_meter_kind uc_meter_cuda = {
    .open = open_meter,
    .close = close_meter,
    .allocate = allocate,
    .release = release,
    .upload = upload,
    .time = time_run,
};
